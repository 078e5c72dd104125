"""Stages: a rate of arrivals that changes over time, and the words that describe it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from harness.core.errors import UsageError

_NUMBER = r"(\d+\.?\d*|\.\d+)"
_STAGE = re.compile(rf"{_NUMBER}(?:([-~]){_NUMBER})?:{_NUMBER}")
# An angle is found to this many radians: of a day, a tenth of a nanosecond.
_ANGLE = 1e-14
_MOST_STEPS = 60


@dataclass(frozen=True, slots=True)
class Stage:
    """Poisson arrivals for `duration_s`, at a rate that goes in a line from start to end.

    Rates are requests a second; the two are equal in a stage of constant rate, and 0 in a pause.
    With `is_wave` the rate is a sine, from start to end and back, as the rates of a day are.
    """

    start_rps: float
    end_rps: float
    duration_s: float
    is_wave: bool = False

    @property
    def expected_requests(self) -> float:
        """How many requests arrive on average: the area under the rate."""
        return (self.start_rps + self.end_rps) / 2 * self.duration_s

    def seconds_until(self, expected: float) -> float:
        """When `expected` requests have arrived on average, in seconds from the stage's start.

        The positive root of start*t + (end - start)*t^2 / (2*duration) = expected, in the form that
        loses no digits when the two rates are nearly equal. Of a wave, Kepler's equation.
        """
        if expected <= 0:
            return 0.0
        if self.is_wave:
            swing = (self.end_rps - self.start_rps) / (self.end_rps + self.start_rps)
            turns = _angle(math.tau * expected / self.expected_requests, swing) / math.tau
            return turns * self.duration_s
        growth = 2 * (self.end_rps - self.start_rps) * expected / self.duration_s
        rate_then = math.sqrt(max(0.0, self.start_rps**2 + growth))
        return 2 * expected / (self.start_rps + rate_then)

    def __str__(self) -> str:
        """Such as `2/s over 30 s`, `1-4/s over 60 s` of a ramp, or `2~8/s over 60 s` of a wave."""
        rates = dict.fromkeys((f"{self.start_rps:g}", f"{self.end_rps:g}"))
        return f"{('~' if self.is_wave else '-').join(rates)}/s over {self.duration_s:g} s"


def _angle(mean: float, swing: float) -> float:
    """The x from 0 to a full turn with x - swing*sin(x) = mean; Newton's method, kept in bounds."""
    low, high, x = 0.0, math.tau, mean
    for _ in range(_MOST_STEPS):
        excess, slope = x - swing * math.sin(x) - mean, 1 - swing * math.cos(x)
        low, high = (low, x) if excess > 0 else (x, high)
        better = x - excess / slope if slope > 0 else low
        if abs(better - x) <= _ANGLE:
            break
        x = better if low < better < high else (low + high) / 2
    return x


def parse_stages(text: str) -> tuple[Stage, ...]:
    """The stages that `text` lists, such as `1:30,1-4:60,2~8:3600`: rate:seconds.

    a-b is a ramp, and a~b a wave from a up to b and back.

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
            f"--stages has {part!r}; write each stage as rate:seconds, from-to:seconds for a ramp, "
            "or from~to:seconds for a wave, such as 1:30,1-4:60,2~8:3600"
        )
        raise UsageError(msg)
    start, between, end, seconds = found.groups()
    is_wave = between == "~"
    stage = Stage(float(start), float(end or start), float(seconds), is_wave)
    if stage.duration_s <= 0 or not math.isfinite(stage.expected_requests):
        msg = f"--stages has {part!r}; a stage lasts a number of seconds above 0"
        raise UsageError(msg)
    return stage
