"""Service level objectives: what a request must keep to so that it counts as a good one."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from harness.core.errors import UsageError
from harness.core.flag import Flag

# What a limit may be set on, and the column of the requests that it is held against.
SLO_COLUMNS = {
    "ttft": "ttft_s",
    "tpot": "tpot_s",
    "e2e": "e2e_s",
    "normalized_latency": "normalized_latency_s",
}
Slos = Annotated[
    tuple[str, ...],
    Flag(
        "A limit that a good request keeps to, such as ttft=500ms, tpot=50ms or e2e=10s; may be "
        "repeated. Goodput counts those that keep to all.",
        "--slo",
    ),
]
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_LIMIT = re.compile(r"(\d+\.?\d*|\.\d+)\s*(us|ms|s|min)")


@dataclass(frozen=True, slots=True)
class Slo:
    """One limit on one latency of a request, met when the latency is not above it.

    `latency` is one of SLO_COLUMNS.
    """

    latency: str
    limit_s: float

    def __str__(self) -> str:
        """As it is typed, such as `ttft=500ms`."""
        number, unit = (self.limit_s * 1e3, "ms") if self.limit_s < 1 else (self.limit_s, "s")
        return f"{self.latency}={number:g}{unit}"


def parse_slos(texts: Sequence[str]) -> tuple[Slo, ...]:
    """The limits in `texts`, such as `ttft=500ms`, ordered by latency.

    Raises UsageError naming --slo and the text that is wrong, or the latency that has two limits.
    """
    slos = tuple(sorted(map(_parse_slo, texts), key=lambda slo: slo.latency))
    for slo, after in pairwise(slos):
        if slo.latency == after.latency:
            msg = f"--slo has two limits on {slo.latency}, {slo} and {after}; give one"
            raise UsageError(msg)
    return slos


def parse_seconds(text: str) -> float | None:
    """The seconds that a text such as `500ms` or `2s` stands for; None when it is no such text."""
    found = _LIMIT.fullmatch(text.strip())
    if found is None:
        return None
    seconds = float(found[1]) * _SECONDS[found[2]]
    return seconds if 0 < seconds < math.inf else None


def _parse_slo(text: str) -> Slo:
    latency, _, limit = text.partition("=")
    limit_s = parse_seconds(limit)
    if latency.strip() not in SLO_COLUMNS or limit_s is None:
        msg = (
            f"--slo is {text!r}; write latency=limit such as ttft=500ms, with a latency of "
            f"{', '.join(SLO_COLUMNS)} and a limit in {', '.join(_SECONDS)}"
        )
        raise UsageError(msg)
    return Slo(latency.strip(), limit_s)
