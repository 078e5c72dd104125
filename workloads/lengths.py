"""How long prompts and answers are: a distribution, in a workload file and as numbers.

Every draw is the inverse of the distribution at one uniform number, so that the length of request i
needs none of the others. A length that a distribution puts outside its bounds is either drawn again
(`resample`: the rest keeps its shape) or set to the bound (`clamp`: the bound becomes common). They
are different workloads: exponential answers of mean 128 up to 32 have mean 15.6 and 28.3.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from statistics import NormalDist
from typing import TypeVar

T = TypeVar("T")

_STANDARD = NormalDist()
_LARGEST_SHARE = 1 - 2.0**-53
_LONGEST_TABLE = 1 << 20

Draw = Callable[[float], float]
"""A uniform number between 0 and 1 to a length."""


class LengthKind(StrEnum):
    """The shape of a distribution of lengths."""

    FIXED = "fixed"
    UNIFORM = "uniform"
    NORMAL = "normal"
    LOGNORMAL = "lognormal"
    EXPONENTIAL = "exponential"
    ZIPF = "zipf"
    EMPIRICAL = "empirical"


class Outside(StrEnum):
    """What becomes of a length outside the bounds."""

    RESAMPLE = "resample"
    CLAMP = "clamp"


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of lengths in tokens; a field is None where it does not apply.

    `fixed`: `tokens`. `uniform`: every whole number from `least` to `most`, both included.
    `normal`: `mean` and `sd`. `lognormal`: the same, of the lengths and not of their logarithms.
    `exponential`: `mean`. `zipf`: k in `least` to `most` with probability ~ k^-`exponent`.
    `empirical`: one of `values`, each as often as it stands there.
    Of normal, lognormal and exponential, `mean` and `sd` are those before the bounds `least` and
    `most` are held; `outside` says how, and must be given where a length can lie outside. Lengths
    are rounded before they are held against the bounds, and never below 1.
    """

    kind: LengthKind
    tokens: int | None = None
    mean: float | None = None
    sd: float | None = None
    exponent: float | None = None
    values: tuple[int, ...] | None = None
    least: int | None = None
    most: int | None = None
    outside: Outside | None = None


_BOUNDED = {"least", "most", "outside"}
_LOWEST = {"tokens": 1, "least": 1, "most": 1, "mean": 1, "sd": 0.01, "exponent": 0}
# What each kind must have, and what it may have besides.
_FIELDS: dict[LengthKind, tuple[set[str], set[str]]] = {
    LengthKind.FIXED: ({"tokens"}, set()),
    LengthKind.UNIFORM: ({"least", "most"}, set()),
    LengthKind.NORMAL: ({"mean", "sd", "outside"}, _BOUNDED),
    LengthKind.LOGNORMAL: ({"mean", "sd"}, _BOUNDED),
    LengthKind.EXPONENTIAL: ({"mean"}, _BOUNDED),
    LengthKind.ZIPF: ({"exponent", "least", "most"}, set()),
    LengthKind.EMPIRICAL: ({"values"}, set()),
}


def checked(lengths: Lengths, key: str) -> Lengths:
    """`lengths`, if they can be drawn. Raises ValueError naming the part of `key` that is wrong."""
    needed, allowed = _FIELDS[lengths.kind]
    given = {name for name in lengths.__slots__ if getattr(lengths, name) is not None} - {"kind"}
    if missing := needed - given:
        msg = f"key '{key}.{min(missing)}' is missing; {lengths.kind} lengths need it"
        raise ValueError(msg)
    if unused := given - needed - allowed:
        msg = f"key '{key}.{min(unused)}' says nothing of {lengths.kind} lengths; leave it out"
        raise ValueError(msg)
    for name, lowest in _LOWEST.items():
        value = getattr(lengths, name)
        if value is not None and not lowest <= value < math.inf:
            msg = f"key '{key}.{name}' is {value}; it must be {lowest} or more"
            raise ValueError(msg)
    _check_bounds(lengths, key)
    drawer(lengths)  # which refuses bounds that nothing lies between
    return lengths


def _check_bounds(lengths: Lengths, key: str) -> None:
    least, most = lengths.least, lengths.most
    if least is not None and most is not None and least > most:
        msg = f"key '{key}.least' is {least}, more than '{key}.most', {most}"
        raise ValueError(msg)
    if lengths.values is not None and (not lengths.values or min(lengths.values) < 1):
        msg = f"key '{key}.values' needs at least one length, and none below 1"
        raise ValueError(msg)
    if lengths.kind is LengthKind.ZIPF and _given(most) - _given(least) >= _LONGEST_TABLE:
        msg = f"key '{key}.most' is {most}; a zipf distribution has at most 2^20 lengths"
        raise ValueError(msg)
    is_bounded = least is not None or most is not None
    if _FIELDS[lengths.kind][1] and is_bounded and lengths.outside is None:
        msg = f"key '{key}.outside' is missing; write resample or clamp, which are not the same"
        raise ValueError(msg)


def drawer(lengths: Lengths) -> Callable[[float], int]:
    """Uniform numbers between 0 and 1 to lengths in tokens; the lengths must be `checked`."""
    draw = _continuous(lengths) if _FIELDS[lengths.kind][1] else _discrete(lengths)
    least, most = lengths.least or 1, lengths.most or math.inf
    return lambda share: int(min(max(math.floor(draw(share) + 0.5), least), most))


def _discrete(lengths: Lengths) -> Draw:
    """Of the kinds that are whole numbers by themselves."""
    match lengths.kind:
        case LengthKind.UNIFORM:
            least = _given(lengths.least)
            return _of_list(range(least, _given(lengths.most) + 1))
        case LengthKind.ZIPF:
            first, exponent = _given(lengths.least), _given(lengths.exponent)
            weights = (k**-exponent for k in range(first, _given(lengths.most) + 1))
            sums = list(accumulate(weights))
            return lambda share: first + bisect_left(sums, share * sums[-1])
        case LengthKind.EMPIRICAL:
            return _of_list(_given(lengths.values))
        case _:
            tokens = _given(lengths.tokens)
            return lambda _: tokens


def _continuous(lengths: Lengths) -> Draw:
    """Of the others; for `resample` only those that round to a length within the bounds."""
    share_below, length_at = _distribution(lengths)
    if lengths.outside is not Outside.RESAMPLE:
        return length_at
    low = 0 if lengths.least is None else lengths.least - 0.5
    high = math.inf if lengths.most is None else lengths.most + 0.5
    before, within = share_below(low), share_below(high) - share_below(low)
    if within <= 0:
        bounds = f"from {lengths.least or 1} to {lengths.most or 'any'}"
        msg = f"no {lengths.kind} length of mean {lengths.mean:g} lies {bounds}"
        raise ValueError(msg)
    return lambda share: length_at(before + share * within)


def _distribution(lengths: Lengths) -> tuple[Draw, Draw]:
    """The share of lengths below one, and the length that a share lies below."""
    mean = _given(lengths.mean)
    if lengths.kind is LengthKind.EXPONENTIAL:
        return (
            lambda length: -math.expm1(-length / mean),
            lambda share: -mean * math.log1p(-min(share, _LARGEST_SHARE)),
        )
    sd = _given(lengths.sd)
    if lengths.kind is LengthKind.NORMAL:
        normal = NormalDist(mean, sd)
        return (normal.cdf, lambda share: normal.inv_cdf(_inner(share)))
    spread = math.sqrt(math.log1p((sd / mean) ** 2))
    middle = math.log(mean) - spread**2 / 2
    return (
        lambda length: _STANDARD.cdf((math.log(length) - middle) / spread) if length > 0 else 0.0,
        lambda share: math.exp(middle + spread * _STANDARD.inv_cdf(_inner(share))),
    )


def _of_list(values: Sequence[int]) -> Draw:
    return lambda share: values[int(share * len(values))]


def _inner(share: float) -> float:
    return min(max(share, 2.0**-54), _LARGEST_SHARE)


def _given(value: T | None) -> T:
    if value is None:
        msg = "these lengths were not checked"
        raise ValueError(msg)
    return value
