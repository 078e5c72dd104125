"""Arrivals whose gaps are independent draws from one distribution: renewal processes.

Each begins in the midst of its gaps, as an observer would come upon it: the first arrival lies
anywhere within a gap that is the longer the likelier. So the expected number of arrivals in any
stretch of time is its rate times its length, exactly. See Cox, "Renewal theory" (1962), chapter 2.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from workloads.arrivals import gamma_variate

CV_LEAST, CV_MOST = 0.01, 100.0
# Bounds of the inverse of a Weibull shape, between which lie those of all such cvs.
_INVERSE_LEAST, _INVERSE_MOST = 1e-4, 50.0
_HALVINGS = 60

Draw = Callable[[random.Random], float]


class GapFamily(StrEnum):
    """The distribution of gaps."""

    GAMMA = "Gamma"
    WEIBULL = "Weibull"


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps of mean 1 / `rate_rps` seconds, with `cv` times that as their standard deviation.

    `cv` is from CV_LEAST to CV_MOST.
    """

    family: GapFamily
    rate_rps: float
    cv: float


def renewal_instants_s(gaps: Gaps, length_s: float, rng: random.Random) -> Iterator[float]:
    """The instants of arrivals within `length_s` seconds, rising, in seconds from the start."""
    gap, lived_in_gap = _FAMILIES[gaps.family](gaps.cv)
    at_s = rng.random() * lived_in_gap(rng) / gaps.rate_rps
    while at_s < length_s:
        yield at_s
        at_s += gap(rng) / gaps.rate_rps


def _gamma(cv: float) -> tuple[Draw, Draw]:
    """Gaps of mean 1, and those as they are met: by their length, which adds 1 to the shape."""
    shape, scale = cv**-2, cv**2
    return (
        lambda rng: scale * gamma_variate(shape, rng),
        lambda rng: scale * gamma_variate(shape + 1, rng),
    )


def _weibull(cv: float) -> tuple[Draw, Draw]:
    """Gaps of mean 1, and those as they are met.

    A power of a gap has the exponential distribution; of one met by its length, a gamma.
    """
    inverse = inverse_weibull_shape(cv)
    scale = 1 / math.gamma(1 + inverse)
    return (
        lambda rng: scale * math.pow(-math.log(1.0 - rng.random()), inverse),
        lambda rng: scale * math.pow(gamma_variate(1 + inverse, rng), inverse),
    )


def inverse_weibull_shape(cv: float) -> float:
    """1 / c for the shape c of the Weibull distribution that has the coefficient `cv`.

    cv^2 + 1 = Gamma(1 + 2/c) / Gamma(1 + 1/c)^2, which rises with 1/c.
    """
    wanted = math.log1p(cv**2)
    low, high = _INVERSE_LEAST, _INVERSE_MOST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if math.lgamma(1 + 2 * middle) - 2 * math.lgamma(1 + middle) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


_FAMILIES: dict[GapFamily, Callable[[float], tuple[Draw, Draw]]] = {
    GapFamily.GAMMA: _gamma,
    GapFamily.WEIBULL: _weibull,
}
