"""Times explained by counts: least squares with coefficients that are never negative.

Misses are relative, as a step of 10 ms and one of 10 s are to be described equally well.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# A column is told apart when less than this share of it is a mixture of those before it.
_OWN_SHARE_LEAST = 0.01
# Huber's constant: misses beyond so many standard deviations count linearly. 95 % efficient where
# there are no outliers.
_HUBER = 1.345
# The standard deviation of a normal distribution over the median of its absolute values.
_SD_OF_MEDIAN = 1.4826
# Misses below one in a million are rounding, not noise.
_NOISE_LEAST = 1e-6
_ROUNDS_MOST = 50


def columns_told_apart(features: Floats, times: Floats) -> tuple[int, ...]:
    """The columns of `features` (rows x columns) that the rows tell apart; earlier ones first.

    A column that is nearly a mixture of those kept before it is left out: any split between them
    would describe the rows equally well.
    """
    scaled = features / times[:, None]
    kept: list[int] = []
    for column in range(features.shape[1]):
        own = scaled[:, column]
        if kept:
            mixture = np.linalg.lstsq(scaled[:, kept], own, rcond=None)[0]
            own = own - scaled[:, kept] @ mixture
        if np.linalg.norm(own) > _OWN_SHARE_LEAST * np.linalg.norm(scaled[:, column]):
            kept.append(column)
    return tuple(kept)


def nonnegative_fit(features: Floats, values: Floats) -> Floats:
    """The coefficients of 0 or more with the least sum of squares of `features @ c - values`.

    The best coefficients are the plain least squares of the columns that they use, so each set of
    columns is tried: exact, and quick for the few columns that there are here.
    """
    sizes = np.linalg.norm(features, axis=0)
    sizes[sizes == 0] = 1.0  # a column of zeros explains nothing, at any coefficient
    scaled = features / sizes
    count = features.shape[1]
    best: Floats = np.zeros(count)
    least = float(values @ values)
    for used in (set_ for size in range(1, count + 1) for set_ in combinations(range(count), size)):
        columns = scaled[:, used]
        found = np.linalg.lstsq(columns, values, rcond=None)[0]
        misses = columns @ found - values
        if (found >= 0).all() and misses @ misses < least:
            best, least = np.zeros(count), float(misses @ misses)
            best[list(used)] = found
    return np.asarray(best / sizes)


def robust_fit(features: Floats, times: Floats) -> Floats:
    """Coefficients of 0 or more that describe `times` (above 0) by `features`, outliers aside.

    Least squares of relative misses, weighted anew by Huber's function until the weights settle: a
    step that was held up ten times as long counts no more than one that took a little longer.
    """
    expected = times
    coefficients = np.zeros(features.shape[1])
    for _ in range(_ROUNDS_MOST):
        misses = np.abs(times / expected - 1)
        noise = max(_SD_OF_MEDIAN * float(np.median(misses)), _NOISE_LEAST)
        weights = np.sqrt(_HUBER * noise / np.maximum(misses, _HUBER * noise)) / expected
        coefficients = nonnegative_fit(features * weights[:, None], times * weights)
        previous, expected = expected, np.maximum(features @ coefficients, 1.0)
        if np.allclose(expected, previous, rtol=1e-6, atol=0):
            break
    return coefficients
