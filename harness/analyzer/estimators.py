"""Percentiles, and the interval on the ratio of two systems. Pure.

Percentiles are the inverse of the empirical distribution: always an observation, never
interpolated, and defined when failures rank as +inf. Intervals are Student's t on logarithms of
per-run values, because the run, not the request, is what is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

import numpy as np
import numpy.typing as npt
from scipy import special

CONFIDENCE = 0.95
LARGEST_LOG = 700.0  # exp of more is no float


def percentile(values: npt.ArrayLike, percent: int) -> float:
    """The smallest value with at least `percent` % of `values` at or below it; may be +inf.

    Same as numpy's `inverted_cdf`. Raises ValueError when there are no values.
    """
    known = np.asarray(values, dtype=np.float64)
    if not known.size:
        raise ValueError("no values have no percentile")
    place = place_of(known.size, percent)
    return float(np.partition(known, place)[place])


def place_of(values: int, percent: int) -> int:
    """The place of that percentile among so many values, 1 at least, in ascending order."""
    return max(-(-values * percent // 100), 1) - 1


def floor_n(percent: float, tail: float = (1 - CONFIDENCE) / 2) -> int:
    """How many values support `percent`: below it a 95 % interval has no finite upper bound.

    The smallest n with q^n <= `tail`, which is 6 for p50, 36 for p90 and 368 for p99.
    """
    return math.ceil(math.log(tail) / math.log(percent / 100))


def t_quantile(probability: float, freedom: float) -> float:
    """The t with P(T <= t) = `probability`, of Student's t; `freedom` need not be whole."""
    return float(special.stdtrit(freedom, probability))


@dataclass(frozen=True, slots=True)
class RatioInterval:
    """A ratio of geometric means, candidate / baseline, and its confidence bounds.

    `p` is how likely so clear a difference, either way, is where there is none.
    """

    ratio: float
    lo: float
    hi: float
    p: float


def ratio_of_means(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Geometric mean of `candidate` over that of `baseline`. All values must be above 0."""
    return math.exp(_mean_log(candidate) - _mean_log(baseline))


def paired_ratio(
    baseline: Sequence[float], candidate: Sequence[float], confidence: float = CONFIDENCE
) -> RatioInterval:
    """The ratio of per-run values that were measured in pairs: t on the log ratios.

    Raises ValueError unless there are as many values on each side, 2 at least, all above 0.
    """
    if len(baseline) != len(candidate) or len(baseline) < 2:
        msg = f"{len(baseline)} and {len(candidate)} values make no pairs"
        raise ValueError(msg)
    logs = [math.log(c / b) for b, c in zip(baseline, candidate, strict=True)]
    error = math.sqrt(variance(logs) / len(logs))
    return _interval(fmean(logs), error, len(logs) - 1, confidence)


def welch_ratio(
    baseline: Sequence[float], candidate: Sequence[float], confidence: float = CONFIDENCE
) -> RatioInterval:
    """The ratio of per-run values that were not measured in pairs: Welch's t on the logs.

    Raises ValueError unless there are 2 values on each side at least, all above 0.
    """
    if min(len(baseline), len(candidate)) < 2:
        msg = f"{len(baseline)} and {len(candidate)} values give no interval"
        raise ValueError(msg)
    parts = [
        (variance([math.log(v) for v in side]) / len(side), len(side) - 1)
        for side in (baseline, candidate)
    ]
    total = sum(part for part, _ in parts)
    spread = sum(part**2 / freedom for part, freedom in parts)
    freedom = total**2 / spread if spread > 0 else 1.0
    return _interval(
        _mean_log(candidate) - _mean_log(baseline), math.sqrt(total), freedom, confidence
    )


def _mean_log(values: Sequence[float]) -> float:
    return fmean(math.log(value) for value in values)


def _interval(mean: float, error: float, freedom: float, confidence: float) -> RatioInterval:
    half = t_quantile((1 + confidence) / 2, freedom) * error
    ratio, lo, hi = (math.exp(min(log, LARGEST_LOG)) for log in (mean, mean - half, mean + half))
    return RatioInterval(ratio, lo, hi, _two_sided_p(mean, error, freedom))


def _two_sided_p(mean: float, error: float, freedom: float) -> float:
    """That of Student's t; without any noise 0, or 1 when the mean is 0."""
    if error == 0:
        return float(mean == 0)
    return 2 * float(special.stdtr(freedom, -abs(mean) / error))
