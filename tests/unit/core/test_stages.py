"""Stages as words on a command line."""

import pytest

from harness.core.errors import UsageError
from harness.core.stages import Stage, parse_stages


def test_a_stage_is_a_rate_or_a_ramp_and_its_seconds() -> None:
    assert parse_stages("1:30, 0:5,1-4.5:60,.5:1.5,2~0:9") == (
        Stage(1, 1, 30), Stage(0, 0, 5), Stage(1, 4.5, 60), Stage(0.5, 0.5, 1.5),
        Stage(2, 0, 9, is_wave=True),
    )  # fmt: skip


def test_a_stage_expects_the_area_under_its_rate() -> None:
    assert [stage.expected_requests for stage in parse_stages("2:30,1-4:60,4-0:10,2~8:60")] == [
        60,
        150,
        20,
        300,
    ]


def test_stages_say_their_rates_and_times() -> None:
    words = "2/s over 30 s, 1-4/s over 60 s, 2~8/s over 60 s"

    assert ", ".join(map(str, parse_stages("2:30,1-4:60,2~8:60"))) == words


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "''"),
        ("2", "'2'"),
        ("2:30,", "''"),
        ("2:30;3:30", "'2:30;3:30'"),
        ("a:30", "'a:30'"),
        ("-1:30", "'-1:30'"),
        ("1-:30", "'1-:30'"),
        ("1-2-3:30", "'1-2-3:30'"),
        ("1~:30", "'1~:30'"),
        ("1~2~1:30", "'1~2~1:30'"),
        ("nan:30", "'nan:30'"),
        ("inf:30", "'inf:30'"),
        ("2:-30", "'2:-30'"),
        ("1:30,2:0", "'2:0'"),
        ("1:" + "9" * 400, "'1:999"),
        ("0:10", "'0:10'"),
        ("0:10,0-0:5", "'0:10,0-0:5'"),
    ],
)
def test_a_faulty_stage_is_named_with_its_flag(text: str, part: str) -> None:
    with pytest.raises(UsageError, match="^--stages ") as info:
        parse_stages(text)
    assert part in str(info.value)
