"""One sending process: takes a plan through its door, sends, and spools what it read.

The door carries a plan in, and small messages both ways; nothing else is shared but two files: the
bytes to send, and the spool. So a worker could as well run on another machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Door
from pathlib import Path

import uvloop

from harness.core.clock import Clock, MonotonicClock
from harness.core.engine import Ending
from harness.core.errors import UsageError
from harness.core.units import NS_PER_MS, NS_PER_S, ns_to_s
from harness.core.workload import Load, LoadKind
from harness.loadgen.child import cpu_ns
from harness.loadgen.framing import RawCapture
from harness.loadgen.pacing import ClosedLoop, Due, OpenLoop, Pacer
from harness.loadgen.pool import Pool, require_files
from harness.loadgen.spool import SpoolWriter
from harness.loadgen.wire import Job, Target

PROGRESS_EVERY_S = 0.25
# When many answers end at once the next requests go first; what was read is written in between.
SPOOL_AFTER_S = 0.001
SPOOLED_TOGETHER = 8
HEARTBEAT_S = 0.010
# A heartbeat that comes later than this after its time found the loop blocked (statistics: V08).
HEARTBEAT_GRACE_NS = 5 * NS_PER_MS
# With arrivals over time nobody knows how many will be in flight; more are opened when needed.
_OPEN_LOOP_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """What one worker sends: its share of the requests by their due times; all bytes, by index."""

    target: Target
    load: Load
    dues: Sequence[Due]
    payloads: Mapping[int, bytes]
    spool: Path


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker's connections are open."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The plan cannot be carried out on this machine; `message` says why."""

    message: str


@dataclass(frozen=True, slots=True)
class Start:
    """Due instants count from `start_ns` of CLOCK_MONOTONIC."""

    start_ns: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Send nothing more, and give up what is in flight."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How far a worker is. `reads` counts pieces of answers, about one a token."""

    sent: int = 0
    ended: int = 0
    broken: int = 0
    reads: int = 0


@dataclass(frozen=True, slots=True)
class Exertion:
    """How hard a worker's process worked between start and end: is it the bottleneck itself?

    `blocked_ns`: time by which 10 ms heartbeats came more than 5 ms late. `cpu_ns`: user, system.
    `reads_by`: what read its sockets, `compiled` or `asyncio`.
    """

    wall_ns: int
    cpu_ns: int
    blocked_ns: int
    reads_by: str


@dataclass(frozen=True, slots=True)
class Done:
    """The worker has nothing in flight; its spool is whole."""

    tally: Tally
    exertion: Exertion


Message = Ready | Refused | Tally | Done


def work(plan: WorkerPlan, door: Door) -> None:
    """The main function of a worker's process."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_Worker(plan, door, MonotonicClock()).run())


class _Worker:
    def __init__(self, plan: WorkerPlan, door: Door, clock: Clock) -> None:
        self._plan = plan
        self._door = door
        self._clock = clock
        self._spool = SpoolWriter(plan.spool)
        self._unspooled: deque[RawCapture] = deque()
        self._pool = Pool(plan.target, clock.now_ns, self._deliver)
        self._ready: dict[int, Callable[[], None]] = {}
        self._sent = 0
        self._ended = 0
        self._broken = 0
        self._blocked_ns = 0
        self._over = asyncio.Event()
        self._pacer = self._make_pacer()

    async def run(self) -> None:
        try:
            require_files(self._connections())
        except UsageError as error:
            self._say(Refused(str(error)))
            return
        await self._pool.open(self._connections())
        self._say(Ready())
        loop = asyncio.get_running_loop()
        started: asyncio.Future[int | None] = loop.create_future()
        loop.add_reader(self._door.fileno(), self._listen, started)
        start_ns = await started
        if start_ns is None:
            return
        gc.collect()
        gc.freeze()
        gc.disable()  # a collection would stop the loop for milliseconds; little garbage is made
        used_ns = cpu_ns()
        self._pacer.start(start_ns)
        self._pool.give_way_to(self._pacer)
        if not self._plan.dues:
            self._over.set()
        tasks = [loop.create_task(self._beat()), loop.create_task(self._tell())]
        await self._over.wait()
        for task in tasks:
            task.cancel()
        self._spool_some(len(self._unspooled))
        exertion = Exertion(
            wall_ns=self._clock.now_ns() - start_ns,
            cpu_ns=cpu_ns() - used_ns,
            blocked_ns=self._blocked_ns,
            reads_by=self._pool.reads_by,
        )
        self._pacer.stop()
        self._pool.close()
        self._spool.close()
        self._say(Done(self._tally(), exertion))

    def _make_pacer(self) -> Pacer:
        if self._plan.load.kind is LoadKind.CLOSED:
            slots = self._plan.load.concurrency or 1
            return ClosedLoop(self._plan.dues, slots, self._clock, self._send)
        return OpenLoop(self._plan.dues, self._clock, self._send, self._make_ready)

    def _connections(self) -> int:
        count = sum(due.after is None for due in self._plan.dues)  # later turns find one idle
        match self._plan.load.kind:
            case LoadKind.CLOSED:
                return min(count, self._plan.load.concurrency or 1)
            case LoadKind.BACKLOG:
                return count
            case _:
                return min(count, _OPEN_LOOP_CONNECTIONS)

    def _make_ready(self, index: int) -> None:
        self._ready[index] = self._pool.make_ready(Job(index, self._plan.payloads[index]))

    def _send(self, index: int) -> None:
        if index not in self._ready:
            self._make_ready(index)
        self._ready.pop(index)()
        self._sent += 1

    def _deliver(self, capture: RawCapture) -> None:
        if not self._unspooled:
            asyncio.get_running_loop().call_later(SPOOL_AFTER_S, self._spool_later)
        self._unspooled.append(capture)
        self._ended += 1
        self._broken += capture.ending is not Ending.COMPLETE
        self._pacer.note_end(capture.index, capture.ended_ns)
        if self._pacer.is_done and not self._pool.in_flight:
            self._over.set()

    def _spool_later(self) -> None:
        """Write a few captures, and the next a little later: many may have ended at once."""
        if not self._pacer.is_near:
            self._spool_some(max(SPOOLED_TOGETHER, len(self._unspooled) // 16))
        if self._unspooled:
            asyncio.get_running_loop().call_later(SPOOL_AFTER_S, self._spool_later)

    def _spool_some(self, count: int) -> None:
        count = min(count, len(self._unspooled))
        self._spool.extend([self._unspooled.popleft() for _ in range(count)])

    def _listen(self, started: asyncio.Future[int | None]) -> None:
        try:
            message = self._door.recv()
        except EOFError:  # the parent has gone: end as if told to
            asyncio.get_running_loop().remove_reader(self._door.fileno())
            message = Stop()
        match message:
            case Start(start_ns):
                started.set_result(start_ns)
            case Stop():
                self._stop(started)

    def _say(self, message: Message) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more: the spool is what counts
            self._door.send(message)

    def _stop(self, started: asyncio.Future[int | None]) -> None:
        if not started.done():
            started.set_result(None)
        self._pacer.stop()
        self._pool.cancel_all()
        self._over.set()

    def _tally(self) -> Tally:
        return Tally(self._sent, self._ended, self._broken, self._pool.reads)

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY_S)
            self._say(self._tally())

    async def _beat(self) -> None:
        due_ns = self._clock.now_ns()
        while True:
            due_ns += round(HEARTBEAT_S * NS_PER_S)
            await asyncio.sleep(max(0.0, ns_to_s(due_ns - self._clock.now_ns())))
            late_ns = self._clock.now_ns() - due_ns
            if late_ns > HEARTBEAT_GRACE_NS:
                self._blocked_ns += late_ns - HEARTBEAT_GRACE_NS
                due_ns = self._clock.now_ns()
