"""When requests are due: absolute instants, drawn before the run from a seeded generator.

Every draw uses only `rng.random()`, whose sequence Python guarantees for a seed across versions.
Nothing is ever rescaled to end at count/rate: that would make the gaps depend on each other.
"""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, cycle, islice

from harness.core.phases import Phase
from harness.core.stages import Stage
from harness.core.units import s_to_ns
from harness.core.workload import Load, LoadKind


def due_instants_ns(load: Load, count: int, rng: random.Random) -> tuple[int, ...]:
    """`count` due instants in ns from the start of the run, in order.

    Backlog and closed loop: all are due at 0. Otherwise the first request is due after one gap.
    Constant: every gap is 1/rate. Poisson: gaps are exponential with mean 1/rate. Gamma: gaps have
    mean 1/rate, and `cv` times that as their standard deviation. MMPP: Poisson in each phase, which
    lasts an exponential time; the run begins in the midst of it, as an observer would come upon it.

    Raises ValueError for stages, which decide the count themselves, and for a replay, whose
    instants are in a file.
    """
    match load.kind:
        case LoadKind.BACKLOG | LoadKind.CLOSED:
            return (0,) * count
        case LoadKind.CONSTANT:
            return tuple(s_to_ns(k / _given(load.rate_rps)) for k in range(1, count + 1))
        case LoadKind.POISSON:
            rate_rps = _given(load.rate_rps)
            gaps_s = (gap / rate_rps for gap in _exponential_gaps(rng))
        case LoadKind.GAMMA:
            shape = _given(load.cv) ** -2
            scale_s = 1 / (shape * _given(load.rate_rps))
            gaps_s = (gap * scale_s for gap in _gamma_gaps(shape, rng))
        case LoadKind.MMPP:
            instants_s = _bent(_dwellings(load.phases, rng), rng)
            return tuple(map(s_to_ns, islice(instants_s, count)))
        case _:
            msg = f"a load of kind {load.kind.value} has no number of instants to draw"
            raise ValueError(msg)
    return _instants_ns(islice(gaps_s, count))


def stage_instants_ns(stages: Iterable[Stage], rng: random.Random) -> tuple[int, ...]:
    """The due instants of `stages`, one after another, in ns from the start of the run."""
    return tuple(map(s_to_ns, _bent(stages, rng)))


def gamma_variate(shape: float, rng: random.Random) -> float:
    """One draw from the gamma distribution of `shape` and scale 1, whose mean is `shape`.

    Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000); the
    normal draws are Box and Muller's. A shape below 1 is drawn one higher, and taken down by a
    power of a uniform draw, as in section 6 of that paper.
    """
    if shape < 1:
        return gamma_variate(shape + 1, rng) * math.pow(1.0 - rng.random(), 1 / shape)
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        x = _normal_variate(rng)
        v = (1 + c * x) ** 3
        if v > 0 and math.log(1.0 - rng.random()) < x * x / 2 + d * (1 - v + math.log(v)):
            return d * v


def _bent(stages: Iterable[Stage], rng: random.Random) -> Iterator[float]:
    """Arrivals in `stages`, in seconds from the start.

    A Poisson process of one a second, with its time axis bent by the inverse of the cumulative
    rate: so every stretch of time has the expected number of requests that its rates say.
    """
    arrivals = accumulate(_exponential_gaps(rng))
    expected = next(arrivals)
    started_s = passed = 0.0
    for stage in stages:
        until = passed + stage.expected_requests
        while expected < until:
            yield started_s + stage.seconds_until(expected - passed)
            expected = next(arrivals)
        started_s, passed = started_s + stage.duration_s, until


def _dwellings(phases: Sequence[Phase], rng: random.Random) -> Iterator[Stage]:
    """The phases in turn, without end, each for the time that it happens to last.

    The first one is drawn by its share of all time. What is left of it is as long as a whole one:
    an exponential time has no memory.
    """
    ends_s = tuple(accumulate(phase.mean_s for phase in phases))
    first = bisect(ends_s, rng.random() * ends_s[-1], hi=len(phases) - 1)
    for phase in chain(phases[first:], cycle(phases)):
        duration_s = -math.log(1.0 - rng.random()) * phase.mean_s
        yield Stage(phase.rate_rps, phase.rate_rps, duration_s)


def _normal_variate(rng: random.Random) -> float:
    radius = math.sqrt(-2 * math.log(1.0 - rng.random()))
    return radius * math.cos(math.tau * rng.random())


def _exponential_gaps(rng: random.Random) -> Iterator[float]:
    while True:
        yield -math.log(1.0 - rng.random())


def _gamma_gaps(shape: float, rng: random.Random) -> Iterator[float]:
    while True:
        yield gamma_variate(shape, rng)


def _instants_ns(gaps_s: Iterable[float]) -> tuple[int, ...]:
    return tuple(s_to_ns(due_s) for due_s in accumulate(gaps_s))


def _given(value: float | None) -> float:
    if value is None:
        msg = "the load lacks its rate, or its coefficient of variation"
        raise ValueError(msg)
    return value
