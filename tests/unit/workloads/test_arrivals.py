"""Due instants."""

import math
import random
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.phases import Phase
from harness.core.stages import Stage, parse_stages
from harness.core.workload import Load, LoadKind
from workloads.arrivals import due_instants_ns, gamma_variate, stage_instants_ns

NS = 1_000_000_000
POISSON = Load(LoadKind.POISSON, rate_rps=10.0)
rates = st.floats(0.01, 1e4)
loads = st.one_of(
    st.builds(lambda rate: Load(LoadKind.POISSON, rate_rps=rate), rates),
    st.builds(lambda rate: Load(LoadKind.CONSTANT, rate_rps=rate), rates),
    st.builds(
        lambda rate, cv: Load(LoadKind.GAMMA, rate_rps=rate, cv=cv), rates, st.floats(0.01, 100)
    ),
    st.builds(
        lambda first, rate, mean: Load(LoadKind.MMPP, phases=(first, Phase(rate, mean))),
        st.builds(Phase, st.one_of(st.just(0.0), rates), st.floats(0.01, 10)),
        rates,
        st.floats(1, 100),
    ),
)
stage_rates = st.one_of(st.just(0.0), st.floats(0.001, 30))
durations = st.floats(0.1, 10)
stages = st.lists(st.builds(Stage, stage_rates, stage_rates, durations, st.booleans()), max_size=5)


def gaps_s(due_ns: tuple[int, ...]) -> list[float]:
    return [(b - a) / NS for a, b in pairwise((0, *due_ns))]


def test_a_backlog_and_a_closed_loop_are_due_at_once() -> None:
    for load in (Load(LoadKind.BACKLOG), Load(LoadKind.CLOSED, concurrency=2)):
        assert due_instants_ns(load, 3, random.Random(1)) == (0, 0, 0)


@given(load=loads, seed=st.integers())
def test_instants_never_go_back_and_depend_on_the_seed_alone(load: Load, seed: int) -> None:
    one, again = (due_instants_ns(load, 50, random.Random(seed)) for _ in range(2))

    assert one == again
    assert len(one) == 50
    assert list(one) == sorted(one)


@given(load=loads, seed=st.integers())
def test_fewer_requests_are_the_first_of_more(load: Load, seed: int) -> None:
    """Nothing is rescaled to the number of requests: a longer run begins as a shorter one."""
    few, more = (due_instants_ns(load, count, random.Random(seed)) for count in (10, 40))

    assert more[:10] == few


def test_poisson_gaps_have_the_mean_and_spread_of_an_exponential() -> None:
    gaps = gaps_s(due_instants_ns(POISSON, 20_000, random.Random(3)))

    mean = statistics.fmean(gaps)
    assert abs(mean - 0.1) < 0.003
    assert abs(statistics.stdev(gaps) / mean - 1) < 0.03


def test_the_poisson_instants_of_a_seed_are_pinned() -> None:
    """A change here means that old seeds no longer send when they sent: say so in the changelog."""
    due_ns = due_instants_ns(POISSON, 3, random.Random("0/arrivals"))

    assert due_ns == (184011476, 278096008, 412515800)


def test_the_gamma_instants_of_a_seed_are_pinned() -> None:
    load = Load(LoadKind.GAMMA, rate_rps=10.0, cv=1.5)

    due_ns = due_instants_ns(load, 3, random.Random("0/arrivals"))

    assert due_ns == (14162603, 674234537, 675050288)


def test_constant_gaps_are_all_one_over_the_rate_and_do_not_add_up_errors() -> None:
    due_ns = due_instants_ns(Load(LoadKind.CONSTANT, rate_rps=3.0), 30_000, random.Random(1))

    assert due_ns[:3] == (333_333_333, 666_666_667, 1_000_000_000)
    assert due_ns[-1] == 10_000 * NS


@pytest.mark.parametrize("shape", [0.25, 0.7, 1.0, 3.0, 400.0])
def test_gamma_variates_have_the_moments_of_their_shape(shape: float) -> None:
    """Mean k, variance k, third central moment 2k; within five standard errors or so."""
    rng = random.Random(7)
    draws = [gamma_variate(shape, rng) for _ in range(40_000)]

    mean = statistics.fmean(draws)
    spread = statistics.pstdev(draws)
    skewness = statistics.fmean(((x - mean) / spread) ** 3 for x in draws)
    assert mean == pytest.approx(shape, rel=0.025 / min(1, shape**0.5))
    assert spread**2 == pytest.approx(shape, rel=0.08)
    assert skewness == pytest.approx(2 / shape**0.5, rel=0.12, abs=0.06)


def test_gamma_variates_agree_with_the_standard_library_at_every_decile() -> None:
    ours, theirs = random.Random(1), random.Random(2)
    mine = statistics.quantiles((gamma_variate(0.444, ours) for _ in range(40_000)), n=10)
    other = statistics.quantiles((theirs.gammavariate(0.444, 1) for _ in range(40_000)), n=10)

    assert mine == pytest.approx(other, rel=0.06, abs=0.001)


@pytest.mark.parametrize("kind", [LoadKind.STAGES, LoadKind.REPLAY])
def test_a_load_that_decides_the_number_itself_has_no_number_to_draw(kind: LoadKind) -> None:
    with pytest.raises(ValueError, match=f"kind {kind.value} has no number"):
        due_instants_ns(Load(kind), 3, random.Random(1))


def test_a_rate_that_is_missing_is_an_error() -> None:
    with pytest.raises(ValueError, match="lacks its rate"):
        due_instants_ns(Load(LoadKind.GAMMA, rate_rps=1.0), 3, random.Random(1))


@given(stages=stages, seed=st.integers())
def test_stages_are_in_order_and_within_their_time_and_depend_on_the_seed_alone(
    stages: list[Stage], seed: int
) -> None:
    one, again = (stage_instants_ns(stages, random.Random(seed)) for _ in range(2))

    assert one == again
    assert list(one) == sorted(one)
    assert all(0 <= due <= sum(s.duration_s for s in stages) * NS + 1 for due in one)


@given(
    stage=st.builds(Stage, stage_rates, st.floats(0.001, 30), durations, st.booleans()),
    share=st.floats(0, 1),
)
def test_the_time_of_a_stage_is_the_inverse_of_its_expected_requests(
    stage: Stage, share: float
) -> None:
    expected = share * stage.expected_requests
    t = stage.seconds_until(expected)

    growth = stage.end_rps - stage.start_rps
    if stage.is_wave:
        whole_turn = 2 * math.pi * t / stage.duration_s
        grown = growth / 2 * (t - stage.duration_s * math.sin(whole_turn) / (2 * math.pi))
    else:
        grown = growth / (2 * stage.duration_s) * t * t
    assert stage.start_rps * t + grown == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_each_stage_has_the_number_of_requests_that_its_rate_says_on_average() -> None:
    stages = parse_stages("2:10,0:5,8:10,1-5:20")
    ends = (10, 15, 25, 35, 45)
    counts = [0] * len(ends)
    for seed in range(400):
        for due in stage_instants_ns(stages, random.Random(seed)):
            counts[sum(due / NS >= end for end in ends)] += 1

    # The ramp's first half has rates 1 to 3, its second 3 to 5. Four standard errors: 4*sqrt(n).
    for count, expected in zip(counts, (20, 0, 80, 20, 40), strict=True):
        assert abs(count / 400 - expected) <= 4 * (expected / 400) ** 0.5


def test_the_number_of_requests_in_stages_is_spread_as_a_poisson_count() -> None:
    stages = parse_stages("0-6:10,4:5")
    counts = [len(stage_instants_ns(stages, random.Random(seed))) for seed in range(2000)]

    assert statistics.fmean(counts) == pytest.approx(50, abs=0.7)
    assert statistics.pvariance(counts) == pytest.approx(50, rel=0.15)


def test_one_stage_of_constant_rate_is_the_poisson_process_of_that_rate() -> None:
    due_ns = stage_instants_ns((Stage(10.0, 10.0, 60.0),), random.Random(5))

    same = due_instants_ns(POISSON, len(due_ns), random.Random(5))
    assert all(abs(a - b) <= 1 for a, b in zip(due_ns, same, strict=True))
