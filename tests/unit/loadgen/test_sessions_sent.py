"""Sessions against scripted servers: what was sent when, and what became of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.scripted import Script, ScriptedServer
from harness.core.clock import MonotonicClock
from harness.core.jsonable import from_json
from harness.core.record import Outcome, RequestRecord
from harness.core.rundir import REQUESTS
from harness.core.workload import After, Arrival, Load, LoadKind, Request, Workload
from harness.loadgen.session import ClientOptions, Link, Measured, measure, prepare

MS = 1_000_000
BACKLOG = Load(LoadKind.BACKLOG)
MakeAnswer = Callable[..., Script]


def workload(
    sessions: int, turns: int, delay_ns: int = 0, load: Load = BACKLOG, every_ns: int = 0
) -> Workload:
    """Sessions that begin `every_ns`, each turn with another prompt."""
    arrivals: list[Arrival] = []
    for session in range(sessions):
        for turn in range(turns):
            index = len(arrivals)
            request = Request(index, "A", (1, session, turn), 2, f"s{session}", turn)
            after = After(index - 1, delay_ns) if turn else None
            arrivals.append(Arrival(session * every_ns, request, after))
    return Workload("talk", 0, 1, load, tuple(arrivals))


def sent(
    scripts: Sequence[Script],
    work: Workload,
    folder: Path,
    workers: int = 1,
    deadline_s: float | None = None,
) -> tuple[Measured, dict[int, RequestRecord], ScriptedServer]:
    """How it went, and the records by index; no record is there twice."""
    server: ScriptedServer | None = None

    async def main() -> Measured:
        nonlocal server
        clock = MonotonicClock()
        async with ScriptedServer(scripts, clock) as server:
            link = Link(server.url, "m", OpenAICompletionsDialect(), clock, lambda: None)
            async with prepare(link, work, folder, ClientOptions(workers)) as prepared:
                return await measure(prepared, clock.now_ns(), lambda _: None, deadline_s)

    measured = asyncio.run(main())
    lines = (folder / REQUESTS).read_text().splitlines()
    records = [from_json(RequestRecord, json.loads(line)) for line in lines]
    by_index = {record.index: record for record in records}
    assert len(by_index) == len(records) == measured.counts.sent
    assert server is not None
    return measured, by_index, server


def assert_in_turn(work: Workload, records: dict[int, RequestRecord]) -> None:
    """Every turn was due, and sent, once the one before had ended and its delay was over."""
    for arrival in work.arrivals:
        record = records[arrival.request.index]
        assert (record.session, record.turn) == (arrival.request.session, arrival.request.turn)
        if arrival.after is None:
            assert (record.after, record.due_ns) == (None, arrival.due_ns)
            continue
        ended_ns = records[arrival.after.index].closed_ns
        assert ended_ns is not None
        assert record.after == arrival.after.index
        assert record.due_ns == max(arrival.due_ns, ended_ns + arrival.after.delay_ns)
        assert record.sent_ns >= record.due_ns


@pytest.mark.parametrize(
    ("load", "every_ns", "workers"),
    [
        (BACKLOG, 0, 1),
        (Load(LoadKind.CLOSED, concurrency=4), 0, 2),
        (Load(LoadKind.CONSTANT, rate_rps=500.0), 2 * MS, 4),
    ],
    ids=["backlog-1", "closed-2", "open-4"],
)
def test_turns_follow_each_other_whatever_the_load_and_the_number_of_workers(
    tmp_path: Path, answer: MakeAnswer, load: Load, every_ns: int, workers: int
) -> None:
    work = workload(6, 3, delay_ns=3 * MS, load=load, every_ns=every_ns)
    measured, records, server = sent([answer(first_ns=MS, gap_ns=MS)], work, tmp_path, workers)

    assert measured.client is not None
    assert measured.client.workers == workers
    assert measured.counts.ok == len(records) == 18
    assert_in_turn(work, records)
    assert len({request.partition(b"\r\n\r\n")[2] for request in server.requests}) == 18
    if load.concurrency is not None:
        assert server.most_in_flight <= load.concurrency


def test_all_sessions_of_a_backlog_are_answered_at_the_same_time(
    tmp_path: Path, answer: MakeAnswer
) -> None:
    _, records, server = sent([answer(first_ns=50 * MS)], workload(5, 2), tmp_path)

    assert server.most_in_flight == 5
    assert {record.due_ns for record in records.values() if record.turn == 0} == {0}


def test_a_failed_turn_does_not_stop_its_session(
    tmp_path: Path, answer: MakeAnswer, cut_answer: Script
) -> None:
    work = workload(1, 3, delay_ns=MS)
    measured, records, _ = sent([answer(), cut_answer, answer()], work, tmp_path)

    assert [records[i].outcome for i in range(3)] == [Outcome.OK, Outcome.FAILED, Outcome.OK]
    assert measured.stopped_by is None
    assert_in_turn(work, records)


def test_what_is_in_flight_when_a_run_ends_is_cancelled_and_later_turns_are_not_sent(
    tmp_path: Path, answer: MakeAnswer, silent_answer: Script
) -> None:
    scripts = [answer(), silent_answer]
    measured, records, _ = sent(scripts, workload(1, 4), tmp_path, deadline_s=0.05)

    assert measured.stopped_by == "the deadline of 0.05 s passed"
    assert [records[i].outcome for i in sorted(records)] == [Outcome.OK, Outcome.CANCELLED]
    assert (measured.counts.planned, measured.counts.sent) == (4, 2)


def test_a_run_that_ends_while_a_person_thinks_has_nothing_in_flight(
    tmp_path: Path, answer: MakeAnswer
) -> None:
    work = workload(2, 2, delay_ns=3_600_000 * MS)
    measured, records, _ = sent([answer()], work, tmp_path, deadline_s=0.05)

    assert {records[i].outcome for i in records} == {Outcome.OK}
    assert sorted(records) == [0, 2]
    assert (measured.counts.planned, measured.counts.sent) == (4, 2)
