from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyzer.estimators import (
    floor_n,
    paired_ratio,
    percentile,
    ratio_of_means,
    t_quantile,
    welch_ratio,
)

# Printed in Student's table.
T_975 = {1: 12.7062, 2: 4.30265, 3: 3.18245, 4: 2.77645, 5: 2.57058, 10: 2.22814, 30: 2.04227}

TENS = [10.0, 20, 30, 40, 50, 60, 70, 80, 90, 100]
WELCH_B, WELCH_C = [100.0, 102, 98, 101, 99], [95.0, 96, 94, 97, 93]
PAIRED_B, PAIRED_C = [100.0, 104, 98, 110, 102, 96], [103.0, 106, 101, 112, 106, 98]

positive = st.floats(0.01, 1e6, allow_nan=False)
ranked = st.floats(0, 1e6, allow_nan=False) | st.just(math.inf)


@pytest.mark.parametrize(("percent", "expected"), [(50, 50), (90, 90), (99, 100)])
def test_a_percentile_is_an_observation(percent: int, expected: float) -> None:
    assert percentile(TENS, percent) == expected


def test_a_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 99) == 7.0


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 6), (75, 13), (90, 36), (95, 72), (99, 368)]
)
def test_the_floor_is_the_least_n_with_a_finite_upper_bound(percent: int, expected: int) -> None:
    assert floor_n(percent) == expected
    q = percent / 100
    assert q**expected <= 0.025 < q ** (expected - 1)


def test_pooling_is_not_averaging() -> None:
    first, second = list(range(1, 101)), list(range(1001, 1101))
    assert percentile([*first, *second], 99) == 1098
    assert (percentile(first, 99) + percentile(second, 99)) / 2 == 599


@given(st.lists(ranked, min_size=1, max_size=60), st.sampled_from([1, 50, 90, 99]))
def test_percentiles_agree_with_numpy(values: list[float], percent: int) -> None:
    oracle = np.percentile(np.array(values), percent, method="inverted_cdf")
    assert percentile(values, percent) == oracle


@given(st.lists(ranked, min_size=1, max_size=60))
def test_percentiles_are_ordered_and_within_the_data(values: list[float]) -> None:
    p50, p90, p99 = (percentile(values, percent) for percent in (50, 90, 99))
    assert min(values) <= p50 <= p90 <= p99 <= max(values)


@pytest.mark.parametrize(("freedom", "expected"), T_975.items())
def test_t_quantiles_are_those_of_the_table(freedom: int, expected: float) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(expected, abs=6e-6 * expected)
    assert t_quantile(0.025, freedom) == pytest.approx(-t_quantile(0.975, freedom))


def test_t_with_much_freedom_is_normal() -> None:
    assert t_quantile(0.975, 1e6) == pytest.approx(1.959964, abs=1e-5)


@pytest.mark.parametrize(
    ("confidence", "lo", "hi"), [(0.90, 0.932017, 0.968309), (0.95, 0.92775, 0.972762)]
)
def test_welch_on_logs_has_the_reference_answer(confidence: float, lo: float, hi: float) -> None:
    found = welch_ratio(WELCH_B, WELCH_C, confidence)
    assert found.ratio == pytest.approx(0.94999, abs=5e-6)
    assert (found.lo, found.hi) == pytest.approx((lo, hi), abs=1e-6)


@pytest.mark.parametrize(
    ("confidence", "lo", "hi"), [(0.90, 1.01952, 1.033161), (0.95, 1.017654, 1.035056)]
)
def test_pairs_on_logs_have_the_reference_answer(confidence: float, lo: float, hi: float) -> None:
    found = paired_ratio(PAIRED_B, PAIRED_C, confidence)
    assert found.ratio == pytest.approx(1.026318, abs=1e-6)
    assert (found.lo, found.hi) == pytest.approx((lo, hi), abs=1e-6)


def test_the_same_data_unpaired_say_less() -> None:
    found = welch_ratio(PAIRED_B, PAIRED_C, 0.90)
    assert (found.lo, found.hi) == pytest.approx((0.97682, 1.078323), abs=1e-6)


def test_values_without_noise_give_an_interval_without_width() -> None:
    for estimate in (paired_ratio, welch_ratio):
        found = estimate([2.0, 2.0, 2.0], [3.0, 3.0, 3.0])
        assert found.lo == found.ratio == found.hi == pytest.approx(1.5)


def test_pairs_need_as_many_on_each_side() -> None:
    with pytest.raises(ValueError, match="3 and 2 values"):
        paired_ratio([1.0, 2.0, 3.0], [1.0, 2.0])


def test_one_value_a_side_gives_no_interval() -> None:
    with pytest.raises(ValueError, match="1 and 2 values"):
        welch_ratio([1.0], [1.0, 2.0])


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=12))
def test_swapping_the_sides_inverts_the_ratio(pairs: list[tuple[float, float]]) -> None:
    one, other = [a for a, _ in pairs], [b for _, b in pairs]
    for estimate in (paired_ratio, welch_ratio):
        there, back = estimate(one, other), estimate(other, one)
        assert there.lo <= there.ratio <= there.hi
        assert math.log(there.ratio) == pytest.approx(-math.log(back.ratio), abs=1e-9)
        assert there.ratio == pytest.approx(ratio_of_means(one, other))


@given(st.lists(st.floats(0.5, 2), min_size=3, max_size=8), st.floats(0.1, 10))
def test_scaling_the_candidate_scales_the_ratio(values: list[float], factor: float) -> None:
    scaled = [value * factor for value in values]
    assert paired_ratio(values, scaled).ratio == pytest.approx(factor)
    assert welch_ratio(values, scaled).ratio == pytest.approx(factor)
