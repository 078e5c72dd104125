"""The workers of one measurement: started, made ready, started again at one instant, heard out."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection as Door
from multiprocessing.process import BaseProcess
from pathlib import Path

from harness.core.errors import EngineFailed, UsageError
from harness.core.workload import Load, LoadKind
from harness.loadgen.pacing import Due
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

# After Stop a worker has this long to hand over what it has.
_LAST_WORDS_S = 5.0


@dataclass(slots=True)
class _Member:
    process: BaseProcess
    door: Door
    ready: asyncio.Future[None]
    done: asyncio.Future[None]
    tally: Tally = field(default_factory=Tally)
    exertion: Exertion | None = None


class Crew:
    """Worker processes that carry out their plans together."""

    def __init__(self, members: Sequence[_Member]) -> None:
        self._members = members

    @property
    def tally(self) -> Tally:
        """How far all workers are together, as far as they have said."""
        tallies = [member.tally for member in self._members]
        return Tally(
            *(sum(getattr(t, name) for t in tallies) for name in Tally.__dataclass_fields__)
        )

    @property
    def exertions(self) -> tuple[Exertion, ...]:
        """How hard each worker worked, of those that have ended."""
        return tuple(m.exertion for m in self._members if m.exertion is not None)

    async def wait_until_ready(self) -> None:
        """Return when every worker has its connections. Raises UsageError when one refuses."""
        await asyncio.gather(*(member.ready for member in self._members))

    def start(self, start_ns: int) -> None:
        """Have every worker count its due instants from `start_ns`."""
        self._say(Start(start_ns))

    async def wait_until_done(self) -> None:
        """Return when every worker has ended. Raises EngineFailed when one ended by itself.

        May be cancelled, and asked again.
        """
        all_done = [member.done for member in self._members]
        await asyncio.wait(all_done, return_when=asyncio.FIRST_EXCEPTION)
        for done in all_done:
            if done.done():
                done.result()

    async def stop(self) -> None:
        """Have every worker give up what is in flight, and wait for its last words."""
        self._say(Stop())
        pending = [member.done for member in self._members if not member.done.done()]
        if pending:
            await asyncio.wait(pending, timeout=_LAST_WORDS_S)

    def _say(self, message: Start | Stop) -> None:
        for member in self._members:
            with contextlib.suppress(OSError):  # one that has ended hears nothing
                member.door.send(message)


@contextlib.asynccontextmanager
async def assemble(plans: Sequence[WorkerPlan]) -> AsyncIterator[Crew]:
    """Start a process for each of `plans`; they are gone when the context is left."""
    # Spawned, not forked: a forked process would share the event loop's file descriptors.
    context = multiprocessing.get_context("spawn")
    loop = asyncio.get_running_loop()
    members = []
    for plan in plans:
        here, there = context.Pipe()
        process = context.Process(target=work, args=(plan, there), daemon=True)
        await loop.run_in_executor(None, process.start)
        there.close()
        member = _Member(process, here, loop.create_future(), loop.create_future())
        loop.add_reader(here.fileno(), _hear, member)
        members.append(member)
    try:
        yield Crew(members)
    finally:
        for member in members:
            loop.remove_reader(member.door.fileno())
            member.door.close()
            member.process.join(timeout=1.0)
            if member.process.is_alive():
                member.process.kill()
                member.process.join()
            member.done.cancel()
            member.ready.cancel()


def _hear(member: _Member) -> None:
    loop = asyncio.get_running_loop()
    try:
        message: Message = member.door.recv()
    except (EOFError, OSError):
        loop.remove_reader(member.door.fileno())
        for future in (member.ready, member.done):
            if not future.done():
                msg = f"a sending process ended by itself (exit code {member.process.exitcode})"
                future.set_exception(EngineFailed(msg))
        return
    match message:
        case Ready():
            member.ready.set_result(None)
        case Refused(text):
            member.ready.set_exception(UsageError(text))
        case Tally():
            member.tally = message
        case Done(tally, exertion):
            member.tally, member.exertion = tally, exertion
            member.done.set_result(None)


@dataclass(frozen=True, slots=True)
class Shares:
    """What is to be sent, before it is split: payloads with their due times, in order."""

    target: Target
    load: Load
    dues: tuple[Due, ...]
    payloads: tuple[bytes, ...]


def split(whole: Shares, workers: int, folder: Path) -> tuple[WorkerPlan, ...]:
    """`whole` for `workers` processes: request i goes to worker i modulo `workers`.

    Slots of a closed loop are split as evenly as can be; a worker without a slot is left out.
    """
    workers = max(1, min(workers, len(whole.dues), _slots(whole.load, len(whole.dues))))
    return tuple(
        WorkerPlan(
            target=whole.target,
            load=_share_of(whole.load, worker, workers),
            dues=whole.dues[worker::workers],
            payloads=whole.payloads[worker::workers],
            spool=folder / f"captures-{worker}-{os.getpid()}.spool",
        )
        for worker in range(workers)
    )


def _slots(load: Load, most: int) -> int:
    return load.concurrency or 1 if load.kind is LoadKind.CLOSED else most


def _share_of(load: Load, worker: int, workers: int) -> Load:
    if load.kind is not LoadKind.CLOSED or load.concurrency is None:
        return load
    share = load.concurrency // workers + (worker < load.concurrency % workers)
    return replace(load, concurrency=share)
