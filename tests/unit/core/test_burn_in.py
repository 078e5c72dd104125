"""How far apart the timings of one piece of work lie."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.burn_in import spread

timings = st.lists(st.floats(0.001, 10), min_size=7, max_size=7)


@pytest.mark.parametrize("odd", [(9.0, 9.0), (0.1, 9.0), (0.1, 0.1)])
def test_two_odd_ones_of_seven_do_not_count(odd: tuple[float, float]) -> None:
    assert spread((1.0, 1.1, odd[0], 1.02, 1.04, 1.05, odd[1])) == pytest.approx(0.1)


def test_three_odd_ones_of_seven_do() -> None:
    assert spread((1.0, 1.0, 1.0, 1.0, 1.5, 1.5, 1.5)) == pytest.approx(0.5)


@given(timings, st.floats(0.5, 2))
def test_a_spread_depends_on_neither_unit_nor_order(values: list[float], factor: float) -> None:
    assert spread(values[::-1]) == spread(values)
    assert spread([factor * v for v in values]) == pytest.approx(spread(values), abs=1e-9)


@given(timings)
def test_a_spread_is_never_below_zero(values: list[float]) -> None:
    assert spread(values) >= 0


def test_work_that_took_no_time_is_even_or_not() -> None:
    assert spread((0.0,) * 7) == 0
    assert spread((0.0, 0.0, 0.0, 0.0, 1.0)) == math.inf
    assert spread((0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 2.0)) == 0


def test_four_timings_are_too_few() -> None:
    with pytest.raises(ValueError, match="4 timings are fewer than 5"):
        spread((1.0,) * 4)
