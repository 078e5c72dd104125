from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.analyzer.estimators import floor_n
from harness.analyzer.order_statistics import (
    autocorrelation_time,
    order_statistic_ranks,
    percentile_interval,
)

values_of = st.lists(st.floats(0, 1e6), min_size=1, max_size=80).map(np.array)


@given(st.integers(1, 3000), st.sampled_from([0.5, 0.9, 0.95, 0.99]), st.sampled_from([0.95, 0.99]))
def test_ranks_are_those_of_scipy(n: int, q: float, confidence: float) -> None:
    ordered = np.arange(1, n + 1, dtype=float)
    oracle = stats.quantile_test(ordered, p=q).confidence_interval(confidence)
    found = order_statistic_ranks(n, q, confidence)
    assert found.lower == (0 if math.isnan(oracle.low) else oracle.low)
    assert found.upper == (n + 1 if math.isnan(oracle.high) else oracle.high)


@given(st.integers(1, 2_000_000), st.sampled_from([0.5, 0.9, 0.99, 0.999]))
def test_ranks_cover_as_often_as_they_say_and_no_less_than_asked(n: int, q: float) -> None:
    found = order_statistic_ranks(n, q)
    between = stats.binom(n, q).cdf([found.lower - 1, found.upper - 1])
    assert found.coverage == pytest.approx(between[1] - between[0], abs=1e-9)
    assert found.coverage >= 0.95 - 1e-12


@pytest.mark.parametrize("percent", [50, 90, 99])
def test_a_percentile_is_bounded_from_its_floor_on(percent: int) -> None:
    floor = floor_n(percent)
    assert order_statistic_ranks(floor - 1, percent / 100).upper == floor
    assert order_statistic_ranks(floor, percent / 100).upper == floor


def test_independent_values_are_worth_what_they_are() -> None:
    rng = np.random.default_rng(1)
    assert autocorrelation_time(rng.random(5000)) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("phi", [0.3, 0.6, 0.9])
def test_values_that_follow_each_other_are_worth_less(phi: float) -> None:
    rng = np.random.default_rng(2)
    noise, values = rng.normal(size=200_000), np.empty(200_000)
    values[0] = noise[0]
    for i in range(1, len(values)):
        values[i] = phi * values[i - 1] + noise[i]
    assert autocorrelation_time(values) == pytest.approx((1 + phi) / (1 - phi), rel=0.08)


def test_equal_values_and_ones_that_take_turns_count_in_full() -> None:
    assert autocorrelation_time(np.full(50, 0.1)) == 1.0
    assert autocorrelation_time(np.arange(50) % 2.0) == 1.0


@given(values_of, st.sampled_from([50, 90, 99]))
def test_bounds_are_values_of_the_run_around_its_percentile(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], percent: int
) -> None:
    found = percentile_interval(values, percent)
    assert 1 <= found.n_eff <= len(values)
    assert found.lo in values
    if found.hi is None:
        assert found.upper > found.n_eff
    else:
        middle = np.percentile(values, percent, method="inverted_cdf")
        assert found.hi in values
        assert found.lo <= middle <= found.hi


def test_a_ramp_cannot_bound_its_own_percentile() -> None:
    """Latencies of a backlog: each a little longer than the one before it."""
    found = percentile_interval(np.arange(1000.0), 90)
    assert found.hi is None
    assert found.n_eff < floor_n(90)


def test_failures_are_bounds_too() -> None:
    values = np.array([0.1, 0.2] * 500)
    values[::20] = np.inf
    found = percentile_interval(values, 99)
    assert found.hi in (None, math.inf)
    assert percentile_interval(values, 50).hi == 0.2
