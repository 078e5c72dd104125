"""Phases as words on a command line."""

import pytest

from harness.core.errors import UsageError
from harness.core.phases import Phase, parse_phases


def test_a_phase_is_a_rate_and_the_seconds_that_it_lasts_on_average() -> None:
    assert parse_phases("30:5, 3.5:15,0:.5") == (Phase(30, 5), Phase(3.5, 15), Phase(0, 0.5))


def test_phases_say_their_rates_and_times() -> None:
    assert ", ".join(map(str, parse_phases("40:5,0:15"))) == "40/s for 5 s, 0/s for 15 s"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "''"),
        ("30:5", "'30:5'"),
        ("30:5,", "''"),
        ("0:5,0:15", "'0:5,0:15'"),
        ("30:5,3", "'3'"),
        ("30:5,-3:15", "'-3:15'"),
        ("30:0,3:15", "'30:0'"),
        ("1-4:5,3:15", "'1-4:5'"),
        ("nan:5,3:15", "'nan:5'"),
        ("30:5,1:" + "9" * 400, "'1:999"),
    ],
)
def test_a_faulty_phase_is_named_with_its_flag(text: str, part: str) -> None:
    with pytest.raises(UsageError, match="^--mmpp ") as info:
        parse_phases(text)
    assert part in str(info.value)
