"""The figures of sessions, turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.analyzer.summary import MetricValue, SessionTotals, Summary, TurnValues
from reports.figures import Figure
from reports.turns import turn_figures


def talks(summary: Summary, ttft_s: Sequence[float | None]) -> Summary:
    turns = tuple(
        TurnValues(
            turn,
            max(20 - turn, 1),
            (
                MetricValue("ttft_s_p50", value, None if value else "too few"),
                MetricValue("e2e_s_p50", None, "too few"),
            ),
        )
        for turn, value in enumerate(ttft_s)
    )
    return replace(summary, sessions=SessionTotals(10, turns, ()))


def drawn(*summaries: Summary) -> list[Figure]:
    return turn_figures(summaries)


def said_by(figure: Figure) -> list[str]:
    return [said for series in figure.points for _, _, said in series.points]


def test_runs_without_sessions_have_no_figure_of_turns(build: Any) -> None:
    assert drawn(build.summary([build.record()])) == []


def test_each_turn_tells_its_median_and_of_how_many_requests_it_is(build: Any) -> None:
    ttft, e2e = drawn(talks(build.summary([build.record()]), [0.1, None, 0.3]))

    assert said_by(ttft) == ["turn 1, 100 ms of 20", "turn 3, 300 ms of 18"]
    assert "inhouse-static: 100 ms at turn 1, 300 ms at 3" in (ttft.svg or "")
    assert (e2e.svg, e2e.reason) == (None, "no turn has requests enough for a median")


def test_the_axis_of_times_begins_at_zero_and_turns_are_whole_numbers(build: Any) -> None:
    (ttft, _) = drawn(talks(build.summary([build.record()]), [0.1, 0.2]))

    assert ">0 s<" in (ttft.svg or "")
    assert ">1<" in (ttft.svg or "")
    assert ">1.5<" not in (ttft.svg or "")


def test_one_turn_is_drawn_and_repeats_are_told_apart(build: Any) -> None:
    summary = talks(build.summary([build.record()]), [0.1])
    (ttft, _) = drawn(summary, build.summary([build.record()]), summary)

    assert said_by(ttft) == ["run 1, turn 1, 100 ms of 20", "run 3, turn 1, 100 ms of 20"]


def test_a_thousand_turns_tell_no_more_values_than_can_be_pointed_at(build: Any) -> None:
    (ttft, _) = drawn(talks(build.summary([build.record()]), [0.1 + i / 1e4 for i in range(1000)]))

    said = said_by(ttft)
    assert len(said) == 100
    assert (said[0], said[-1]) == ("turn 1, 100 ms of 20", "turn 1000, 200 ms of 1")
