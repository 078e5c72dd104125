from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.gate import formatting


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (9.996, "10.0"),
        (86.54, "86.5"),
        (130.4, "130"),
        (12345.6, "12,300"),
        (0.00123456, "0.00123"),
        (-2.5, "-2.50"),
        (math.inf, "inf"),
    ],
)
def test_a_number_has_three_significant_digits_and_no_exponent(value: float, text: str) -> None:
    assert formatting.significant(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not measured"),
        (0.0, "0 s"),
        (-4e-16, "0 s"),
        (0.000412, "412 µs"),
        (0.0183, "18.3 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (2.4, "2.40 s"),
        (206.0, "206 s"),
        (math.inf, "inf"),
    ],
)
def test_seconds_take_the_unit_that_reads_best(value: float | None, text: str) -> None:
    assert formatting.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.934, "1.93x"),
        (0.518, "0.52x"),
        (0.0123, "0.0123x"),
        (123.4, "123x"),
        (None, "not measured"),
    ],
)
def test_a_ratio_ends_in_x(value: float | None, text: str) -> None:
    assert formatting.ratio(value) == text


def test_a_share_is_a_percentage_and_never_minus_zero() -> None:
    assert formatting.share(0.5218) == "52.2 %"
    assert formatting.share(-1e-17) == "0.0 %"
    assert formatting.share(None) == "not measured"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0183, "s", "18.3 ms"),
        (0.522, "share", "52.2 %"),
        (86.54, "tok/s", "86.5 tok/s"),
        (3060.0, "tokens", "3,060 tokens"),
        (100.0, "req/s", "100 req/s"),
        (None, "tok/s", "not measured"),
    ],
)
def test_a_quantity_is_said_in_its_unit(value: float | None, unit: str, text: str) -> None:
    assert formatting.quantity(value, unit) == text


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_reading_a_formatted_duration_back_gives_it_within_half_a_percent(value: float) -> None:
    number, unit = formatting.seconds(value).split()
    read = float(number.replace(",", "")) * {"µs": 1e-6, "ms": 1e-3, "s": 1.0}[unit]
    assert read == pytest.approx(value, rel=0.0051)


@given(st.text())
def test_one_line_is_one_short_line_whatever_comes_in(text: str) -> None:
    line = formatting.one_line(text, 40)
    assert len(line) <= 40
    assert line.isprintable()
    assert line == line.strip()


@pytest.mark.parametrize(
    ("lo", "hi", "unit", "text"),
    [
        (0.0119, 0.0142, "s", "11.9 to 14.2 ms"),
        (0.0009, 0.0012, "s", "900 µs to 1.20 ms"),
        (0.02, 0.035, "share", "2.00 to 3.50 %"),
        (9.0, 10.5, "tok/s", "9.00 to 10.50 tok/s"),
        (0.0, 0.206, "share", "0.0 to 21 %"),
    ],
)
def test_two_bounds_say_their_unit_once_where_it_is_the_same(
    lo: float, hi: float, unit: str, text: str
) -> None:
    assert formatting.span(lo, hi, unit) == text


@pytest.mark.parametrize(
    ("value", "lo", "hi", "text"),
    [
        (1.9337, 1.8637, 2.0037, "1.934x"),
        (1.9337, 1.43, 2.43, "1.93x"),
        (1.9337, 0.4, 3.6, "1.9x"),
        (1.9337, 1.93365, 1.93375, "1.93370x"),
        (4.4, 1.0, 700.0, "4x"),
        (1.9337, 1.9337, 1.9337, "1.93x"),
        (1.9337, 1.0, math.inf, "1.93x"),
        (1.9337, 1.0, math.nan, "1.93x"),
    ],
)
def test_a_number_ends_where_the_second_digit_of_its_half_width_does(
    value: float, lo: float, hi: float, text: str
) -> None:
    assert formatting.ratio(value, lo, hi) == text


@pytest.mark.parametrize(
    ("value", "lo", "hi", "unit", "text"),
    [
        (0.0743, 0.0616, 0.0838, "s", "74 ms"),
        (0.0743, 0.0742, 0.0744, "s", "74.30 ms"),
        (0.52213, 0.5212, 0.5232, "share", "52.21 %"),
        (86.543, 86.4, 86.7, "tok/s", "86.54 tok/s"),
        (3060.0, 3000.0, 3100.0, "tokens", "3,060 tokens"),
    ],
)
def test_a_quantity_is_rounded_by_its_interval(
    value: float, lo: float, hi: float, unit: str, text: str
) -> None:
    assert formatting.quantity(value, unit, lo, hi) == text


@given(st.floats(1e-6, 1e6), st.floats(1e-4, 0.9))
def test_rounding_moves_a_number_by_less_than_a_tenth_of_its_interval(
    value: float, share: float
) -> None:
    half = value * share
    shown = formatting.significant(
        value, formatting.digits_within(value, value - half, value + half)
    )
    assert abs(float(shown.replace(",", "")) - value) <= 0.051 * half


def test_an_interval_says_its_bounds_to_the_same_place() -> None:
    assert formatting.ratio_span(0.9512, 1.0823) == "0.951x to 1.082x"
    assert formatting.ratio_span(None, 1.0) == ""
