"""When requests are due: absolute instants, drawn before the run from a seeded generator."""

from __future__ import annotations

import math
import random

from harness.core.units import s_to_ns
from harness.core.workload import Load, LoadKind


def due_instants_ns(load: Load, count: int, rng: random.Random) -> tuple[int, ...]:
    """`count` due instants in ns from the start of the run, in order.

    Poisson: gaps are exponential with mean 1/rate, and the first request is due after one gap.
    Backlog and closed loop: all are due at 0.
    """
    if load.kind is not LoadKind.POISSON or load.rate_rps is None:
        return (0,) * count
    due_s, instants = 0.0, []
    for _ in range(count):
        due_s += -math.log(1.0 - rng.random()) / load.rate_rps
        instants.append(s_to_ns(due_s))
    return tuple(instants)
