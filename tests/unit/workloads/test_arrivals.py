"""Due instants."""

import random
import statistics

from hypothesis import given
from hypothesis import strategies as st

from harness.core.workload import Load, LoadKind
from workloads.arrivals import due_instants_ns


def test_a_backlog_and_a_closed_loop_are_due_at_once() -> None:
    for load in (Load(LoadKind.BACKLOG), Load(LoadKind.CLOSED, concurrency=2)):
        assert due_instants_ns(load, 3, random.Random(1)) == (0, 0, 0)


@given(rate=st.floats(0.01, 1e4), seed=st.integers())
def test_poisson_instants_never_go_back_and_depend_on_the_seed_alone(
    rate: float, seed: int
) -> None:
    load = Load(LoadKind.POISSON, rate_rps=rate)
    one, again = (due_instants_ns(load, 50, random.Random(seed)) for _ in range(2))

    assert one == again
    assert list(one) == sorted(one)


def test_poisson_gaps_have_the_mean_and_spread_of_an_exponential() -> None:
    due_ns = due_instants_ns(Load(LoadKind.POISSON, rate_rps=10.0), 20_000, random.Random(3))
    gaps_s = [(b - a) / 1e9 for a, b in zip((0, *due_ns), due_ns, strict=False)]

    mean = statistics.fmean(gaps_s)
    assert abs(mean - 0.1) < 0.003
    assert abs(statistics.stdev(gaps_s) / mean - 1) < 0.03
