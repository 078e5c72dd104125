"""Has a series settled, and does it drift? Pure, of values in the order in which they came.

MSER-5 is White's rule for how much of the beginning to leave out; the slope is that of Theil and
Sen, with Sen's interval, widened when neighbours are alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from harness.analyzer.columns import Floats

BATCH = 5
DRIFT_BATCHES = 20
_NORMAL_95 = 1.959964


@dataclass(frozen=True, slots=True)
class Cut:
    """How many values MSER-5 leaves out at the beginning, and whether it would leave out more."""

    values: int
    is_at_limit: bool


def mser5(values: Floats) -> Cut:
    """The cut after which the mean of `values` is known best; at most half of them.

    Raises ValueError for fewer than 10 values, which are two batches.
    """
    batches = len(values) // BATCH
    if batches < 2:
        msg = f"{len(values)} values are fewer than two batches of {BATCH}"
        raise ValueError(msg)
    means = values[: batches * BATCH].reshape(batches, BATCH).mean(axis=1)
    most = batches // 2
    # Of what is left after each cut, by sums from the end: the squared error over the squared
    # number. The first of equals wins, and what rounding leaves of 0 equals it.
    kept = np.arange(1, batches + 1)
    from_end = (means - means.mean())[::-1]
    error = np.cumsum(from_end**2) - np.cumsum(from_end) ** 2 / kept
    spreads = (np.maximum(error, 0) / kept**2)[::-1][: most + 1]
    cut = int(np.argmax(spreads <= spreads.min() + 1e-12 * spreads[0]))
    return Cut(cut * BATCH, is_at_limit=cut == most)


@dataclass(frozen=True, slots=True)
class Drift:
    """How much a series rises from its beginning to its end, as a share of its middle.

    `lo` and `hi` bound it with 95 % confidence if its values are independent; `wide_lo` and
    `wide_hi` also when neighbours are alike, as latencies in a queue are.
    """

    share: float
    lo: float
    hi: float
    wide_lo: float
    wide_hi: float


def drift(values: Floats) -> Drift:
    """The drift of `values`, which are at least 20, by the means of 20 batches of neighbours."""
    means = np.array([batch.mean() for batch in np.array_split(values, DRIFT_BATCHES)])
    places = np.arange(DRIFT_BATCHES)
    before, after = np.triu_indices(DRIFT_BATCHES, 1)
    slopes = np.sort((means[after] - means[before]) / (after - before))
    slope = float(np.median(slopes))
    widening = _widening(means - slope * places)
    middle = float(np.median(means))
    scale = DRIFT_BATCHES / middle if middle > 0 else 0.0
    bounds = (*_bounds(slopes, 1.0), *_bounds(slopes, widening))
    return Drift(slope * scale, *(bound * scale for bound in bounds))


def _bounds(slopes: Floats, widening: float) -> tuple[float, float]:
    """Sen's interval: the ranks that Kendall's statistic of no trend leaves in."""
    n = DRIFT_BATCHES
    deviation = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    half = widening * _NORMAL_95 * deviation / 2
    low = max(math.floor(len(slopes) / 2 - half), 0)
    return float(slopes[low]), float(slopes[-1 - low])


def _widening(rest: Floats) -> float:
    """By how much the mean of values is less certain because neighbours are alike (lag one)."""
    rest = rest - np.median(rest)
    spread = float((rest**2).sum())
    alike = float((rest[1:] * rest[:-1]).sum()) / spread if spread > 0 else 0.0
    alike = min(max(alike, 0.0), 0.95)
    return math.sqrt((1 + alike) / (1 - alike))
