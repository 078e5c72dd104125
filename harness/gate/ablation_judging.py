"""From the runs of an ablation to its numbers: which count, what they are worth, what is doubtful.

A run that failed or is INVALID counts for nothing: its round gives that level no pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.core.ablation_plan import Level, factors_between
from harness.core.cautions import Caution, Code, caution
from harness.core.manifest import RunManifest
from harness.gate.ablation import METRICS, AblationLevel, climb
from harness.gate.ablation_remarks import Sent, observe, remarks
from harness.gate.attempt import Attempt, cautions_of_runs, cut_alike
from harness.gate.comparability import require_comparable


@dataclass(frozen=True, slots=True)
class LevelAttempts:
    """A level and its run in each round, in the order of the rounds."""

    level: Level
    attempts: tuple[Attempt, ...]


def with_one_cut(ladder: Sequence[LevelAttempts]) -> list[LevelAttempts]:
    """`ladder`, with the runs of all levels that count cut alike: they are compared."""
    cut = iter(cut_alike([a for rung in ladder for a in rung.attempts if a.counted is not None]))
    return [
        replace(rung, attempts=tuple(a if a.counted is None else next(cut) for a in rung.attempts))
        for rung in ladder
    ]


def judge_levels(ladder: Sequence[LevelAttempts], sent: Sent) -> tuple[AblationLevel, ...]:
    """What each level measured, and what its step is worth. `sent` has the largest step budget."""
    by_metric = [
        climb([[a.value(metric) for a in rung.attempts] for rung in ladder]) for metric in METRICS
    ]
    seen = [observe(a.folder for a in rung.attempts if a.folder and a.is_whole) for rung in ladder]
    return tuple(
        AblationLevel(
            key=rung.level.key,
            name=rung.level.name,
            adds=tuple(factor.adds for factor in _factors(ladder, i)),
            runs=tuple(attempt.outcome for attempt in rung.attempts),
            values=tuple(of_metric[i] for of_metric in by_metric),
            remarks=remarks(_factors(ladder, i), seen[i - 1], seen[i], sent) if i else (),
        )
        for i, rung in enumerate(ladder)
    )


def _factors(ladder: Sequence[LevelAttempts], index: int) -> tuple[Level, ...]:
    """What the level at `index` adds to the one before it; all of the first level is what it is."""
    level = ladder[index].level
    return factors_between(ladder[index - 1].level, level) if index else (level,)


def cautions_of(ladder: Sequence[LevelAttempts]) -> tuple[Caution, ...]:
    """What is doubtful about the whole, each doubt once.

    Raises NotComparable when two levels were not measured alike.
    """
    of_runs = cautions_of_runs(attempt for rung in ladder for attempt in rung.attempts)
    return tuple(dict.fromkeys((*_of_steps(ladder), *_of_pairs(ladder), *of_runs)))


def _of_steps(ladder: Sequence[LevelAttempts]) -> Iterator[Caution]:
    for index in range(1, len(ladder)):
        factors = _factors(ladder, index)
        if len(factors) > 1:
            listed = ", ".join(factor.adds for factor in factors)
            yield caution(Code.MORE_THAN_ONE_FACTOR, factors=listed)


def _of_pairs(ladder: Sequence[LevelAttempts]) -> Iterator[Caution]:
    """What the sides of a step should share and do not. Its own factor is several settings."""
    for before, rung in pairwise(ladder):
        for base, other in zip(before.attempts, rung.attempts, strict=True):
            sides = [a.counted.manifest for a in (base, other) if a.counted is not None]
            yield from _unlike(*sides) if len(sides) == 2 else ()


def _unlike(base: RunManifest, other: RunManifest) -> Iterator[Caution]:
    found = require_comparable(base, other).cautions
    yield from (doubt for doubt in found if doubt.code != Code.MORE_THAN_ONE_FACTOR)
