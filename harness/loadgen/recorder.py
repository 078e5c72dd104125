"""Spooled captures to records, off the hot path: decoded and written by a process of its own.

It runs at idle priority: it takes what the workers and the engine leave, may lag behind, and
catches up at the end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Door
from pathlib import Path

import msgspec

from harness.core.engine import Capture, Dialect
from harness.core.errors import EngineFailed
from harness.core.manifest import Counts
from harness.core.marks import marks_of_ids, marks_of_text
from harness.core.record import Answer, Outcome, RequestRecord
from harness.core.rundir import LineWriter, open_lines
from harness.core.workload import After
from harness.loadgen.child import Child, cpu_ns, start_child
from harness.loadgen.framing import RawCapture, capture_of
from harness.loadgen.spool import SpoolReader

# How often the spools are looked at while requests are in flight.
LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Asked:
    """What the record keeps of a request besides what came back.

    With `after` it is due at `due_ns` at the earliest, and not before `after` allows it.
    """

    index: int
    label: str
    due_ns: int
    prompt_tokens: int
    max_tokens: int
    session: str | None = None
    turn: int = 0
    after: After | None = None


@dataclass(frozen=True, slots=True)
class RecorderPlan:
    """What the recorder reads, how it decodes, and where it writes; `texts` only when asked for.

    `asked` are all requests, by index.
    """

    spools: tuple[Path, ...]
    asked: Mapping[int, Asked]
    dialect: Dialect
    requests: Path
    texts: Path | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """Instants of records count from `start_ns`."""

    start_ns: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The spools are whole: read them to their ends."""


@dataclass(frozen=True, slots=True)
class Finished:
    """All is written; `fault` says why when it is not. `cpu_ns` is what reading it back took."""

    cpu_ns: int = 0
    fault: str | None = None


def to_record(asked: Asked, capture: Capture, answer: Answer, start_ns: int) -> RequestRecord:
    """The record of one exchange; instants become relative to `start_ns`."""

    def relative(instant_ns: int | None) -> int | None:
        return None if instant_ns is None else instant_ns - start_ns

    ids_marks, text_marks = _marks(answer)
    return RequestRecord(
        index=asked.index,
        label=asked.label,
        due_ns=asked.due_ns,
        sent_ns=capture.sent_ns - start_ns,
        first_byte_ns=relative(capture.first_byte_ns),
        events_ns=tuple([event[0] - start_ns for event in answer.events]),
        events_tokens=tuple([event[1] for event in answer.events]),
        closed_ns=relative(capture.closed_ns),
        prompt_tokens_asked=asked.prompt_tokens,
        output_tokens_asked=asked.max_tokens,
        prompt_tokens=answer.prompt_tokens,
        output_tokens=answer.output_tokens,
        output_tokens_source=answer.output_tokens_source,
        finish_reason=answer.finish_reason,
        outcome=answer.outcome,
        error=answer.error,
        http_status=capture.status,
        bytes_received=capture.bytes_received,
        retries=capture.retries,
        first_event_ns=relative(answer.first_event_ns),
        first_answer_ns=relative(answer.first_answer_ns),
        usage_tokens=answer.usage_tokens,
        cached_tokens=answer.cached_tokens,
        ids_marks=ids_marks,
        text_marks=text_marks,
        session=asked.session,
        turn=asked.turn,
        after=None if asked.after is None else asked.after.index,
    )


def _marks(answer: Answer) -> tuple[str | None, str | None]:
    if answer.outcome is not Outcome.OK:
        return None, None
    ids = answer.token_ids
    return None if ids is None else marks_of_ids(ids), marks_of_text(_text(answer))


def _text(answer: Answer) -> str:
    return "".join([event[2] for event in answer.events])


def record(plan: RecorderPlan, door: Door) -> None:
    """The main function of the recorder's process."""
    _be_idle()
    fault, used_ns = None, 0
    try:
        begin = door.recv()
        used_ns = cpu_ns()
        with ExitStack() as stack:
            lines = stack.enter_context(open_lines(plan.requests))
            texts = None if plan.texts is None else stack.enter_context(open_lines(plan.texts))
            _Recorder(plan, begin.start_ns, lines, texts).run(door)
    except EOFError:
        return  # the parent has gone before anything was sent
    except Exception as error:  # noqa: BLE001 - carried to the parent, which raises it
        fault = f"{type(error).__name__}: {error}"
    with suppress(OSError):  # the parent has gone
        door.send(Finished(cpu_ns() - used_ns, fault))


class _Recorder:
    def __init__(
        self, plan: RecorderPlan, start_ns: int, lines: LineWriter, texts: LineWriter | None
    ) -> None:
        self._asked = plan.asked
        self._ended_ns: dict[int, int] = {}
        self._dialect = plan.dialect
        self._readers = [SpoolReader(path) for path in plan.spools]
        self._start_ns = start_ns
        self._lines = lines
        self._texts = texts
        self._counts = Counts(planned=len(plan.asked))

    def run(self, door: Door) -> None:
        is_over = False
        while not is_over:
            is_over = _is_told_to_finish(door)
            for reader in self._readers:
                self._take(reader)
            _tell(door, self._counts)

    def _take(self, reader: SpoolReader) -> None:
        for raw in reader.new_captures():
            capture = capture_of(raw)
            answer = self._dialect.decode(capture)
            record = to_record(self._due(raw), capture, answer, self._start_ns)
            self._lines.append_encoded(msgspec.json.encode(record))
            self._counts = self._counts.with_outcome(record.outcome)
            if self._texts is not None:
                self._texts.append({"index": raw.index, "text": _text(answer)})

    def _due(self, raw: RawCapture) -> Asked:
        """What was asked, with the instant that it was due; a spool holds turns in their order."""
        asked = self._asked[raw.index]
        if asked.session is not None:
            self._ended_ns[raw.index] = raw.ended_ns - self._start_ns
        if asked.after is None:
            return asked
        ended_ns = self._ended_ns[asked.after.index]
        return replace(asked, due_ns=asked.after.due_ns(asked.due_ns, ended_ns))


def _is_told_to_finish(door: Door) -> bool:
    try:
        return door.poll(LOOK_EVERY_S) and isinstance(door.recv(), Finish)
    except EOFError:
        return True  # the parent has gone: keep what there is


def _tell(door: Door, counts: Counts) -> None:
    try:
        door.send(counts)
    except OSError:
        return


def _be_idle() -> None:
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(19)


class Recorder:
    """The recorder as its parent sees it. `counts` are of the requests recorded so far.

    `cpu_ns`, once it has finished, is the processor time that decoding and recording took.
    """

    def __init__(self, child: Child, planned: int, spools: tuple[Path, ...]) -> None:
        self.counts = Counts(planned=planned)
        self.cpu_ns = 0
        self.child = child
        self._spools = spools
        self._finished: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        child.listen(self._take, self._note_death)

    def begin(self, start_ns: int) -> None:
        """Record from now on; instants count from `start_ns`."""
        self.child.say(Begin(start_ns))

    async def finish(self) -> None:
        """Return when all that was spooled is recorded; the spools are removed then.

        Raises EngineFailed, and keeps the spools, when that could not be done.
        """
        self.child.say(Finish())
        finished = await self._finished
        self.cpu_ns = finished.cpu_ns
        if finished.fault is not None:
            kept = f"they are kept in {self._spools[0]}"
            msg = f"the answers could not be recorded ({finished.fault}); {kept}"
            raise EngineFailed(msg)
        for spool in self._spools:
            spool.unlink(missing_ok=True)

    def _take(self, message: Counts | Finished) -> None:
        if isinstance(message, Finished):
            self._finished.set_result(message)
        else:
            self.counts = replace(message, planned=self.counts.planned)

    def _note_death(self, reason: str) -> None:
        if not self._finished.done():
            self._finished.set_result(Finished(fault=reason))


@asynccontextmanager
async def start_recorder(plan: RecorderPlan) -> AsyncIterator[Recorder]:
    """A recorder of `plan` in a process of its own, which is gone when the context is left."""
    child = await start_child("the recorder", record, plan)
    try:
        yield Recorder(child, len(plan.asked), plan.spools)
    finally:
        child.close()
