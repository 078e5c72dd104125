"""Phases as words on a command line."""

import pytest

from harness.core.errors import UsageError
from harness.core.phases import Phase, at_mean_rate, parse_phases


def test_a_phase_is_a_rate_and_the_seconds_that_it_lasts_on_average() -> None:
    assert parse_phases("30:5, 3.5:15,0:.5") == (Phase(30, 5), Phase(3.5, 15), Phase(0, 0.5))


@pytest.mark.parametrize("rate_rps", [0.001, 0.5, 10.0, 12345.678])
def test_phases_are_brought_to_a_mean_rate_and_keep_their_times_and_proportions(
    rate_rps: float,
) -> None:
    scaled = parse_phases(at_mean_rate(parse_phases("30:5,3.5:15,0:.5"), rate_rps))

    assert [phase.mean_s for phase in scaled] == [5, 15, 0.5]
    mean = sum(p.rate_rps * p.mean_s for p in scaled) / 20.5
    assert mean == pytest.approx(rate_rps, rel=1e-5)
    assert scaled[0].rate_rps / scaled[1].rate_rps == pytest.approx(30 / 3.5, rel=1e-4)
    assert scaled[2].rate_rps == 0


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
