"""Which pair comes next, and what the pairs of one metric add up to, where the truth is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from harness.analyzer.summary import MetricValue
from harness.gate.attempt import RunOutcome
from harness.gate.duel import (
    EXTRA_PAIRS,
    DuelMetric,
    DuelPair,
    judge_metric,
    next_place,
)

# The worked example of paired log ratios that the gate's method is given with.
BASELINE = (100.0, 104.0, 98.0, 110.0, 102.0, 96.0)
CANDIDATE = (103.0, 106.0, 101.0, 112.0, 106.0, 98.0)


def values(numbers: Sequence[float | None], reason: str = "too few") -> list[MetricValue]:
    return [MetricValue("output_tok_s", n, None if n is not None else reason) for n in numbers]


def judge(base: Sequence[float | None], cand: Sequence[float | None]) -> DuelMetric:
    return judge_metric(values(base), values(cand))


def pair(number: int, attempt: int = 1, *, counts: bool = True) -> DuelPair:
    run = RunOutcome("r", "VALID" if counts else "INVALID")
    return DuelPair(number, attempt, 7, number % 2 == 1, run, run, counts)


def test_pairs_are_run_in_turn_until_there_are_as_many_as_wanted() -> None:
    done: list[DuelPair] = []
    order = []
    while (place := next_place(done, 5)) is not None:
        order.append((place.number, "AB" if place.baseline_first else "BA"))
        done.append(pair(place.number))

    assert order == [(1, "AB"), (2, "BA"), (3, "AB"), (4, "BA"), (5, "AB")]
    assert next_place(done, 6) is not None, "a second look goes on where the first one ended"


def test_a_pair_that_does_not_count_is_made_again_in_its_own_order() -> None:
    done = [pair(1), pair(2, counts=False)]
    place = next_place(done, 5)

    assert place is not None
    assert (place.number, place.attempt, place.baseline_first) == (2, 2, False)
    after = next_place([*done, pair(2, 2)], 5)
    assert after is not None
    assert (after.number, after.attempt, after.baseline_first) == (3, 1, True)


def test_two_pairs_may_be_made_again_and_no_third_one() -> None:
    assert EXTRA_PAIRS == 2
    done = [pair(1, counts=False), pair(1, 2), pair(2, counts=False)]

    assert next_place(done, 3) is not None
    assert next_place([*done, pair(2, 2, counts=False)], 3) is None


def test_the_worked_example_is_reproduced() -> None:
    found = judge(BASELINE, CANDIDATE)

    assert found.ratio == pytest.approx(1.026318, abs=1e-6)
    assert (found.lo, found.hi) == pytest.approx((1.017654, 1.035056), abs=1e-6)
    assert found.is_clear
    truth = stats.ttest_1samp(
        [math.log(c / b) for b, c in zip(BASELINE, CANDIDATE, strict=True)], 0
    )
    assert found.p == pytest.approx(truth.pvalue)
    assert found.values == tuple(zip(BASELINE, CANDIDATE, strict=True))


def test_absolute_values_are_geometric_means_so_that_the_ratio_is_theirs() -> None:
    found = judge([10, 40, 20], [20, 40, 40])

    assert (found.baseline, found.candidate) == pytest.approx((20, 2 ** (2 / 3) * 20))
    assert found.ratio == pytest.approx(2 ** (2 / 3))


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=8), st.floats(0.2, 5))
def test_what_a_pair_has_in_common_cancels(mood: list[float], truth: float) -> None:
    found = judge([30 * m for m in mood], [30 * truth * m for m in mood])

    assert (found.ratio, found.lo, found.hi) == pytest.approx((truth,) * 3, rel=1e-6)


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=3, max_size=8))
def test_the_sides_swapped_give_the_inverse(pairs: list[tuple[float, float]]) -> None:
    base, cand = zip(*pairs, strict=True)
    one, other = judge(base, cand), judge(cand, base)

    assert one.ratio is not None
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert other.p == pytest.approx(one.p)
    assert other.is_clear == one.is_clear


def test_sides_that_do_not_differ_are_not_clear() -> None:
    found = judge([10, 10, 10, 10], [10.4, 9.7, 10.1, 9.9])

    assert not found.is_clear
    assert found.p is not None
    assert found.p > 0.05


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=8))
def test_p_agrees_with_the_interval_and_with_scipy(logs: list[float]) -> None:
    assume(stdev(logs) > 1e-3)
    found = judge([1.0] * len(logs), [math.exp(x) for x in logs])

    assert found.p is not None
    assert found.p == pytest.approx(stats.ttest_1samp(logs, 0).pvalue, rel=1e-6)
    assume(abs(found.p - 0.05) > 1e-9)
    assert found.is_clear == (found.p < 0.05)


def test_without_noise_p_is_all_or_nothing() -> None:
    assert judge([10, 10, 10], [20, 20, 20]).p == 0
    assert judge([10, 10, 10], [10, 10, 10]).p == 1


@pytest.mark.parametrize("pairs", [1, 2])
def test_few_pairs_give_a_ratio_and_no_interval_and_say_so(pairs: int) -> None:
    found = judge([10] * pairs, [15] * pairs)

    assert found.ratio == pytest.approx(1.5)
    assert (found.lo, found.hi, found.p) == (None, None, None)
    assert found.reason == f"{pairs} pair(s) give no interval (--pairs 3 does)"


def test_a_value_that_is_missing_once_is_missing_in_the_whole() -> None:
    found = judge([10, 10, 10], [11, None, 11])

    assert (found.ratio, found.candidate) == (None, None)
    assert found.baseline == pytest.approx(10)
    assert found.reason == "candidate: too few (in 1 of 3 runs)"
    assert found.values == ((10, 11), (10, None), (10, 11))


def test_a_reason_of_both_sides_is_said_once() -> None:
    assert judge([None] * 2, [None] * 2).reason == "too few (in 2 of 2 runs)"


def test_a_zero_has_no_ratio_and_keeps_its_absolute_values() -> None:
    found = judge([0.0, 0.0, 0.0], [0.1, 0.0, 0.2])

    assert (found.ratio, found.p) == (None, None)
    assert (found.baseline, found.candidate) == pytest.approx((0, 0.1))
    assert found.reason == "a value is 0, so there is no ratio"
