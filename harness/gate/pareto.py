"""Which of several points are worth choosing: those that no other point beats. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.analyzer.metric import Better


def pareto_set(points: Sequence[Sequence[float]], better: Sequence[Better]) -> tuple[int, ...]:
    """The places in `points` of those that no other point dominates, in their order.

    One point dominates another that is nowhere better and somewhere worse, so of equal points none
    goes. `better` says which way each number is good; one with NEITHER decides nothing. Raises
    ValueError when a point has another number of values than `better`, or one that is NaN.
    """
    signs = [{Better.HIGHER: 1.0, Better.LOWER: -1.0, Better.NEITHER: 0.0}[b] for b in better]
    for point in points:
        if len(point) != len(signs) or any(map(math.isnan, point)):
            msg = f"a point is {tuple(point)}; it needs {len(signs)} numbers"
            raise ValueError(msg)
    scores = [
        tuple(sign * value for sign, value in zip(signs, point, strict=True) if sign)
        for point in points
    ]
    return tuple(
        i for i, one in enumerate(scores) if not any(_dominates(other, one) for other in scores)
    )


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))
