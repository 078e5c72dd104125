from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.analyzer.early_stopping import allowed_over, least_under, mlperf_estimate, needed


@given(st.integers(0, 60), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_one_request_fewer_under_the_bound_is_not_enough(over: int, q: float) -> None:
    under = least_under(over, q)
    assert stats.binom(under + over, 1 - q).cdf(over) < 0.01
    assert stats.binom(under - 1 + over, 1 - q).cdf(over) >= 0.01


@given(st.integers(1, 100_000), st.sampled_from([0.5, 0.9, 0.99]))
def test_as_many_may_lie_above_as_the_requests_make_up_for(n: int, q: float) -> None:
    over = allowed_over(n, q)
    if over is None:
        assert n < needed(q)
    else:
        assert least_under(over, q) + over <= n < least_under(over + 1, q) + over + 1


@pytest.mark.parametrize(("percent", "floor"), [(50, 11), (90, 64), (99, 662)])
def test_an_estimate_needs_its_number_of_requests(percent: int, floor: int) -> None:
    values = np.arange(float(floor))
    assert mlperf_estimate(values[:-1], percent) is None
    assert mlperf_estimate(values, percent) == floor - 1


def test_the_estimate_is_the_t_th_highest_in_any_order() -> None:
    values = np.arange(2000.0)
    np.random.default_rng(1).shuffle(values)
    assert mlperf_estimate(values, 99) == 2000 - 9
    assert mlperf_estimate(values, 90) == 2000 - 168


def test_failures_rank_last() -> None:
    values = np.append(np.arange(991.0), [np.inf] * 9)
    assert mlperf_estimate(values, 99) == np.inf
    assert mlperf_estimate(values, 90) == 1000 - 78
