"""Faults of clients that users of other tools reported: limits nobody set, lateness nobody counted,
and the client's own troubles put down to the server. One test a case; the numbers of issues are where
somebody met the fault."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.scripted import Script, ScriptedServer, ScriptEnd, chunk, response_head
from harness.analyzer.metrics import find_metric
from harness.analyzer.summary import CheckVerdict, Summary, Validity
from harness.core.clock import MonotonicClock
from harness.core.engine import Ending
from harness.core.manifest import ClientFacts
from harness.core.record import Outcome, RequestError
from harness.core.workload import Load, LoadKind, Workload
from harness.loadgen.framing import RawCapture, capture_of
from harness.loadgen.pool import Pool
from harness.loadgen.wire import Job, Target, connect_fault, parse_target
from harness.loadgen.worker import HEARTBEAT_GRACE_NS, WorkerPlan, _Worker

MS = 1_000_000
POISSON = Load(LoadKind.POISSON, rate_rps=100.0)
MakeAnswer = Callable[..., Script]
MakeWorkload = Callable[..., Workload]
Drive = Callable[..., Any]


def closed(slots: int) -> Load:
    return Load(LoadKind.CLOSED, concurrency=slots)


def verdict_of(summary: Summary, check_id: str) -> CheckVerdict:
    return next(check.verdict for check in summary.checks if check.id == check_id)


def one_at_a_time(
    dues_ms: list[int], service_ms: float, frozen_ms: tuple[int, int]
) -> list[tuple[float, float, float]]:
    """Due, sent and ended of requests on one connection whose server freezes for a while."""
    rows: list[tuple[float, float, float]] = []
    free_ms = 0.0
    for due_ms in dues_ms:
        sent_ms = max(due_ms, free_ms)
        began_ms = frozen_ms[1] if frozen_ms[0] <= sent_ms < frozen_ms[1] else sent_ms
        free_ms = began_ms + service_ms
        rows.append((due_ms, sent_ms, free_ms))
    return rows


def records_of(build: Any, rows: list[tuple[float, float, float]]) -> list[Any]:
    return [
        build.record(i, (ended,), due_ms=due, sent_ms=sent)
        for i, (due, sent, ended) in enumerate(rows)
    ]


def test_d01_the_wait_in_the_client_is_part_of_the_latency(build: Any) -> None:
    """vllm#54101: with one request at a time, eight due 100 ms apart and served in 500 ms, the
    report said 500 ms; from the schedule the mean is 1,900 and the maximum 3,300."""
    rows = one_at_a_time(list(range(0, 800, 100)), 500, (-1, -1))
    summary = build.summary(records_of(build, rows), load=Load(LoadKind.POISSON, rate_rps=10.0))

    assert summary.value("e2e_s_mean") == pytest.approx(1.9)
    assert summary.value("e2e_s_max") == pytest.approx(3.3)
    assert summary.value("send_lag_s_max") == pytest.approx(2.8)
    assert sum(sent - due for due, sent, _ in rows) / 8 == 1400
    assert verdict_of(summary, "V06") is CheckVerdict.INVALID


def test_d02_a_stall_is_not_omitted_by_those_who_wait_for_it(build: Any) -> None:
    """tlp-stress#131 and many more: one connection, 100 requests a second for 10 s, service 1 ms,
    the server frozen for the sixth second. By instants of sending nobody sees it."""
    rows = one_at_a_time(list(range(0, 10_000, 10)), 1, (5000, 6000))
    records = records_of(build, rows)
    from_sent = build.summary(records, load=closed(1))
    from_due = build.summary(records, load=POISSON)

    assert from_sent.value("e2e_s_p99") == pytest.approx(0.001)
    assert from_due.value("e2e_s_p99") == pytest.approx(0.911)
    assert from_due.value("e2e_s_max") == pytest.approx(1.001)
    assert verdict_of(from_due, "V06") is not CheckVerdict.PASS


def test_d02_a_closed_loop_says_that_it_is_one(build: Any) -> None:
    """Its latencies count from the instant of sending, so the label must travel with them."""
    summary = build.summary([build.record()], load=closed(1))

    assert "closed loop 1" in summary.manifest.workload.title
    assert summary.value("send_lag_s_p99") is None
    assert find_metric("send_lag_s_p99").definition.endswith("(open loop only).")


def client(**changes: Any) -> ClientFacts:
    plain = ClientFacts(
        workers=1, cpu_share_max=0.2, blocked_share_max=0.0, reads=1000, cpu_s=1.0,
        recorder_cpu_s=0.1,
    )  # fmt: skip
    return replace(plain, **changes)


def heartbeats(block_s: float, lasts_s: float) -> tuple[float, float]:
    """Seconds blocked, as a worker counts them, and in all, of a loop that is blocked once."""

    async def main() -> tuple[float, float]:
        here, there = Pipe()
        target = Target("localhost", 1, "", is_tls=False)
        clock = MonotonicClock()
        plan = WorkerPlan(target, closed(1), (), {}, Path("/dev/null"))
        worker = _Worker(plan, there, clock)
        loop, start_ns = asyncio.get_running_loop(), clock.now_ns()
        beat = loop.create_task(worker._beat())
        loop.call_later(lasts_s / 2, time.sleep, block_s)
        await asyncio.sleep(lasts_s)
        beat.cancel()
        here.close()
        there.close()
        worker._spool.close()
        return worker._blocked_ns / 1e9, (clock.now_ns() - start_ns) / 1e9

    return asyncio.run(main())


def test_d08_a_client_whose_loop_is_blocked_makes_the_run_invalid(build: Any) -> None:
    """inference-perf#188: requests late, TTFT and gaps inflated, and no word of it. Here the loop is
    blocked for 50 ms of a second."""
    blocked_s, all_s = heartbeats(block_s=0.05, lasts_s=0.9)
    facts = client(blocked_share_max=blocked_s / all_s)
    summary = build.summary([build.record(0, (10, 20_000))], client=facts)

    least_s = 0.05 - 0.010 - HEARTBEAT_GRACE_NS / 1e9  # a heartbeat may have been due at its end
    assert blocked_s >= least_s
    assert verdict_of(summary, "V08") is CheckVerdict.INVALID
    assert summary.validity is Validity.INVALID


@pytest.mark.parametrize(
    ("events_s", "expected"),
    [(1000.0, CheckVerdict.PASS), (39.0, CheckVerdict.WARN), (24.0, CheckVerdict.INVALID)],
)
def test_d09_a_run_says_how_near_to_the_clients_ceiling_it_was(
    build: Any, events_s: float, expected: CheckVerdict
) -> None:
    """inference-benchmarker#21: one client topped out at 10,000 tok/s where twelve reached 24,000."""
    records = [build.record(i, (i * 100 + 50, i * 100 + 100)) for i in range(16)]  # 20 events/s
    summary = build.summary(records, client=client(ceiling_events_s=events_s))

    assert verdict_of(summary, "V09") is expected
    check = next(c for c in summary.checks if c.id == "V09")
    assert f"{20 / events_s:.1%} of the client's {events_s:,.0f}" in check.value


@pytest.mark.parametrize(
    ("events_s", "expected"), [(1000.0, CheckVerdict.PASS), (24.0, CheckVerdict.SKIPPED)]
)
def test_d09_a_ceiling_that_is_only_a_lower_bound_accuses_nobody(
    build: Any, events_s: float, expected: CheckVerdict
) -> None:
    records = [build.record(i, (i * 100 + 50, i * 100 + 100)) for i in range(16)]  # 20 events/s
    facts = client(ceiling_events_s=events_s, ceiling_is_lower_bound=True)

    assert verdict_of(build.summary(records, client=facts), "V09") is expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.5, CheckVerdict.PASS), (0.81, CheckVerdict.WARN), (0.91, CheckVerdict.INVALID)],
)
def test_d10_a_client_that_has_used_its_processor_up_is_told(
    build: Any, share: float, expected: CheckVerdict
) -> None:
    """redis-benchmarks-specification#486: the generator ran at 91 % of its CPUs."""
    summary = build.summary([build.record()], client=client(cpu_share_max=share))

    assert verdict_of(summary, "V08") is expected


@pytest.mark.parametrize("load", [Load(LoadKind.BACKLOG), closed(150)], ids=str)
def test_d11_150_streams_are_150_at_the_server(
    drive: Drive, answer: MakeAnswer, workload: MakeWorkload, load: Load
) -> None:
    """azure-openai-benchmark#8, gpustack#1842: a connector's default let 100 through."""
    seen = drive([answer(first_ns=1000 * MS)], workload(150, load))

    assert seen.server.most_in_flight == 150
    assert seen.server.most_open == 150
    assert seen.measured.counts.ok == 150


def kept(answer: Script) -> Script:
    """`answer` on a connection that may be used again."""
    return replace(answer, end=ScriptEnd.KEEP)


@pytest.mark.parametrize("slots", [1, 3, 128])
def test_d12_d26_as_many_requests_are_in_flight_as_were_asked_for_and_never_more(
    drive: Drive, answer: MakeAnswer, workload: MakeWorkload, slots: int
) -> None:
    """verifiers#1811: 128 asked for, 100 sent. vllm#36300: a peak of 3 reported under a cap of 1."""
    first_ns = 500 * MS if slots > 10 else 20 * MS
    seen = drive([kept(answer(first_ns=first_ns))], workload(2 * slots, closed(slots)))

    assert seen.server.most_in_flight == slots
    assert seen.server.connections == slots
    changes = [(r.sent_ns, 1) for r in seen.records] + [(r.closed_ns, -1) for r in seen.records]
    in_flight = most = 0
    for _, change in sorted(changes):  # an end goes before a beginning at the same instant
        in_flight += change
        most = max(most, in_flight)
    assert most == slots


def test_d13_nothing_that_waits_for_an_answer_has_a_time_out(answer: MakeAnswer) -> None:
    """litellm#25654, vllm-omni#5548: leaving the total time-out unset still meant 300 s."""
    delays_s: list[float] = []
    captures: list[RawCapture] = []

    class Watched(asyncio.SelectorEventLoop):
        def call_at(  # type: ignore[override]  # the library's own is generic over its arguments
            self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
        ) -> asyncio.TimerHandle:
            delays_s.append(when - self.time())
            return super().call_at(when, callback, *args, context=context)

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            host, port = listener.getsockname()
            target, ended = parse_target(f"http://{host}:{port}"), asyncio.Event()

            def deliver(capture: RawCapture) -> None:
                captures.append(capture)
                ended.set()

            pool = Pool(target, MonotonicClock().now_ns, deliver)
            pool.send(Job(0, b"GET / HTTP/1.1\r\n\r\n"))
            loop = asyncio.get_running_loop()
            listener.setblocking(False)
            server, _ = await loop.sock_accept(listener)
            await loop.sock_sendall(server, response_head() + chunk(b"a"))
            while not pool.reads:
                await asyncio.sleep(0)
            await loop.sock_sendall(server, chunk(b"b") + chunk(b""))
            await ended.wait()
            server.close()
            pool.close()

    with asyncio.Runner(loop_factory=Watched) as runner:
        runner.run(main())

    assert captures[0].ending is Ending.COMPLETE
    assert delays_s == []


def test_d13_a_deadline_that_the_user_set_ends_the_run(
    drive: Drive, silent_answer: Script, workload: MakeWorkload
) -> None:
    seen = drive([silent_answer], workload(1), deadline_s=0.1)

    assert seen.measured.stopped_by == "the deadline of 0.1 s passed"
    assert seen.records[0].outcome is Outcome.CANCELLED


@pytest.mark.parametrize(
    ("number", "ending"),
    [
        (errno.EADDRNOTAVAIL, Ending.CLIENT_PORTS_EXHAUSTED),
        (errno.EMFILE, Ending.CLIENT_FILES_EXHAUSTED),
        (errno.ENFILE, Ending.CLIENT_FILES_EXHAUSTED),
        (errno.ECONNREFUSED, Ending.CONNECT_FAILED),
        (errno.ETIMEDOUT, Ending.CONNECT_FAILED),
    ],
)
def test_d14_d16_a_fault_of_this_machine_is_not_put_down_to_the_server(
    build: Any, number: int, ending: Ending
) -> None:
    """inference-benchmark#19: no port left; sglang#647: no file left."""
    found, detail = connect_fault(OSError(number, "x"))
    raw = RawCapture(0, 1, 2, found, detail, 0)
    answer = OpenAICompletionsDialect().decode(capture_of(raw))

    assert found is ending
    assert answer.outcome is Outcome.FAILED
    assert answer.error is not None
    is_ours = ending is not Ending.CONNECT_FAILED
    assert answer.error.kind == (ending.value if is_ours else "connect")
    records = [replace(build.failed(0), error=answer.error), build.record(1)]
    summary = build.summary(records)
    assert (verdict_of(summary, "V10") is CheckVerdict.INVALID) is is_ours


LIMITED = """
import asyncio, json, resource, sys
from pathlib import Path
from engines.dialects.openai_completions import OpenAICompletionsDialect
from harness.core.clock import MonotonicClock
from harness.core.errors import UsageError
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload
from harness.loadgen.session import Link, measure, prepare, warm_up

async def main(url, folder):
    clock = MonotonicClock()
    arrivals = tuple(Arrival(0, Request(i, "A", (1, 2, i), 2)) for i in range(200))
    work = Workload("many", 0, 1, Load(LoadKind.CLOSED, concurrency=200), arrivals)
    link = Link(url, "m", OpenAICompletionsDialect(), clock, lambda: None)
    if what == "warm up":
        await warm_up(link, [arrival.request for arrival in arrivals])
        return 200
    async with prepare(link, work, Path(folder)) as prepared:
        return (await measure(prepared, clock.now_ns(), lambda _: None)).counts.ok

url, folder, hard, what = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, int(hard)))
try:
    print(asyncio.run(main(url, folder)))
except UsageError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("hard", "said", "asked"),
    [
        (64, "200 requests at once need 264 open files, the system allows 64; raise the limit", 0),
        (400, "200", 200),
    ],
)
@pytest.mark.parametrize("what", ["measure", "warm up"])
def test_d16_a_limit_of_64_files_is_raised_or_the_run_refused_before_anything_is_sent(
    tmp_path: Path, answer: MakeAnswer, hard: int, said: str, asked: int, what: str
) -> None:
    """sglang#647, flexible-inference-bench#74: "too many open files" failed most requests."""

    async def main() -> tuple[str, ScriptedServer]:
        async with ScriptedServer([answer(first_ns=50 * MS)], MonotonicClock()) as server:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", LIMITED, server.url, str(tmp_path), str(hard), what,
                stdout=subprocess.PIPE,
            )  # fmt: skip
            printed, _ = await process.communicate()
            return printed.decode().strip(), server

    printed, server = asyncio.run(main())

    assert printed.startswith(said)
    assert len(server.requests) == server.connections == asked


def test_d17_a_connection_that_the_server_closes_when_idle_fails_no_request(
    drive: Drive, answer: MakeAnswer, workload: MakeWorkload
) -> None:
    """Gym#1555: the server closed idle connections at 5 s, the client kept them for 15. Here it is
    20 ms, and a request each 40 ms."""
    plain = answer()
    closes_when_idle = Script((*plain.pieces, (20 * MS, b"")), ScriptEnd.CLOSE)
    load = Load(LoadKind.CONSTANT, rate_rps=25.0)
    due_ns = tuple(i * 40 * MS for i in range(12))
    seen = drive([closes_when_idle], workload(12, load, due_ns))

    assert seen.kinds == [None] * 12
    assert all(record.retries <= 1 for record in seen.records)


def test_d17_no_request_is_sent_again_once_a_byte_came_back(
    drive: Drive, answer: MakeAnswer, cut_answer: Script, workload: MakeWorkload
) -> None:
    seen = drive([kept(answer()), cut_answer, kept(answer())], workload(3, closed(1)))

    assert seen.kinds == [None, "cut", None]
    assert [record.retries for record in seen.records] == [0, 0, 0]
    assert len(seen.server.requests) == 3


def test_c09_a_503_is_a_failure_and_is_not_tried_again(
    drive: Drive, answer: MakeAnswer, workload: MakeWorkload
) -> None:
    """gpustack#1677: a library's own retries hid 503s, and their time was the engine's."""
    body = json.dumps({"error": {"message": "overloaded"}}).encode()
    busy = response_head(503, "application/json") + chunk(body) + chunk(b"")
    seen = drive([Script(((0, busy),)), answer()], workload(2, closed(1)))

    assert seen.kinds == ["http_503", None]
    assert seen.records[0].error == RequestError("http_503", "overloaded")
    assert len(seen.server.requests) == 2


def test_c06_d23_a_server_that_refuses_all_is_twenty_records_and_no_crash(
    build: Any, drive: Drive, answer: MakeAnswer, workload: MakeWorkload
) -> None:
    """sglang#35005, LightLLM#90: division by zero, and the diagnostics lost with it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    seen = drive([answer()], workload(20), url=f"http://127.0.0.1:{port}")
    summary = build.summary(seen.records)

    assert seen.kinds == ["connect"] * 20
    assert summary.validity is Validity.INVALID
    assert summary.value("output_tok_s") is None
    assert summary.value("failure_rate") == 1.0


def test_b04_what_came_in_one_read_has_one_stamp(drive: Drive, workload: MakeWorkload) -> None:
    """nm-vllm#142, through a socket: three events in one write."""
    event = b'data: {"choices":[{"text":"a","finish_reason":%b}]}\n\n'
    body = event % b"null" + event % b"null" + event % b'"length"' + b"data: [DONE]\n\n"
    seen = drive([Script(((0, response_head() + chunk(body) + chunk(b"")),))], workload(1))

    (record,) = seen.records
    assert [after - before for before, after in pairwise(record.events_ns)] == [0, 0]
