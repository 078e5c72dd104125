"""How sure is a difference between pairs, and a share of a number? Pure.

A difference is the logarithm of candidate over baseline in one pair of runs, signed so that
positive is worse. It is judged by non-inferiority: a regression of a margin is ruled out,
established, or neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy import special

from harness.analyzer.estimators import CONFIDENCE

ALPHA = 0.05
POWER = 0.90
MOST_PAIRS = 1000


@dataclass(frozen=True, slots=True)
class Noninferiority:
    """What n differences say about a margin. `d`, `sd`, `lo` and `hi` are logarithms.

    `d` is their mean and `sd` their standard deviation; `lo` and `hi` bound the mean, each with
    error alpha, so that alpha 5 % gives the 90 % interval. `t` is how many standard errors `d` lies
    above the margin, None when the differences are all equal. `p_noninf` is how likely so low a `d`
    is where the true regression is the margin: PASS when it is below alpha. `p_fail` is how likely
    so high a one is: FAIL when that is below alpha. Neither: cannot tell.

    `resolvable_margin_90` is the least margin (0.05 is 5 %) that passes 9 times in 10 with as many
    pairs of this noise and no change, and `pairs_needed_90` how many pairs that takes for the
    margin itself; None for more than MOST_PAIRS.
    """

    d: float
    sd: float
    t: float | None
    p_noninf: float
    p_fail: float
    lo: float
    hi: float
    resolvable_margin_90: float
    pairs_needed_90: int | None


def noninferiority(diffs: Sequence[float], margin: float, alpha: float = ALPHA) -> Noninferiority:
    """What `diffs`, log ratios of pairs with positive worse, say about the margin (0.05 is 5 %).

    Raises ValueError for fewer than 2 differences, one that is not finite, or no margin.
    """
    n = len(diffs)
    if n < 2 or not all(map(math.isfinite, diffs)) or margin <= 0:
        msg = f"{n} differences ({list(diffs)[:5]}) say nothing about a margin of {margin}"
        raise ValueError(msg)
    d, sd = fmean(diffs), stdev(diffs)
    error, beyond = sd / math.sqrt(n), d - math.log1p(margin)
    half = float(special.stdtrit(n - 1, 1 - alpha)) * error
    below = _probability_below(beyond, error, n - 1)
    return Noninferiority(
        d=d,
        sd=sd,
        t=beyond / error if error > 0 else None,
        p_noninf=below,
        p_fail=_probability_below(-beyond, error, n - 1),
        lo=d - half,
        hi=d + half,
        resolvable_margin_90=resolvable_margin(sd, n, alpha),
        pairs_needed_90=pairs_needed(sd, margin, alpha),
    )


def _probability_below(beyond: float, error: float, freedom: int) -> float:
    """P(T <= beyond / error) of Student's t; without noise all or nothing, or a half at 0."""
    if error > 0:
        return float(special.stdtr(freedom, beyond / error))
    return (math.copysign(1.0, beyond) + 1) / 2 if beyond else 0.5


def pairs_needed(
    sd: float, margin: float, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """The least number of pairs of that noise that pass with probability `power` at no change.

    By the noncentral t distribution, which always wants more than the normal one, where the search
    begins. None when that is more than MOST_PAIRS.
    """
    spreads = float(special.ndtri(1 - alpha) + special.ndtri(power)) * sd / math.log1p(margin)
    for n in range(max(math.floor(spreads**2), 2), MOST_PAIRS + 1):
        if pass_probability(sd, n, margin, alpha) >= power:
            return n
    return None


def pass_probability(sd: float, n: int, margin: float, alpha: float = ALPHA) -> float:
    """How likely `n` pairs of that noise rule out `margin` when nothing has changed."""
    if sd == 0:
        return 1.0
    limit = special.stdtrit(n - 1, 1 - alpha)
    return float(1 - special.nctdtr(n - 1, math.log1p(margin) * math.sqrt(n) / sd, limit))


def resolvable_margin(sd: float, n: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """The least margin that `n` pairs of that noise rule out with probability `power` at no change.

    0.05 is 5 %; 0 when there is no noise.
    """
    limit = special.stdtrit(n - 1, 1 - alpha)
    return math.expm1(sd * float(special.nctdtrinc(n - 1, 1 - power, limit)) / math.sqrt(n))


@dataclass(frozen=True, slots=True)
class Bounds:
    """A lower and an upper bound."""

    lo: float
    hi: float


def wilson(count: int, total: int, confidence: float = CONFIDENCE) -> Bounds:
    """Wilson's interval of a share, `count` of `total`, which is at least 1."""
    z = float(special.ndtri((1 + confidence) / 2))
    share, weight = count / total, z * z / total
    middle = share + weight / 2
    half = math.sqrt(weight * (share * (1 - share) + weight / 4))
    lo, hi = (middle - half) / (1 + weight), (middle + half) / (1 + weight)
    return Bounds(lo if count else 0.0, hi if count < total else 1.0)


def clopper_pearson(count: int, total: int, confidence: float = CONFIDENCE) -> Bounds:
    """The exact interval of a share, `count` of `total`: never too narrow, also at 0 and at all."""
    tail = (1 - confidence) / 2
    lo = special.betaincinv(count, total - count + 1, tail) if count else 0.0
    hi = special.betaincinv(count + 1, total - count, 1 - tail) if count < total else 1.0
    return Bounds(float(lo), float(hi))
