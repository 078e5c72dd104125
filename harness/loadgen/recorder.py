"""Spooled captures to records, off the hot path: read back, decoded and written by a thread."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from harness.core.engine import Capture, Dialect
from harness.core.record import RequestRecord
from harness.core.rundir import LineWriter
from harness.core.workload import Arrival
from harness.loadgen.framing import capture_of
from harness.loadgen.spool import SpoolReader

# How often spools are looked at; and how much less than others this thread wants the processor.
LOOK_EVERY_S = 0.1
_NICENESS = 10


def to_record(arrival: Arrival, capture: Capture, dialect: Dialect, start_ns: int) -> RequestRecord:
    """The record of one exchange; instants become relative to `start_ns`."""
    answer = dialect.decode(capture)
    first_byte_ns, closed_ns = capture.first_byte_ns, capture.closed_ns
    return RequestRecord(
        index=arrival.request.index,
        label=arrival.request.label,
        due_ns=arrival.due_ns,
        sent_ns=capture.sent_ns - start_ns,
        first_byte_ns=None if first_byte_ns is None else first_byte_ns - start_ns,
        events_ns=tuple([event.received_ns - start_ns for event in answer.events]),
        events_tokens=tuple([event.tokens for event in answer.events]),
        closed_ns=None if closed_ns is None else closed_ns - start_ns,
        prompt_tokens_asked=len(arrival.request.prompt_token_ids),
        output_tokens_asked=arrival.request.max_tokens,
        prompt_tokens=answer.prompt_tokens,
        output_tokens=answer.output_tokens,
        output_tokens_source=answer.output_tokens_source,
        finish_reason=answer.finish_reason,
        outcome=answer.outcome,
        error=answer.error,
        http_status=capture.status,
        bytes_received=capture.bytes_received,
        retries=capture.retries,
        first_event_ns=None if answer.first_event_ns is None else answer.first_event_ns - start_ns,
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """What turns a capture into a record: the arrivals by index, the dialect, the run's zero."""

    arrivals: Mapping[int, Arrival]
    dialect: Dialect
    start_ns: int


class Recorder:
    """Appends a record for each capture in `spools`, in the order in which they come.

    `on_record` is called in the recorder's thread. Leaving the context waits until all is written,
    and removes the spools; an error while decoding or writing is raised then, and they are kept.
    """

    def __init__(
        self,
        spools: Sequence[Path],
        lines: LineWriter,
        reading: Reading,
        on_record: Callable[[RequestRecord], None],
    ) -> None:
        self._spools = spools
        self._lines = lines
        self._reading = reading
        self._on_record = on_record
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        for spool in self._spools:
            spool.unlink(missing_ok=True)

    def _work(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        try:
            readers = [SpoolReader(path) for path in self._spools]
            is_last_look = False
            while not is_last_look:
                is_last_look = self._is_over.wait(LOOK_EVERY_S)
                for reader in readers:
                    self._take(reader)
            for reader in readers:
                reader.close()
        except Exception as error:  # noqa: BLE001 - carried to the caller, who raises it
            self._error = error

    def _take(self, reader: SpoolReader) -> None:
        reading = self._reading
        for raw in reader.new_captures():
            arrival = reading.arrivals[raw.index]
            record = to_record(arrival, capture_of(raw), reading.dialect, reading.start_ns)
            self._lines.append_encoded(msgspec.json.encode(record))
            self._on_record(record)
