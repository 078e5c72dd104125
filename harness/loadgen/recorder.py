"""Captures to records, off the hot path: decoded and written by a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from harness.core.engine import Capture, Dialect
from harness.core.record import RequestRecord
from harness.core.rundir import LineWriter
from harness.core.workload import Arrival


def to_record(arrival: Arrival, capture: Capture, dialect: Dialect, start_ns: int) -> RequestRecord:
    """The record of one exchange; instants become relative to `start_ns`."""
    answer = dialect.decode(capture)

    def relative(instant_ns: int | None) -> int | None:
        return None if instant_ns is None else instant_ns - start_ns

    return RequestRecord(
        index=arrival.request.index,
        label=arrival.request.label,
        due_ns=arrival.due_ns,
        sent_ns=capture.sent_ns - start_ns,
        first_byte_ns=relative(capture.first_byte_ns),
        events_ns=tuple(e.received_ns - start_ns for e in answer.events),
        events_tokens=tuple(e.tokens for e in answer.events),
        closed_ns=relative(capture.closed_ns),
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
    )


class Recorder:
    """Takes captures from the event loop, and appends their records to a run folder in a thread.

    `on_record` is called in that thread. An error while decoding or writing is raised on leaving.
    """

    def __init__(
        self,
        lines: LineWriter,
        dialect: Dialect,
        start_ns: int,
        on_record: Callable[[RequestRecord], None],
    ) -> None:
        self._lines = lines
        self._dialect = dialect
        self._start_ns = start_ns
        self._on_record = on_record
        self._queue: queue.SimpleQueue[tuple[Arrival, Capture] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self._error: BaseException | None = None

    def take(self, arrival: Arrival, capture: Capture) -> None:
        """Hand over an exchange that has ended; returns at once."""
        self._queue.put((arrival, capture))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._queue.put(None)
        self._thread.join()
        if self._error is not None and exc is None:
            raise self._error

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            if self._error is not None:
                continue
            try:
                record = to_record(*item, self._dialect, self._start_ns)
                self._lines.append(record)
                self._on_record(record)
            except Exception as error:  # noqa: BLE001 - carried to the caller, who raises it
                self._error = error
