"""How steady a machine is: timings of one fixed piece of work, and how far apart they lie."""

from __future__ import annotations

import math
from collections.abc import Sequence

TIMINGS = 7
KEPT = 5
# A machine whose best timings lie closer together is steady.
STEADY = 0.05
# One whose best timings lie further apart is unfit to be measured on.
UNSTEADY = 0.10


def spread(timings_s: Sequence[float]) -> float:
    """How much longer the slowest of the best five took than the fastest, as a share of that.

    The best five are those that lie closest: two of seven may have had a neighbour on the core, or
    a moment without one. Raises ValueError for fewer than five.
    """
    if len(timings_s) < KEPT:
        msg = f"{len(timings_s)} timings are fewer than {KEPT}"
        raise ValueError(msg)
    ordered = sorted(timings_s)
    slower = ordered[KEPT - 1 :]
    return min(_excess(fast, slow) for fast, slow in zip(ordered, slower, strict=False))


def _excess(fast: float, slow: float) -> float:
    if slow == fast:
        return 0.0
    return slow / fast - 1 if fast > 0 else math.inf
