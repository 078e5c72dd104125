"""MLPerf's early stopping: how many requests it wants, and what it would report. Pure.

Its arithmetic is that of MLPerf LoadGen with tolerance 0 and confidence 99 %. It assumes that
requests are independent, which those in a queue are not: it is there to be set beside MLPerf
results, and is labelled as theirs.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from harness.analyzer.columns import Floats

ERROR = 0.01


def least_under(over: int, q: float) -> int:
    """The fewest requests under a bound that make up for `over` ones above it, at quantile `q`.

    The least h where as few as `over` of h + `over` requests lie above the bound with a probability
    below 1 %, if 1 - q of all do.
    """
    least, most = 1, 2
    while special.betainc(most, over + 1, q) >= ERROR:
        least, most = most, most * 2
    while least < most:
        middle = (least + most) // 2
        if special.betainc(middle, over + 1, q) < ERROR:
            most = middle
        else:
            least = middle + 1
    return least


def needed(q: float) -> int:
    """How many requests an estimate at quantile `q` needs: 64 for p90, 662 for p99."""
    return least_under(1, q) + 1


def allowed_over(n: int, q: float) -> int | None:
    """How many of `n` requests may lie at or above the estimate; None when `n` is too few."""
    if n < needed(q):
        return None
    least, most = 1, max(math.ceil(n * (1 - q)), 1)
    while least < most:
        middle = (least + most + 1) // 2
        if least_under(middle, q) + middle <= n:
            least = middle
        else:
            most = middle - 1
    return least


def mlperf_estimate(values: Floats, percent: int) -> float | None:
    """What MLPerf would report as `percent` of `values`, in any order; +inf is a failure.

    An upper bound with 99 % confidence if requests were independent. None for too few of them.
    """
    over = allowed_over(len(values), percent / 100)
    if over is None:
        return None
    place = len(values) - over
    return float(np.partition(values, place)[place])
