"""The search for the highest load: against a known truth, without noise, with noise, and in the dark."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analyzer.intervals import wilson
from harness.gate.capacity import Answer, Probe, Search, Tried, bracket, next_probe

MET, NOT_MET, UNRESOLVED = Answer.MET, Answer.NOT_MET, Answer.UNRESOLVED
Oracle = Callable[[Probe], Answer]

RATES = st.builds(
    Search,
    start=st.floats(0.05, 50),
    precision=st.floats(0.01, 1),
    probes=st.just(200),
    reach=st.just(20),
)
CONCURRENCIES = st.builds(
    Search,
    start=st.integers(1, 200).map(float),
    precision=st.floats(0.01, 0.5),
    is_whole=st.just(True),
    probes=st.just(200),
    reach=st.just(20),
)


def searched(search: Search, oracle: Oracle) -> list[Tried]:
    """Every probe of a whole search, answered by `oracle`."""
    tried: list[Tried] = []
    while (probe := next_probe(tried, search)) is not None:
        tried.append(Tried(probe.level, oracle(probe)))
        assert len(tried) <= search.probes
    return tried


def truth(capacity: float) -> Oracle:
    return lambda probe: MET if probe.level <= capacity else NOT_MET


@given(RATES, st.floats(0.01, 2000))
def test_a_rate_without_noise_is_bracketed_as_closely_as_asked(
    search: Search, capacity: float
) -> None:
    found = bracket(searched(search, truth(capacity)), search)

    assert found.met is not None
    assert found.not_met is not None
    assert found.met <= capacity < found.not_met
    assert found.not_met - found.met <= search.precision * found.met
    assert found.is_narrow
    assert found.unresolved == ()


@given(CONCURRENCIES, st.integers(1, 5000))
def test_a_concurrency_is_bracketed_by_whole_numbers(search: Search, capacity: int) -> None:
    tried = searched(search, truth(capacity))
    found = bracket(tried, search)

    assert all(one.level.is_integer() for one in tried)
    assert found.met is not None
    assert found.not_met is not None
    assert found.met <= capacity < found.not_met
    assert found.not_met - found.met <= max(1, search.precision * found.met)


@given(RATES, st.floats(0.01, 2000))
def test_no_level_is_asked_twice_once_it_is_answered(search: Search, capacity: float) -> None:
    levels = [one.level for one in searched(search, truth(capacity))]

    assert len(set(levels)) == len(levels)


def test_it_doubles_until_it_fails_and_then_bisects() -> None:
    tried = searched(Search(1), truth(5))

    assert [one.level for one in tried][:4] == [1, 2, 4, 8]
    assert all(4 < one.level < 8 for one in tried[4:])
    assert len(tried) == 7, "three halvings of a factor of 2 leave 9 %"


def test_it_halves_where_the_first_level_fails() -> None:
    tried = searched(Search(8), truth(3))

    assert [one.level for one in tried][:3] == [8, 4, 2]


def test_nothing_met_down_to_the_lowest_is_no_bracket() -> None:
    search = Search(1, reach=2)
    tried = searched(search, truth(0.1))

    assert [one.level for one in tried] == [1, 0.5, 0.25]
    assert bracket(tried, search).met is None


def test_the_highest_level_that_may_be_tried_is_tried_and_no_more() -> None:
    search = Search(1, most=6)
    tried = searched(search, truth(1e9))

    assert [one.level for one in tried] == [1, 2, 4, 6]
    assert bracket(tried, search).not_met is None


def test_an_unresolved_level_is_repeated_longer_each_time_and_then_left() -> None:
    search = Search(4, tries=3)
    asked: list[Probe] = []

    def oracle(probe: Probe) -> Answer:
        asked.append(probe)
        return UNRESOLVED if probe.level == 4 else truth(4)(probe)

    found = bracket(searched(search, oracle), search)

    assert asked[:4] == [Probe(4, 0), Probe(4, 1), Probe(4, 2), Probe(2, 0)]
    assert found.unresolved == (4,)
    assert found.met is not None
    assert found.not_met is not None
    assert 4 / 1.1 <= found.met < 4 < found.not_met <= 4 * 1.1, "it closes in from both sides"
    assert not found.is_narrow


def test_a_second_try_that_resolves_a_level_counts() -> None:
    search = Search(4)
    tried = [Tried(4, UNRESOLVED), Tried(4, MET)]

    assert next_probe(tried, search) == Probe(8, 0)
    assert bracket(tried, search).met == 4


@given(RATES, st.floats(0.1, 200), st.floats(0.01, 0.4), st.randoms(use_true_random=False))
def test_unresolved_levels_never_widen_what_is_claimed(
    search: Search, capacity: float, blur: float, rng: random.Random
) -> None:
    """Within `blur` of the truth anything may be answered, wrongly too; outside only the truth."""

    def oracle(probe: Probe) -> Answer:
        if abs(math.log(probe.level / capacity)) < blur:
            return rng.choice([MET, NOT_MET, UNRESOLVED])
        return truth(capacity)(probe)

    found = bracket(searched(search, oracle), search)

    assert found.met is not None
    assert found.not_met is not None
    assert found.met < found.not_met
    assert found.met <= capacity * math.exp(blur) * 1.000001
    assert found.not_met >= capacity * math.exp(-blur) / 1.000001
    edges = [found.met, *found.unresolved, found.not_met]
    assert edges == sorted(edges)
    for low, high in ((edges[0], edges[1]), (edges[-2], edges[-1])):
        assert high - low <= search.precision * low * 1.000001


@given(st.lists(st.sampled_from([MET, NOT_MET, UNRESOLVED]), max_size=60), RATES)
def test_it_ends_whatever_is_answered(answers: list[Answer], search: Search) -> None:
    queue = iter(answers)

    tried = searched(search, lambda _: next(queue, UNRESOLVED))

    assert len(tried) <= search.probes


def test_in_the_dark_it_gives_up_after_three_levels() -> None:
    tried = searched(Search(4, tries=2), lambda _: UNRESOLVED)

    assert [one.level for one in tried] == [4, 4, 2, 2, 1, 1]


def test_it_looks_no_further_up_than_its_reach() -> None:
    search = Search(1, reach=3)
    tried = searched(search, truth(1e9))

    assert [one.level for one in tried] == [1, 2, 4, 8]
    assert bracket(tried, search).not_met is None


def test_it_ends_after_the_most_probes() -> None:
    search = Search(1, probes=4)

    assert len(searched(search, lambda _: UNRESOLVED)) == 4


@pytest.mark.parametrize("seed", range(4))
def test_a_noisy_engine_is_bracketed_nine_times_in_ten(seed: int) -> None:
    """The share of requests that meet a limit falls with the load; each probe samples it."""
    rng = random.Random(seed)
    search = Search(1, tries=3)
    capacity = math.exp(rng.uniform(0, 3))
    hits = 0
    for _ in range(50):

        def oracle(probe: Probe) -> Answer:
            share = 1 / (1 + (probe.level / capacity) ** 4 / 9)  # 0.9 at the capacity
            n = 300 * 2**probe.attempt
            bounds = wilson(sum(rng.random() < share for _ in range(n)), n)
            if bounds.lo >= 0.9:
                return MET
            return NOT_MET if bounds.hi < 0.9 else UNRESOLVED

        found = bracket(searched(search, oracle), search)
        hits += (found.met or 0) <= capacity < (found.not_met or 0)

    assert hits >= 45


@settings(max_examples=30)
@given(st.floats(0.02, 500), st.floats(0.05, 400))
def test_the_number_of_probes_grows_with_the_distance_only(start: float, capacity: float) -> None:
    search = Search(start, probes=100, reach=20)

    probes = len(searched(search, truth(capacity)))

    assert probes <= abs(math.log2(capacity / start)) + 2 + 4
