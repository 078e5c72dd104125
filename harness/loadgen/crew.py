"""The workers of one measurement: started, made ready, started again at one instant, heard out."""

from __future__ import annotations

import asyncio
import contextlib
import os
from array import array
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.errors import EngineFailed, UsageError
from harness.core.units import NS_PER_S
from harness.core.workload import Load, LoadKind, Workload
from harness.loadgen.child import Child, start_child
from harness.loadgen.pacing import Due
from harness.loadgen.parcel import Dues
from harness.loadgen.wire import Target
from harness.loadgen.worker import (
    Done,
    Exertion,
    Message,
    Ready,
    Refused,
    Start,
    Stop,
    Tally,
    WorkerPlan,
    work,
)

# What one core reads without falling behind, with some room (scripts/bench-client).
STREAMS_PER_WORKER = 1000
# After Stop a worker has this long to hand over what it has.
_LAST_WORDS_S = 5.0


class Member:
    """One worker, as far as it has said how it is."""

    def __init__(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        self.child = child
        self.ready: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()
        self.tally = Tally()
        self.exertion: Exertion | None = None
        child.listen(self._hear, self._note_death)

    def _hear(self, message: Message) -> None:
        match message:
            case Ready():
                self.ready.set_result(None)
            case Refused(text):
                self.ready.set_exception(UsageError(text))
            case Tally():
                self.tally = message
            case Done(tally, exertion):
                self.tally, self.exertion = tally, exertion
                self.done.set_result(None)

    def _note_death(self, reason: str) -> None:
        for future in (self.ready, self.done):
            if not future.done():
                future.set_exception(EngineFailed(reason))

    def close(self) -> None:
        """End the process; nobody waits for it any more."""
        self.child.close()
        for future in (self.ready, self.done):
            future.cancel()


class Crew:
    """Worker processes that carry out their plans together."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = members

    @property
    def tally(self) -> Tally:
        """How far all workers are together, as far as they have said."""
        tallies = [member.tally for member in self.members]
        return Tally(
            *(sum(getattr(t, name) for t in tallies) for name in Tally.__dataclass_fields__)
        )

    @property
    def exertions(self) -> tuple[Exertion, ...]:
        """How hard each worker worked, of those that have ended."""
        return tuple(m.exertion for m in self.members if m.exertion is not None)

    async def wait_until_ready(self) -> None:
        """Return when every worker has its connections. Raises UsageError when one refuses."""
        await asyncio.gather(*(member.ready for member in self.members))

    def start(self, start_ns: int) -> None:
        """Have every worker count its due instants from `start_ns`."""
        self._say(Start(start_ns))

    async def wait_until_done(self) -> None:
        """Return when every worker has ended. Raises EngineFailed when one ended by itself.

        May be cancelled, and asked again.
        """
        all_done = [member.done for member in self.members]
        await asyncio.wait(all_done, return_when=asyncio.FIRST_EXCEPTION)
        for done in all_done:
            if done.done():
                done.result()

    async def stop(self) -> None:
        """Have every worker give up what is in flight, and wait for its last words."""
        self._say(Stop())
        pending = [member.done for member in self.members if not member.done.done()]
        if pending:
            await asyncio.wait(pending, timeout=_LAST_WORDS_S)

    def _say(self, message: Start | Stop) -> None:
        for member in self.members:
            member.child.say(message)


@contextlib.asynccontextmanager
async def assemble(plans: Sequence[WorkerPlan]) -> AsyncIterator[Crew]:
    """Start a process for each of `plans`; they are gone when the context is left."""
    members: list[Member] = []
    try:
        for number, plan in enumerate(plans):
            members.append(Member(await start_child(f"sending process {number}", work, plan)))
        yield Crew(members)
    finally:
        for member in members:
            member.close()


@dataclass(frozen=True, slots=True)
class Shares:
    """What is to be sent, before it is split: due times in order, and payloads by index."""

    target: Target
    load: Load
    dues: Sequence[Due]
    payloads: Mapping[int, bytes]


def workers_for(workload: Workload, cores: int) -> int:
    """How many sending processes `workload` needs: one for every thousand streams at once.

    At most all cores but one, which is left to the engine; how many streams an open loop will have
    open is not known before, so those due within ten seconds are counted. A session has one stream
    open at a time.
    """
    dues = array("q", (a.due_ns for a in workload.arrivals if a.after is None))
    within_ns, first, most = 10 * NS_PER_S, 0, 0
    for last, due in enumerate(dues):
        while due - dues[first] > within_ns:
            first += 1
        most = max(most, last - first + 1)
    streams = min(most, _slots(workload.load, most))
    return max(1, min(cores - 1, -(-streams // STREAMS_PER_WORKER)))


def split(whole: Shares, workers: int, folder: Path) -> tuple[WorkerPlan, ...]:
    """`whole` for `workers` processes: request i goes to worker i modulo `workers`.

    A later turn goes where the request went that it waits for, and is left out of the count. Slots
    of a closed loop are split as evenly as can be; a worker without a slot is left out.
    """
    firsts = sum(due.after is None for due in whole.dues)
    workers = max(1, min(workers, firsts, _slots(whole.load, firsts)))
    return tuple(
        WorkerPlan(
            target=whole.target,
            load=_share_of(whole.load, worker, workers),
            dues=dues,
            payloads=whole.payloads,
            spool=folder / f"captures-{worker}-{os.getpid()}.spool",
        )
        for worker, dues in enumerate(_dealt(whole.dues, workers))
    )


def _dealt(dues: Sequence[Due], workers: int) -> tuple[Dues, ...]:
    """The share of each worker in `dues`, which are in the order of their indices, from 0."""
    shares, homes, firsts = tuple(Dues() for _ in range(workers)), array("H"), 0
    for due in dues:
        if due.after is None:
            homes.append(firsts % workers)
            firsts += 1
        else:
            homes.append(homes[due.after.index])
        shares[homes[-1]].append(due)
    return shares


def _slots(load: Load, most: int) -> int:
    return load.concurrency or 1 if load.kind is LoadKind.CLOSED else most


def _share_of(load: Load, worker: int, workers: int) -> Load:
    if load.kind is not LoadKind.CLOSED or load.concurrency is None:
        return load
    share = load.concurrency // workers + (worker < load.concurrency % workers)
    return replace(load, concurrency=share)
