"""One measurement on one page: prepare, warm up, measure, drain.

Everything that is sent is built, and every connection that is known to be needed is open, before
the clock starts. Ctrl-C, a deadline and the engine's death end the measurement early; what was in
flight then is recorded as cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from harness.core.clock import Clock
from harness.core.engine import Capture, Dialect
from harness.core.errors import EngineFailed
from harness.core.manifest import ClientFacts, Counts
from harness.core.record import Outcome
from harness.core.rundir import REQUESTS, TEXTS
from harness.core.units import NS_PER_MS, ns_to_s
from harness.core.workload import Request, Workload
from harness.loadgen.crew import Crew, Shares, assemble, split
from harness.loadgen.framing import RawCapture, capture_of
from harness.loadgen.parcel import packed
from harness.loadgen.pool import Pool, require_files
from harness.loadgen.recorder import Recorder, RecorderPlan, start_recorder
from harness.loadgen.wire import Job, Target, parse_target, request_bytes

# How often the engine is looked at, and progress shown, while requests are in flight.
WATCH_EVERY_S = 0.25
# A process that dies closes its connections a moment before its parent can see that it is dead.
DEATH_SHOWS_AFTER_NS = 200 * NS_PER_MS

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Link:
    """The engine as the load generator sees it: where it is, how it speaks, whether it lives.

    `model` is the name that the engine serves the model under. `raise_if_dead` raises EngineFailed.
    """

    base_url: str
    model: str
    dialect: Dialect
    clock: Clock
    raise_if_dead: Callable[[], None]


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How our side works: over how many processes, and whether answers are kept as text."""

    workers: int = 1
    saves_text: bool = False


DEFAULT_OPTIONS = ClientOptions()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workload as bytes, in sending processes that are ready to start, and a recorder."""

    link: Link
    crew: Crew
    recorder: Recorder


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a measurement is. `events` counts pieces of answers, about one a token."""

    counts: Counts
    events: int
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """How a measurement went. `stopped_by` is None when every request was sent and has ended."""

    ended_ns: int
    counts: Counts
    client: ClientFacts | None = None
    stopped_by: str | None = None
    is_engine_dead: bool = False
    is_interrupted: bool = False


@asynccontextmanager
async def prepare(
    link: Link, workload: Workload, folder: Path, options: ClientOptions = DEFAULT_OPTIONS
) -> AsyncIterator[Prepared]:
    """Encode `workload` for `link`, and have processes ready to send and to record into `folder`.

    They are gone when the context is left. Raises UsageError when this machine cannot hold the
    connections, or not what is to be sent.
    """
    target = parse_target(link.base_url)
    payload_of = partial(_payload, link, target)
    with packed(workload.arrivals, folder, payload_of) as parcel:
        whole = Shares(target, workload.load, parcel.dues, parcel.payloads)
        plans = split(whole, options.workers, folder)
        for plan in plans:
            plan.spool.touch()
        recorder_plan = RecorderPlan(
            spools=tuple(plan.spool for plan in plans),
            asked=parcel.asked,
            dialect=link.dialect,
            requests=folder / REQUESTS,
            texts=folder / TEXTS if options.saves_text else None,
        )
        async with start_recorder(recorder_plan) as recorder, assemble(plans) as crew:
            await crew.wait_until_ready()
            yield Prepared(link, crew, recorder)


async def warm_up(link: Link, requests: Sequence[Request], deadline_s: float | None = None) -> None:
    """Send `requests` all at once and wait for their ends, so that nothing is cold afterwards.

    Raises EngineFailed when one of them fails, or has not ended after `deadline_s`: the engine
    cannot be measured then. Raises UsageError when this machine cannot hold the connections.
    """
    require_files(len(requests))
    target, start_ns = parse_target(link.base_url), link.clock.now_ns()
    captures: list[RawCapture] = []
    over = asyncio.Event()

    def deliver(capture: RawCapture) -> None:
        captures.append(capture)
        if len(captures) == len(requests):
            over.set()

    def look() -> None:
        link.raise_if_dead()
        if deadline_s is not None and ns_to_s(link.clock.now_ns() - start_ns) > deadline_s:
            msg = f"a warm-up request had not ended after {deadline_s:g} s; read engine.log"
            raise EngineFailed(msg)

    pool = Pool(target, link.clock.now_ns, deliver)
    try:
        for index, payload in enumerate([_payload(link, target, r) for r in requests]):
            pool.send(Job(index, payload))
        if requests:
            await _watched(over.wait(), look)
    finally:
        pool.cancel_all()
        pool.close()
    for raw in captures:
        _require_answer(link, capture_of(raw))


async def measure(
    prepared: Prepared,
    start_ns: int,
    on_progress: Callable[[Progress], None],
    deadline_s: float | None = None,
) -> Measured:
    """Send the workload from `start_ns` on, and record every request sent.

    Returns early, with the reason, when the task is cancelled, the deadline passes, or the engine
    dies; the requests in flight are then recorded as cancelled, or as the death left them.
    """
    link, crew, recorder = prepared.link, prepared.crew, prepared.recorder
    clock = link.clock
    end = Measured(0, recorder.counts)

    def look() -> None:
        elapsed_s = ns_to_s(clock.now_ns() - start_ns)
        on_progress(Progress(_counts(prepared), crew.tally.reads, elapsed_s))
        link.raise_if_dead()
        if deadline_s is not None and elapsed_s > deadline_s:
            raise TimeoutError

    recorder.begin(start_ns)
    crew.start(start_ns)
    try:
        await _watched(crew.wait_until_done(), look)
        if crew.tally.broken:
            await clock.sleep_until_ns(clock.now_ns() + DEATH_SHOWS_AFTER_NS)
        look()
    except asyncio.CancelledError:
        end = replace(end, stopped_by="interrupted", is_interrupted=True)
    except TimeoutError:
        end = replace(end, stopped_by=f"the deadline of {deadline_s:g} s passed")
    except EngineFailed as error:
        end = replace(end, stopped_by=str(error), is_engine_dead=True)
    end = replace(end, ended_ns=clock.now_ns())
    await crew.stop()
    await recorder.finish()
    on_progress(Progress(_counts(prepared), crew.tally.reads, ns_to_s(end.ended_ns - start_ns)))
    return replace(end, counts=_counts(prepared), client=_client_facts(prepared))


def _counts(prepared: Prepared) -> Counts:
    """The counts as of now; what is recorded was sent, though its worker may say so later."""
    ended = prepared.recorder.counts
    recorded = ended.ok + ended.failed + ended.cancelled + ended.unfinished
    return replace(ended, sent=max(prepared.crew.tally.sent, recorded))


def _client_facts(prepared: Prepared) -> ClientFacts | None:
    """How hard our processes worked; None when no sending process lived to say so."""
    exertions = prepared.crew.exertions
    if not exertions:
        return None
    return ClientFacts(
        workers=len(exertions),
        cpu_share_max=max(e.cpu_ns / max(e.wall_ns, 1) for e in exertions),
        blocked_share_max=max(e.blocked_ns / max(e.wall_ns, 1) for e in exertions),
        reads=prepared.crew.tally.reads,
        recorder_cpu_s=ns_to_s(prepared.recorder.cpu_ns),
        cpu_s=ns_to_s(sum(e.cpu_ns for e in exertions)),
        reads_by=exertions[0].reads_by,
    )


def _payload(link: Link, target: Target, request: Request) -> bytes:
    return request_bytes(target, link.dialect.encode(request, link.model))


def _require_answer(link: Link, capture: Capture) -> None:
    answer = link.dialect.decode(capture)
    if answer.outcome is not Outcome.OK:
        reason = f"{answer.error.kind}: {answer.error.message}" if answer.error else "no answer"
        msg = f"the engine failed a warm-up request ({reason}); read engine.log"
        raise EngineFailed(msg)


async def _watched(work: Awaitable[T], look: Callable[[], None]) -> T:
    """The result of `work`, calling `look` now and then; what `look` raises ends the work."""
    task = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait({task}, timeout=WATCH_EVERY_S)
            if done:
                return task.result()
            look()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
