"""Sessions in numbers: turn by turn, and as wholes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.frame import frame_of
from harness.analyzer.rates import Window, steady_window
from harness.analyzer.sessions import session_totals
from harness.analyzer.summary import SessionTotals
from harness.core.manifest import Counts
from harness.core.record import Outcome, RequestRecord
from harness.core.workload import Load, LoadKind

OPEN = Load(LoadKind.POISSON, rate_rps=1.0)


def talks(build: Any, count: int = 8, turns: int = 2) -> list[RequestRecord]:
    """Sessions that begin 100 ms apart; turn k takes 10 (k + 1) ms, 1 s after the one before."""
    records: list[RequestRecord] = []
    for session in range(count):
        due_ms = 100.0 * session
        for turn in range(turns):
            last_ms = due_ms + 10 * (turn + 1)
            record = build.record(len(records), (last_ms - 5, last_ms), due_ms=due_ms)
            after = len(records) - 1 if turn else None
            records.append(replace(record, session=f"s{session}", turn=turn, after=after))
            due_ms = last_ms + 1000
    return records


def totals(build: Any, records: list[RequestRecord], **changes: Any) -> SessionTotals:
    found = session_totals(frame_of(build.run(records, load=OPEN, **changes)))
    assert found is not None
    return found


def test_a_run_without_sessions_has_no_totals_of_them(build: Any) -> None:
    assert build.summary([build.record(i) for i in range(8)]).sessions is None
    assert build.summary([]).sessions is None


def test_each_turn_has_medians_of_its_own(build: Any) -> None:
    summary = build.summary(talks(build), load=OPEN)

    first, second = summary.sessions.turns
    assert (first.turn, first.requests, second.turn, second.requests) == (0, 8, 1, 8)
    assert [value.metric for value in first.values] == ["ttft_s_p50", "e2e_s_p50"]
    assert [value.value for value in first.values] == pytest.approx([0.005, 0.010])
    assert [value.value for value in second.values] == pytest.approx([0.015, 0.020])


def test_requests_that_stand_alone_are_in_no_turn(build: Any) -> None:
    records = talks(build)
    alone = [build.record(len(records) + i, (900, 1000)) for i in range(20)]
    found = totals(build, [*records, *alone])

    assert [turn.requests for turn in found.turns] == [8, 8]


def test_a_session_lasts_from_its_first_due_instant_to_its_last_token(build: Any) -> None:
    found = totals(build, talks(build))

    assert found.sessions == 8
    assert [value.metric for value in found.durations] == [
        "session_s_p50",
        "session_s_p90",
        "session_s_p99",
    ]
    assert found.durations[0].value == pytest.approx(1.030)
    assert found.durations[1].value is None
    assert found.durations[1].reason == "8 sessions cannot support p90 (36 needed)"


def test_a_session_with_a_failed_turn_ranks_last(build: Any) -> None:
    records = talks(build)
    failed = build.failed(1, session="s0", turn=1, after=0)
    found = totals(build, [records[0], failed, *records[2:]])

    assert found.durations[0].value == pytest.approx(1.030)
    assert found.turns[1].values[0].value == pytest.approx(0.015)
    broken = [build.failed(2 * i + 1, session=f"s{i}", turn=1, after=2 * i) for i in range(5)]
    kept = [r for r in records if r.turn == 0 or r.index > 9]
    worse = totals(build, [*kept, *broken])
    assert worse.durations[0].value is None
    assert worse.durations[0].reason == "more than 50 % of the sessions failed"


def test_sessions_of_a_run_that_was_cut_short_have_no_duration(build: Any) -> None:
    records = talks(build)
    found = totals(build, records, counts=Counts(planned=24, sent=16, ok=16))

    assert [value.value for value in found.durations] == [None] * 3
    assert "no session is known to be whole" in (found.durations[0].reason or "")
    cancelled = [*records[:-1], replace(records[-1], outcome=Outcome.CANCELLED)]
    assert totals(build, cancelled).durations[0].value is None


def test_the_arrivals_of_a_load_are_those_of_first_turns(build: Any) -> None:
    """The last session begins at 0.7 s; its second turn is due long after, and is no arrival."""
    window = steady_window(frame_of(build.run(talks(build), load=OPEN)))

    assert window == Window(0.0, 0.7)


def test_later_turns_are_not_held_against_the_arrivals_of_the_load(build: Any) -> None:
    load = Load(LoadKind.CONSTANT, rate_rps=10.0)
    summary = build.summary(talks(build, count=30), load=load)

    (check,) = (check for check in summary.checks if check.id == "V11")
    assert check.value == "gaps moved by 0.00 ms (0.0%)"
