"""Is a machine fit to be measured on: what was looked at, what was seen, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Fitness(StrEnum):
    """What one look says. `unfit`: what is measured here now proves nothing."""

    FIT = "fit"
    WARN = "warn"
    UNFIT = "unfit"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, what was seen, and what to do where that is not well."""

    what: str
    seen: str
    fitness: Fitness = Fitness.FIT
    remedy: str = ""


def finding(what: str, seen: str, fitness: Fitness, remedy: str) -> Finding:
    """A finding that gives its remedy only where there is something to remedy."""
    return Finding(what, seen, fitness, "" if fitness is Fitness.FIT else remedy)


def is_fit(findings: Iterable[Finding]) -> bool:
    """True unless one of `findings` is unfit."""
    return all(finding.fitness is not Fitness.UNFIT for finding in findings)


def graded(value: float, warn: float, unfit: float) -> Fitness:
    """How fit something is whose `value` had better be small."""
    if value >= unfit:
        return Fitness.UNFIT
    return Fitness.WARN if value >= warn else Fitness.FIT
