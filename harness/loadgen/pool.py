"""The connections of a sending process: opened before they are needed, used again, uncapped."""

from __future__ import annotations

import asyncio
import resource
import ssl
from collections.abc import Callable
from functools import partial

from harness.core.engine import Ending
from harness.core.errors import UsageError
from harness.loadgen.direct_connection import DirectConnection
from harness.loadgen.framing import RawCapture
from harness.loadgen.pacing import Pacer
from harness.loadgen.protocol_connection import ProtocolConnection
from harness.loadgen.receiver import Receiver, receive_library
from harness.loadgen.wire import Connection, Job, Target, connect_fault

# Files that a process has open besides its connections: standard streams, logs, the loop's own.
SPARE_FILES = 64
# Connections asked for at the same time while the pool is filled.
_OPENED_TOGETHER = 200


class Pool:
    """Sends jobs over connections to one target; every job ends in one call of `deliver`.

    A connection that the server keeps open is used again. When a job meets one that the server has
    closed meanwhile, before any byte came back, it is sent once more on a fresh one, and counted.
    """

    def __init__(
        self, target: Target, now_ns: Callable[[], int], deliver: Callable[[RawCapture], None]
    ) -> None:
        self._target = target
        self._now_ns = now_ns
        self._deliver = deliver
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._opening: dict[asyncio.Task[None], Job] = {}
        self._receiver: Receiver | None = None
        self._reads_ended = 0
        self._tls = ssl.create_default_context() if target.is_tls else None

    @property
    def in_flight(self) -> int:
        """Jobs that were sent, or wait for a connection."""
        return len(self._busy) + len(self._opening)

    @property
    def reads(self) -> int:
        """Reads so far, of all jobs."""
        if self._receiver is not None:
            return self._receiver.reads
        return self._reads_ended + sum(connection.reads_so_far for connection in self._busy)

    @property
    def reads_by(self) -> str:
        """What reads the sockets: `compiled`, or `asyncio`."""
        return "asyncio" if self._receiver is None else "compiled"

    async def open(self, count: int) -> None:
        """Have `count` idle connections; fewer when the server refuses some now."""
        for first in range(0, count, _OPENED_TOGETHER):
            opened = (self._connect() for _ in range(first, min(first + _OPENED_TOGETHER, count)))
            for result in await asyncio.gather(*opened, return_exceptions=True):
                if isinstance(result, Connection):
                    self._idle.append(result)
                elif not isinstance(result, OSError):
                    raise result

    def send(self, job: Job) -> None:
        """Send `job` at once on an idle connection, or as soon as a new one is there."""
        self.make_ready(job)()

    def make_ready(self, job: Job) -> Callable[[], None]:
        """What sends `job`, with the least left to do; to be called before the loop goes on."""
        if not self._idle:
            return partial(self._send_afresh, job)
        connection = self._idle.pop()
        self._busy.add(connection)
        connection.prepare(job)
        return connection.fire

    def give_way_to(self, pacer: Pacer) -> None:
        """Keep out of the way of what `pacer` is about to send."""
        if self._receiver is not None:
            self._receiver.give_way(pacer.alarm_fd, lambda: pacer.is_near)

    def cancel_all(self) -> None:
        """Give up all jobs; each is delivered as cancelled."""
        now_ns = self._now_ns()
        for task, job in list(self._opening.items()):
            task.cancel()
            sent_ns, why = job.sent_ns or now_ns, "its connection was still being opened"
            self._deliver(
                RawCapture(job.index, sent_ns, now_ns, Ending.CANCELLED, why, job.retries)
            )
        self._opening.clear()
        for connection in list(self._busy):
            connection.cancel()

    def close(self) -> None:
        """Close all connections."""
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle.clear()
        if self._receiver is not None:
            self._receiver.close()

    def _send_afresh(self, job: Job) -> None:
        task = asyncio.get_running_loop().create_task(self._send_on_a_new_one(job))
        self._opening[task] = job
        self._note_opening()

    def _note_opening(self) -> None:
        if self._receiver is not None:
            self._receiver.may_stay = not self._opening

    async def _send_on_a_new_one(self, job: Job) -> None:
        asked_ns = self._now_ns()
        try:
            connection = await self._connect()
        except OSError as error:
            self._opening.pop(_this_task(), None)
            self._note_opening()
            ending, detail = connect_fault(error)
            sent_ns = job.sent_ns if job.retries else asked_ns
            ended_ns = self._now_ns()
            self._deliver(RawCapture(job.index, sent_ns, ended_ns, ending, detail, job.retries))
            return
        self._opening.pop(_this_task(), None)
        self._note_opening()
        self._busy.add(connection)
        connection.prepare(job)
        connection.fire()

    async def _connect(self) -> Connection:
        if self._target.is_tls or (library := receive_library()) is None:
            return await self._connect_by_protocol()
        if self._receiver is None:
            self._receiver = Receiver(library)
        direct = DirectConnection(self._now_ns, self._end, self._lose, self._receiver)
        await direct.open(self._target)
        return direct

    async def _connect_by_protocol(self) -> Connection:
        loop = asyncio.get_running_loop()

        def make() -> ProtocolConnection:
            return ProtocolConnection(self._now_ns, self._end, self._lose)

        if self._target.socket_path is not None:
            _, connection = await loop.create_unix_connection(make, self._target.socket_path)
        else:
            _, connection = await loop.create_connection(
                make, self._target.host, self._target.port, ssl=self._tls
            )
        return connection

    def _end(self, connection: Connection) -> None:
        job, connection.job = connection.job, None
        self._busy.discard(connection)
        if job is None:
            return
        if connection.was_closed_unanswered and not job.retries:
            job.retries += 1
            self._send_afresh(job)  # another idle connection may be closed as well
            return
        capture = connection.capture(job)
        self._reads_ended += capture.reads_count
        connection.is_used = True
        if connection.is_open and connection.ending is Ending.COMPLETE:
            self._idle.append(connection)
        self._deliver(capture)

    def _lose(self, connection: Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)


def _this_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    if task is None:
        msg = "called outside a task"
        raise RuntimeError(msg)
    return task


def require_files(connections: int) -> None:
    """Make sure that this process may open `connections` connections, raising its own limit.

    Raises UsageError, with the numbers, when the system does not allow that many.
    """
    wanted = connections + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        msg = (
            f"{connections} requests at once need {wanted} open files, the system allows {hard}; "
            "raise the limit (ulimit -n), or lower the concurrency"
        )
        raise UsageError(msg)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
