"""Where did a series of runs change? E-divisive by Matteson and James (2014), repeatable. Pure.

It asks nothing of the values but that, with no change, any order of them is as likely as another.
A slow drift, or runs that depend on the ones before, are not that: a change point is a question to
ask of two runs, and never a verdict of a gate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEAST_POINTS = 20
# So many runs on each side of a change: fewer are an outlier.
LEAST_SIDE = 5
FALSE_ALARMS = 0.01
PERMUTATIONS = 199
_MOST_IN_A_BATCH = 64
_CELLS_IN_A_BATCH = 500_000


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The values from `index` on are unlike those before it.

    `p` is how likely so clear a split is where there is no change.
    """

    index: int
    p: float


@dataclass(frozen=True, slots=True)
class _Split:
    """The best cut of a part of the series, and where it is in that part.

    Its `statistic` is how unlike the sides are: the scaled energy distance between two samples.
    """

    statistic: float
    at: int


def change_points(
    values: Sequence[float], generator: np.random.Generator, false_alarms: float = FALSE_ALARMS
) -> tuple[ChangePoint, ...]:
    """Where `values`, in order of time, change; none for fewer than LEAST_POINTS.

    The clearest change is sought first, then the clearest within the parts, until one is no clearer
    than `false_alarms` of random orders show. Raises ValueError for a value that is not finite.
    """
    series = np.asarray(values, dtype=np.float64)
    if not np.isfinite(series).all():
        raise ValueError("a value that is not finite has no place in a series")
    if series.size < LEAST_POINTS:
        return ()
    found: dict[int, float] = {}
    while True:
        cuts = [0, *sorted(found), series.size]
        parts = [series[a:b] for a, b in pairwise(cuts)]
        splits = [_best_splits(part[None])[0] for part in parts]
        best = max(range(len(parts)), key=lambda i: splits[i].statistic)
        p = _p_value(splits[best].statistic, parts, generator, false_alarms)
        if p is None:
            return tuple(ChangePoint(index, found[index]) for index in sorted(found))
        found[cuts[best] + splits[best].at] = p


def _p_value(
    statistic: float, parts: Sequence[Floats], generator: np.random.Generator, false_alarms: float
) -> float | None:
    """How often values shuffled within their parts split as clearly; None when too often."""
    if statistic <= 0:
        return None
    most = math.floor(false_alarms * (PERMUTATIONS + 1)) - 1
    longest = max(part.size for part in parts)
    batch = max(1, min(_MOST_IN_A_BATCH, _CELLS_IN_A_BATCH // longest**2))
    as_clear = 0
    # Equal sums in another order differ in their last digits.
    bar = statistic * (1 - 1e-9)
    for start in range(0, PERMUTATIONS, batch):
        rows = min(batch, PERMUTATIONS - start)
        clearest = np.full(rows, -np.inf)
        for part in parts:
            shuffled = generator.permuted(np.tile(part, (rows, 1)), axis=1)
            found = [split.statistic for split in _best_splits(shuffled)]
            clearest = np.maximum(clearest, found)
        as_clear += int((clearest >= bar).sum())
        if as_clear > most:
            return None
    return (as_clear + 1) / (PERMUTATIONS + 1)


def _best_splits(rows: Floats) -> list[_Split]:
    """The best cut of each row: what is before it against what follows, up to any end.

    Sums of distances over blocks come from one table of running sums, as areas of a picture do.
    """
    count, size = rows.shape
    if size < 2 * LEAST_SIDE:
        return [_Split(-math.inf, 0)] * count
    table = np.zeros((count, size + 1, size + 1))
    distances = np.abs(rows[:, :, None] - rows[:, None, :])
    np.cumsum(np.cumsum(distances, axis=1), axis=2, out=table[:, 1:, 1:])
    before = np.diagonal(table, axis1=1, axis2=2)
    of_both, of_left, of_whole, bar = _weights(size)
    statistics = table[:, LEAST_SIDE : size - LEAST_SIDE + 1, 2 * LEAST_SIDE :] * of_both
    statistics += before[:, LEAST_SIDE : size - LEAST_SIDE + 1, None] * of_left
    statistics += before[:, None, 2 * LEAST_SIDE :] * of_whole
    statistics += bar
    statistics = statistics.reshape(count, -1)
    places = statistics.argmax(axis=1)
    best = statistics[np.arange(count), places]
    cuts = LEAST_SIDE + places // bar.shape[1]
    return [_Split(float(q), int(cut)) for q, cut in zip(best, cuts, strict=True)]


@cache
def _weights(size: int) -> tuple[Floats, Floats, Floats, Floats]:
    """What the statistic of each cut (rows) and end (columns) takes of three sums of distances.

    They are the sums over (before the cut, before the end), (before the cut) and (before the end).
    The last one bars ends too near to their cut.
    """
    cut = np.arange(LEAST_SIDE, size - LEAST_SIDE + 1, dtype=np.float64)[:, None]
    end = np.arange(2 * LEAST_SIDE, size + 1, dtype=np.float64)
    bar = np.where(end - cut >= LEAST_SIDE, 0.0, -np.inf)
    left, right = cut, np.maximum(end - cut, LEAST_SIDE)
    scale = left * right / (left + right)
    between = 2 / (left * right)
    in_left, in_right = 1 / (left * (left - 1)), 1 / (right * (right - 1))
    of_both = scale * (between + 2 * in_right)
    return of_both, -scale * (between + in_left + in_right), -scale * in_right, bar
