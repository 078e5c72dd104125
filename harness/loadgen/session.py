"""One measurement on one page: prepare, warm up, measure, drain.

Everything that is sent is built before the clock starts. Ctrl-C, a deadline and the engine's death
end the measurement early; what was in flight then is recorded as cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from harness.core.clock import Clock
from harness.core.engine import Capture, Dialect, Ending
from harness.core.errors import EngineFailed
from harness.core.manifest import Counts
from harness.core.record import Outcome, RequestRecord
from harness.core.rundir import REQUESTS, open_lines
from harness.core.units import NS_PER_MS, ns_to_s, s_to_ns
from harness.core.workload import Arrival, Request, Workload
from harness.loadgen.pacing import send_all
from harness.loadgen.recorder import Recorder
from harness.loadgen.wire import Target, Watch, parse_target, request_bytes, run_exchange

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
class Prepared:
    """A workload turned into bytes, by the index of its requests."""

    link: Link
    target: Target
    workload: Workload
    payloads: Mapping[int, bytes]


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
    stopped_by: str | None = None
    is_engine_dead: bool = False
    is_interrupted: bool = False


def prepare(link: Link, workload: Workload) -> Prepared:
    """Encode every request of `workload` for `link`."""
    target = parse_target(link.base_url)
    requests = (arrival.request for arrival in workload.arrivals)
    return Prepared(link, target, workload, _encode(link, target, requests))


async def warm_up(link: Link, requests: Sequence[Request]) -> None:
    """Send `requests` all at once and wait for their ends, so that nothing is cold afterwards.

    Raises EngineFailed when one of them fails: the engine cannot be measured then.
    """
    target = parse_target(link.base_url)
    captures: list[Capture] = []
    watch = Watch(on_sent=lambda: None, on_body=lambda _: None, deliver=captures.append)
    payloads = _encode(link, target, requests).values()
    exchanges = (run_exchange(target, payload, link.clock, watch) for payload in payloads)
    await _watched(asyncio.gather(*exchanges), link.raise_if_dead)
    for capture in captures:
        answer = link.dialect.decode(capture)
        if answer.outcome is not Outcome.OK:
            reason = f"{answer.error.kind}: {answer.error.message}" if answer.error else "no answer"
            msg = f"the engine failed a warm-up request ({reason}); read engine.log"
            raise EngineFailed(msg)


async def measure(
    prepared: Prepared,
    start_ns: int,
    folder: Path,
    on_progress: Callable[[Progress], None],
    deadline_s: float | None = None,
) -> Measured:
    """Send the workload from `start_ns` on, and append a record of every request to `folder`.

    Returns early, with the reason, when the task is cancelled, the deadline passes, or the engine
    dies; the requests in flight are then recorded as cancelled, or as the death left them.
    """
    clock, tally = prepared.link.clock, _Tally(planned=len(prepared.workload.arrivals))
    end = Measured(0, tally.counts)

    def look() -> None:
        on_progress(Progress(tally.counts, tally.events, ns_to_s(clock.now_ns() - start_ns)))
        prepared.link.raise_if_dead()
        if deadline_s is not None and clock.now_ns() > start_ns + s_to_ns(deadline_s):
            raise TimeoutError

    with (
        open_lines(folder / REQUESTS) as lines,
        Recorder(lines, prepared.link.dialect, start_ns, tally.note_record) as recorder,
    ):

        async def send(arrival: Arrival) -> None:
            def deliver(capture: Capture) -> None:
                tally.note_ending(capture.ending)
                recorder.take(arrival, capture)

            watch = Watch(tally.note_sent, tally.note_body, deliver)
            payload = prepared.payloads[arrival.request.index]
            await run_exchange(prepared.target, payload, clock, watch)

        sending = send_all(
            prepared.workload.arrivals, prepared.workload.load, start_ns, clock, send
        )
        try:
            await _watched(sending, look)
            if tally.broken:
                await clock.sleep_until_ns(clock.now_ns() + DEATH_SHOWS_AFTER_NS)
            look()
        except asyncio.CancelledError:
            end = replace(end, stopped_by="interrupted", is_interrupted=True)
        except TimeoutError:
            end = replace(end, stopped_by=f"the deadline of {deadline_s:g} s passed")
        except EngineFailed as error:
            end = replace(end, stopped_by=str(error), is_engine_dead=True)
        end = replace(end, ended_ns=clock.now_ns())
    on_progress(Progress(tally.counts, tally.events, ns_to_s(end.ended_ns - start_ns)))
    return replace(end, counts=tally.counts)


class _Tally:
    """Counts for the manifest and the progress line.

    Requests sent are counted by the event loop, those that have ended by the recorder's thread.
    """

    def __init__(self, planned: int) -> None:
        self._ended = Counts(planned=planned)
        self._sent = 0
        self.events = 0
        self.broken = 0

    @property
    def counts(self) -> Counts:
        """The counts as of now."""
        return replace(self._ended, sent=self._sent)

    def note_sent(self) -> None:
        self._sent += 1

    def note_body(self, _length: int) -> None:
        self.events += 1

    def note_ending(self, ending: Ending) -> None:
        self.broken += ending is not Ending.COMPLETE

    def note_record(self, record: RequestRecord) -> None:
        self._ended = self._ended.with_outcome(record.outcome)


def _encode(link: Link, target: Target, requests: Iterable[Request]) -> dict[int, bytes]:
    return {
        request.index: request_bytes(target, link.dialect.encode(request, link.model))
        for request in requests
    }


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
