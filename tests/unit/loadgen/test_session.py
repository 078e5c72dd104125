"""A whole measurement against scripted servers: every request sent leaves one record."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.scripted import Script, ScriptedServer
from harness.core.clock import MonotonicClock
from harness.core.errors import EngineFailed
from harness.core.jsonable import from_json
from harness.core.record import Outcome, RequestRecord
from harness.core.rundir import REQUESTS, TEXTS
from harness.core.workload import Load, LoadKind, Request, Workload
from harness.loadgen.session import (
    ClientOptions,
    Link,
    Measured,
    Progress,
    measure,
    prepare,
    warm_up,
)

MS = 1_000_000
MakeAnswer = Callable[..., Script]
MakeWorkload = Callable[..., Workload]


def run(
    scripts: Sequence[Script],
    work: Workload,
    folder: Path,
    during: Callable[[Progress], None] = lambda _: None,
    deadline_s: float | None = None,
    raise_if_dead: Callable[[], None] = lambda: None,
    workers: int = 1,
    saves_text: bool = False,
) -> tuple[Measured, list[RequestRecord]]:
    async def main() -> Measured:
        clock = MonotonicClock()
        async with ScriptedServer(scripts, clock) as server:
            dialect = OpenAICompletionsDialect()
            link = Link(server.url, "m", dialect, clock, raise_if_dead)
            async with prepare(
                link, work, folder, ClientOptions(workers, saves_text=saves_text)
            ) as prepared:
                return await measure(prepared, clock.now_ns(), during, deadline_s)

    measured = asyncio.run(main())
    lines = (folder / REQUESTS).read_text().splitlines()
    records = [from_json(RequestRecord, json.loads(line)) for line in lines]
    assert_accounted(measured, records)
    return measured, records


def assert_accounted(measured: Measured, records: list[RequestRecord]) -> None:
    counts = measured.counts
    assert counts.sent == counts.ok + counts.failed + counts.cancelled + counts.unfinished
    assert counts.sent == len(records)
    by_outcome = Counter(record.outcome for record in records)
    assert (counts.ok, counts.failed) == (by_outcome[Outcome.OK], by_outcome[Outcome.FAILED])
    assert len({record.index for record in records}) == len(records)


def test_answers_are_kept_as_text_only_when_asked_for(
    tmp_path: Path, answer: MakeAnswer, workload: MakeWorkload
) -> None:
    run([answer(tokens=2)], workload(2), tmp_path, saves_text=True)

    lines = [json.loads(line) for line in (tmp_path / TEXTS).read_text().splitlines()]
    assert sorted(line["index"] for line in lines) == [0, 1]
    assert {line["text"] for line in lines} == {"t0t1"}


def test_no_spool_is_left_behind(
    tmp_path: Path, answer: MakeAnswer, workload: MakeWorkload
) -> None:
    run([answer()], workload(3), tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == [REQUESTS]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("load", [Load(LoadKind.BACKLOG), Load(LoadKind.CLOSED, concurrency=5)])
def test_what_is_sent_does_not_depend_on_the_number_of_workers(
    tmp_path: Path, answer: MakeAnswer, workload: MakeWorkload, workers: int, load: Load
) -> None:
    measured, records = run([answer(tokens=3)], workload(13, load), tmp_path, workers=workers)

    assert measured.client is not None
    assert measured.client.workers == workers
    assert sorted(record.index for record in records) == list(range(13))
    assert {record.output_tokens for record in records} == {3}


@pytest.mark.parametrize("load", [Load(LoadKind.BACKLOG), Load(LoadKind.CLOSED, concurrency=3)])
def test_every_request_is_sent_once_and_recorded(
    tmp_path: Path, answer: MakeAnswer, workload: MakeWorkload, load: Load
) -> None:
    measured, records = run([answer(tokens=2)], workload(20, load), tmp_path)

    assert (measured.stopped_by, measured.counts.ok) == (None, 20)
    assert {len(record.events_ns) for record in records} == {2}
    assert {record.output_tokens for record in records} == {2}


def test_a_failed_request_is_a_record_and_the_others_go_on(
    tmp_path: Path, answer: MakeAnswer, cut_answer: Script, workload: MakeWorkload
) -> None:
    load = Load(LoadKind.CLOSED, concurrency=1)
    measured, records = run([answer(), cut_answer, answer()], workload(3, load), tmp_path)

    assert (measured.counts.ok, measured.counts.failed) == (2, 1)
    assert records[1].error is not None
    assert records[1].error.kind == "cut"


def test_latency_counts_from_the_due_time_when_the_server_was_busy(
    tmp_path: Path, answer: MakeAnswer, workload: MakeWorkload
) -> None:
    """Ten requests due 1 ms apart while each answer takes 20 ms: nothing waits for anything."""
    load = Load(LoadKind.POISSON, rate_rps=1000.0)
    due_ns = tuple(i * MS for i in range(10))
    _, records = run([answer(first_ns=20 * MS)], workload(10, load, due_ns), tmp_path)

    for record in records:
        assert record.sent_ns >= record.due_ns
        assert record.events_ns[0] - record.sent_ns >= 20 * MS


def test_a_deadline_ends_the_run_and_what_was_in_flight_is_cancelled_not_failed(
    tmp_path: Path, answer: MakeAnswer, silent_answer: Script, workload: MakeWorkload
) -> None:
    load = Load(LoadKind.CLOSED, concurrency=1)
    scripts = [answer(), silent_answer]
    measured, records = run(scripts, workload(5, load), tmp_path, deadline_s=0.05)

    assert measured.stopped_by == "the deadline of 0.05 s passed"
    assert [r.outcome for r in records] == [Outcome.OK, Outcome.CANCELLED]
    assert len(records[1].events_ns) == 1
    assert measured.counts.planned == 5


def test_an_interrupted_run_keeps_its_records(
    tmp_path: Path, answer: MakeAnswer, silent_answer: Script, workload: MakeWorkload
) -> None:
    interrupted: list[bool] = []

    def interrupt(progress: Progress) -> None:
        if progress.counts.sent == 2 and not interrupted:
            interrupted.append(True)
            (task,) = (t for t in asyncio.all_tasks() if t.get_coro().__name__ == "main")  # type: ignore[union-attr]
            task.cancel()

    load = Load(LoadKind.CLOSED, concurrency=1)
    measured, records = run([answer(), silent_answer], workload(5, load), tmp_path, interrupt)

    assert measured.is_interrupted
    assert [r.outcome for r in records] == [Outcome.OK, Outcome.CANCELLED]


def test_the_death_of_the_engine_ends_the_run(
    tmp_path: Path, silent_answer: Script, workload: MakeWorkload
) -> None:
    def dead() -> None:
        msg = "the server ended with exit code 9"
        raise EngineFailed(msg)

    measured, records = run([silent_answer], workload(3), tmp_path, raise_if_dead=dead)

    assert measured.is_engine_dead
    assert measured.stopped_by == "the server ended with exit code 9"
    assert [r.outcome for r in records] == [Outcome.CANCELLED] * 3


def warm(script: Script, count: int = 2) -> int:
    async def main() -> int:
        clock = MonotonicClock()
        async with ScriptedServer([script], clock) as server:
            link = Link(server.url, "m", OpenAICompletionsDialect(), clock, lambda: None)
            await warm_up(link, [Request(i, "A", (1, i), 1) for i in range(count)])
            return server.most_open

    return asyncio.run(main())


def test_warm_up_requests_are_sent_all_at_once(answer: MakeAnswer) -> None:
    assert warm(answer(first_ns=20 * MS), count=4) == 4


def test_an_engine_that_fails_its_warm_up_is_not_measured(cut_answer: Script) -> None:
    with pytest.raises(EngineFailed, match=r"failed a warm-up request \(cut: .*read engine.log"):
        warm(cut_answer)
