"""How well a run bounds a percentile of itself. Pure.

The interval runs from one value of the run to another, by how many of independent values may lie
below a percentile. Latencies in a queue come in waves and are not independent, so it is taken for
as many independent values as they are worth. It says nothing of how much runs differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from harness.analyzer.columns import Floats
from harness.analyzer.estimators import CONFIDENCE, percentile

_SPREADS = 8  # beyond so many standard deviations nothing is left of a binomial


@dataclass(frozen=True, slots=True)
class Ranks:
    """Which of n values in order, from 1, bound a quantile; 0 and n + 1 where none does.

    `coverage` is how likely the quantile lies between them.
    """

    lower: int
    upper: int
    coverage: float


def order_statistic_ranks(n: int, q: float, confidence: float = CONFIDENCE) -> Ranks:
    """The ranks that bound quantile `q` of `n` independent values, each with half of the error."""
    tail = (1 - confidence) / 2
    reach = _SPREADS * math.sqrt(n * q * (1 - q)) + _SPREADS
    first, last = max(math.floor(n * q - reach), 1), min(math.ceil(n * q + reach), n)
    ranks = np.arange(first, last + 1)
    # Of n values, B lie below the quantile: P(B <= rank - 1), which rises, and P(B >= rank).
    fewer = special.betainc(n - ranks + 1, ranks, 1 - q)
    as_many = special.betainc(ranks, n - ranks + 1, q)
    lower = first - 1 + int((fewer <= tail).sum())
    upper = last + 1 - int((as_many <= tail).sum())
    below = fewer[lower - first] if lower >= first else 0.0
    above = as_many[upper - first] if upper <= last else 0.0
    return Ranks(lower, upper, float(1 - below - above))


def autocorrelation_time(values: Floats) -> float:
    """How many neighbours are worth one independent value, at least 1.

    1 + 2 times the sum of autocorrelations, by Geyer's initial positive sequence: two lags at a
    time, as long as their sum is positive. Values that are all equal give 1.
    """
    n = len(values)
    if values.min() == values.max():
        return 1.0
    rest = values - values.mean()
    spectrum = np.abs(np.fft.rfft(rest, 2 * n)) ** 2
    covariance = np.fft.irfft(spectrum)[:n]
    pairs = (covariance[: n // 2 * 2] / covariance[0]).reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    used = pairs[: ends[0]] if len(ends) else pairs
    return max(2 * float(used.sum()) - 1, 1.0)


@dataclass(frozen=True, slots=True)
class PercentileInterval:
    """A 95 % interval of a percentile of a run; `hi` is None where the run cannot bound it.

    `tau` values are worth one independent value, so `n_eff` is all of them over `tau`. `lower` and
    `upper` are ranks among `n_eff` values.
    """

    lo: float
    hi: float | None
    tau: float
    n_eff: int
    lower: int
    upper: int


def percentile_interval(values: Floats, percent: int) -> PercentileInterval:
    """The interval of `percent` of `values`, which are in the order in which they came.

    Values may be +inf. Raises ValueError when there are none.
    """
    n = len(values)
    tau = autocorrelation_time((values > percentile(values, percent)).astype(np.float64))
    n_eff = max(math.floor(n / tau), 1)
    ranks = order_statistic_ranks(n_eff, percent / 100)
    ordered = np.sort(values)
    lo = float(ordered[max(n * ranks.lower // n_eff, 1) - 1])
    hi = None
    if ranks.upper <= n_eff:
        hi = float(ordered[min(-(-n * ranks.upper // n_eff), n) - 1])
    return PercentileInterval(lo, hi, tau, n_eff, ranks.lower, ranks.upper)
