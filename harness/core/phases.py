"""Phases: a rate of arrivals that jumps at random, and the words that describe it.

A Markov-modulated Poisson process; see Fischer and Meier-Hellstern, "The Markov-modulated Poisson
process cookbook", Performance Evaluation 18 (1993).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.errors import UsageError

_NUMBER = r"(\d+\.?\d*|\.\d+)"
_PHASE = re.compile(rf"{_NUMBER}:{_NUMBER}")
_FEWEST_PHASES = 2


@dataclass(frozen=True, slots=True)
class Phase:
    """Poisson arrivals of one rate, for a time that is exponential with mean `mean_s`.

    `rate_rps` is in requests a second, and 0 where nobody sends.
    """

    rate_rps: float
    mean_s: float

    def __str__(self) -> str:
        """Such as `30/s for 5 s`."""
        return f"{self.rate_rps:g}/s for {self.mean_s:g} s"


def parse_phases(text: str) -> tuple[Phase, ...]:
    """The phases that `text` lists, such as `30:5,3:15`: rate:seconds, each after the one before.

    Raises UsageError naming --mmpp and the part that is wrong.
    """
    phases = tuple(_parse_phase(part.strip()) for part in text.split(","))
    if len(phases) < _FEWEST_PHASES or not any(phase.rate_rps for phase in phases):
        msg = f"--mmpp is {text!r}; it needs two phases at least, one with a rate above 0"
        raise UsageError(msg)
    return phases


def at_mean_rate(phases: Sequence[Phase], rate_rps: float) -> str:
    """The words for `phases` with all rates multiplied, so that their mean is `rate_rps`."""
    mean_rps = sum(p.rate_rps * p.mean_s for p in phases) / sum(p.mean_s for p in phases)
    return ",".join(
        f"{_plain(p.rate_rps * rate_rps / mean_rps)}:{_plain(p.mean_s)}" for p in phases
    )


def _plain(number: float) -> str:
    """Without an exponent, to nine digits after the point."""
    return f"{number:.9f}".rstrip("0").rstrip(".")


def _parse_phase(part: str) -> Phase:
    found = _PHASE.fullmatch(part)
    if found is None:
        msg = f"--mmpp has {part!r}; write each phase as rate:seconds, such as 30:5,3:15"
        raise UsageError(msg)
    phase = Phase(*map(float, found.groups()))
    if phase.mean_s <= 0 or not math.isfinite(phase.rate_rps * phase.mean_s):
        msg = f"--mmpp has {part!r}; a phase lasts a number of seconds above 0"
        raise UsageError(msg)
    return phase
