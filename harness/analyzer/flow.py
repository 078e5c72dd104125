"""Requests as a flow: how many were in flight, and how their gaps are distributed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.analyzer.columns import Floats, Ints

# Stephens (1974): 1 % critical value of Anderson-Darling's statistic for exponential data whose
# mean is estimated, after multiplication by 1 + 0.6/n.
_EXPONENTIAL_1_PERCENT = 1.959


def mean_in_flight(starts: Ints, ends: Ints, edges: Sequence[int]) -> Floats:
    """Mean number in flight in each span between `edges`, which rise; all in one unit of time.

    Each request is in flight from its start, before its end.
    """
    # As floats: the sum over many requests of a long run is more nanoseconds than an int64 holds.
    spent = [
        np.maximum(edge - starts, 0).sum(dtype=np.float64)
        - np.maximum(edge - ends, 0).sum(dtype=np.float64)
        for edge in edges
    ]
    return np.diff(spent) / np.diff(edges)


def in_flight_at(starts: Ints, ends: Ints, instants: Ints) -> Ints:
    """The number in flight at each of `instants`: from its start on, before its end."""
    begun = np.searchsorted(np.sort(starts), instants, side="right")
    ended = np.searchsorted(np.sort(ends), instants, side="right")
    return np.asarray(begun - ended, dtype=np.int64)


def anderson_darling_exponential(gaps: Floats) -> float:
    """Anderson and Darling's statistic of `gaps`, all above 0, against an exponential law.

    The mean is that of the gaps. Large means unlike; see `exponential_limit`.
    """
    ordered = np.sort(gaps) / np.mean(gaps)
    n = len(ordered)
    weights = 2 * np.arange(1, n + 1) - 1
    log_below, log_above = np.log(-np.expm1(-ordered)), -ordered
    return float(-n - (weights * (log_below + log_above[::-1])).sum() / n)


def exponential_limit(n: int) -> float:
    """What the statistic of `n` exponential gaps exceeds once in a hundred times."""
    return _EXPONENTIAL_1_PERCENT / (1 + 0.6 / n)


def variation(gaps: Floats) -> float:
    """Coefficient of variation: standard deviation over mean, 1 for exponential gaps."""
    return float(np.std(gaps, ddof=1) / np.mean(gaps))
