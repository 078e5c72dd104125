"""Tests without a distribution behind them, effect sizes, and several tests at once. Pure.

All p values are of "the second side is larger", unless they say that they are two-sided. Exact
ones count every way in which the labels, or the signs, could have fallen.

No output shows `mann_whitney`, `hodges_lehmann` and `cliffs_delta`. They ask nothing of how runs
are distributed, so tests hold Welch's t, which does and is shown, against them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy import special

from harness.analyzer.columns import Floats

# Sums closer than this share of the largest are equal: they differ by rounding.
_EQUAL = 1e-12
_MOST_SIGNS = 40  # two halves of 2^20 sums
_MOST_SPLITS = 200_000  # of 10 and 10 values there are 184,756


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p values, in the order given: below alpha is established among them all."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min((len(p_values) - rank) * p_values[place], 1.0))
        adjusted[place] = largest
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p values that bound the share of false findings, for tables of many metrics."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__, reverse=True)
    adjusted, least = [1.0] * len(p_values), 1.0
    for rank, place in enumerate(order):
        least = min(least, p_values[place] * len(p_values) / (len(p_values) - rank))
        adjusted[place] = least
    return tuple(adjusted)


def sign_flip(diffs: Sequence[float]) -> float:
    """The one-sided p of "these differences are above 0", by flipping their signs.

    Exact for up to 40 differences, that is the share of all 2^n ways to sign them whose sum is at
    least as large; the normal limit of that beyond. 5 pairs are needed for 5 %. Raises ValueError
    without a difference.
    """
    if not diffs:
        msg = "no differences have no sign"
        raise ValueError(msg)
    sizes = np.abs(np.asarray(diffs, dtype=np.float64))
    total = float(np.sum(diffs))
    if len(diffs) > _MOST_SIGNS:
        spread = float(np.sqrt((sizes**2).sum()))
        return float(special.ndtr(-total / spread)) if spread > 0 else 1.0
    half = len(sizes) // 2
    one, other = _signed_sums(sizes[:half]), np.sort(_signed_sums(sizes[half:]))
    least = total - one - _EQUAL * float(sizes.sum())
    at_least = len(other) - np.searchsorted(other, least)
    return float(at_least.sum()) / 2.0 ** len(sizes)


def _signed_sums(sizes: Floats) -> Floats:
    """The sums of `sizes` under every choice of signs."""
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate((sums - size, sums + size))
    return sums


def hodges_lehmann(first: Sequence[float], second: Sequence[float]) -> float:
    """By how much `second` lies above `first`: the median of all differences between them."""
    return float(np.median(np.subtract.outer(np.asarray(second), np.asarray(first))))


def cliffs_delta(first: Sequence[float], second: Sequence[float]) -> float:
    """How much more often a value of `second` is above one of `first` than below it: -1 to 1.

    Vargha and Delaney's A is (1 + delta) / 2.
    """
    return float(np.sign(np.subtract.outer(np.asarray(second), np.asarray(first))).mean())


def mann_whitney(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sided p of Mann and Whitney's U, exact also where values are equal.

    Raises ValueError for more splits of the values than 10 and 10 have.
    """
    total = len(first) + len(second)
    if math.comb(total, len(first)) > _MOST_SPLITS:
        msg = f"{len(first)} and {len(second)} values have too many splits to count"
        raise ValueError(msg)
    values = np.concatenate((first, second))
    ordered = np.sort(values)
    # Twice the mean rank of equal values: whole numbers, so that sums compare exactly.
    ranks = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") + 1
    places = np.array(list(combinations(range(total), len(first))))
    away = np.abs(ranks[places].sum(axis=1) - len(first) * ranks.mean())
    seen = away[0]  # the first split is the one that was given
    return float((away >= seen - _EQUAL * ranks.sum()).mean())


def kolmogorov_smirnov(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """The two-sided p of Kolmogorov and Smirnov: that values of one distribution part so far.

    The limit for many values; with few, where values are equal, or come in pairs, the true p is
    smaller. Raises ValueError when a side has no values.
    """
    one, other = (np.sort(np.asarray(side, dtype=np.float64)) for side in (first, second))
    if not one.size or not other.size:
        raise ValueError("no values have no distribution")
    values = np.union1d(one, other)
    shares = [np.searchsorted(side, values, "right") / side.size for side in (one, other)]
    root = math.sqrt(one.size * other.size / (one.size + other.size))
    apart = float(np.abs(shares[0] - shares[1]).max())
    return float(special.kolmogorov(root * apart))


def fisher(first: tuple[int, int], second: tuple[int, int]) -> float:
    """The one-sided p of "the second share is higher", by Fisher's exact test.

    Each side is (how many, of how many). Two sides without any give 1.
    """
    hits, size = first[0] + second[0], first[1] + second[1]
    counts = np.arange(second[0], min(hits, second[1]) + 1)
    logs = _log_choose(second[1], counts) + _log_choose(first[1], hits - counts)
    kept = logs[np.isfinite(logs)] - _log_choose(size, np.array(hits))
    return min(float(np.exp(kept).sum()), 1.0)


def _log_choose(n: int, k: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Floats:
    """Logarithm of n over k, -inf where k is not within 0 and n."""
    is_within = (k >= 0) & (k <= n)
    inside = np.clip(k, 0, n)
    logs = special.gammaln(n + 1) - special.gammaln(inside + 1) - special.gammaln(n - inside + 1)
    return np.where(is_within, logs, -np.inf)
