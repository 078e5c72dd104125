"""What a metric is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from harness.analyzer.frame import RunFrame
from harness.analyzer.measures import Unmeasured
from harness.analyzer.within import Bounded


class Better(StrEnum):
    """Which of two values of a metric is the better one."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `title` is how it is said beside a ratio; `definition` is one sentence.

    `refines` names the metric that this one adds something to: tables leave it out where it is not
    known, or says the same. `is_of_steps`: it comes from the engine's step log, and is shown with
    the other figures of it. `is_optional`: tables leave it out where no run has it. `bounded`: how
    well one run bounds its value, for those whose values are many requests of it.
    """

    name: str
    title: str
    unit: str
    better: Better
    definition: str
    function: Callable[[RunFrame], float | Unmeasured]
    refines: str | None = None
    is_of_steps: bool = False
    is_optional: bool = False
    bounded: Callable[[RunFrame], Bounded] | None = None
