"""Stages: a rate of arrivals that changes over time, and the words that describe it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from harness.core.errors import UsageError

_NUMBER = r"(\d+\.?\d*|\.\d+)"
_STAGE = re.compile(rf"{_NUMBER}(?:-{_NUMBER})?:{_NUMBER}")


@dataclass(frozen=True, slots=True)
class Stage:
    """Poisson arrivals for `duration_s`, at a rate that goes in a line from start to end.

    Rates are requests a second; the two are equal in a stage of constant rate, and 0 in a pause.
    """

    start_rps: float
    end_rps: float
    duration_s: float

    @property
    def expected_requests(self) -> float:
        """How many requests arrive on average: the area under the rate."""
        return (self.start_rps + self.end_rps) / 2 * self.duration_s

    def seconds_until(self, expected: float) -> float:
        """When `expected` requests have arrived on average, in seconds from the stage's start.

        The positive root of start*t + (end - start)*t^2 / (2*duration) = expected, in the form that
        loses no digits when the two rates are nearly equal.
        """
        if expected <= 0:
            return 0.0
        growth = 2 * (self.end_rps - self.start_rps) * expected / self.duration_s
        rate_then = math.sqrt(max(0.0, self.start_rps**2 + growth))
        return 2 * expected / (self.start_rps + rate_then)

    def __str__(self) -> str:
        """Such as `2/s over 30 s`, or `1-4/s over 60 s` when the rate changes."""
        rates = dict.fromkeys((f"{self.start_rps:g}", f"{self.end_rps:g}"))
        return f"{'-'.join(rates)}/s over {self.duration_s:g} s"


def parse_stages(text: str) -> tuple[Stage, ...]:
    """The stages that `text` lists, such as `1:30,2:30,1-4:60`: rate:seconds, a-b for a ramp.

    Raises UsageError naming --stages and the part that is wrong.
    """
    stages = tuple(_parse_stage(part.strip()) for part in text.split(","))
    if not any(stage.expected_requests for stage in stages):
        msg = f"--stages is {text!r}; one stage at least must have a rate above 0"
        raise UsageError(msg)
    return stages


def _parse_stage(part: str) -> Stage:
    found = _STAGE.fullmatch(part)
    if found is None:
        msg = (
            f"--stages has {part!r}; write each stage as rate:seconds, or from-to:seconds for a "
            "ramp, such as 1:30,2:30,1-4:60"
        )
        raise UsageError(msg)
    start, end, seconds = found.groups()
    stage = Stage(float(start), float(start if end is None else end), float(seconds))
    if stage.duration_s <= 0 or not math.isfinite(stage.expected_requests):
        msg = f"--stages has {part!r}; a stage lasts a number of seconds above 0"
        raise UsageError(msg)
    return stage
