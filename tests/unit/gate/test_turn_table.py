"""Sessions turn by turn, as a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.analyzer.summary import MetricValue, SessionTotals, Summary, TurnValues
from harness.gate.turn_table import turn_table


def talks(summary: Summary, turns: int) -> Summary:
    values = tuple(
        TurnValues(
            turn,
            10 - turn,
            (MetricValue("ttft_s_p50", 0.1 * (turn + 1)), MetricValue("e2e_s_p50", None, "why")),
        )
        for turn in range(turns)
    )
    durations = (MetricValue("session_s_p50", 12.5),)
    return replace(summary, sessions=SessionTotals(10, values, durations))


def test_a_run_without_sessions_has_no_rows(build: Any) -> None:
    assert turn_table([build.summary([build.record()])]).rows == ()


def test_there_is_a_row_for_each_turn_and_one_for_the_session(build: Any) -> None:
    plain = build.summary([build.record()])
    table = turn_table([plain, talks(plain, 2)])

    assert [[cell.text for cell in row] for row in table.rows] == [
        ["inhouse-static #2", "1", "10", "100 ms", "not measured¹"],
        ["inhouse-static #2", "2", "9", "200 ms", "not measured¹"],
        ["inhouse-static #2", "whole session", "10 sessions", "", "12.5 s"],
    ]
    assert table.notes == ("¹ why",)


def test_of_a_long_session_the_first_turns_are_shown_and_the_last(build: Any) -> None:
    table = turn_table([talks(build.summary([build.record()]), 40)])

    assert [row[1].text for row in table.rows] == [*map(str, range(1, 12)), "40", "whole session"]
    assert table.notes[0] == "turns 12 to 39 are not shown"
