"""OpenTelemetry spans of model calls, by the GenAI conventions: one `trace_id` is one session.

    {"trace_id": "t1", "spans": [{"start_time": "...Z", "end_time": "...Z", "attributes": {...}}]}

Spans may also stand alone, each with its `trace_id`. The session begins when its first span did;
each further call waits as long after the one before as it did then. The prompt is the text of
`gen_ai.input.messages` where a span has it, and otherwise only its length is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from workloads.importers.chat_messages import (
    Notes,
    UnusableRow,
    answer_tokens,
    messages_of,
    session_of,
    usable_shapes,
)
from workloads.importers.documents import objects_of
from workloads.importers.format import Format
from workloads.importers.losses import Losses
from workloads.importers.row import Row
from workloads.importers.source import TraceFile
from workloads.shape import Shape

_MESSAGES = "gen_ai.input.messages"
_ASKED = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_ANSWERED = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a model, and when it was."""

    row: int
    start_ns: int
    end_ns: int
    shape: Shape


def _read(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    """All calls, held together: the spans of one trace may stand anywhere in the file."""
    sessions: dict[str | None, list[_Call]] = {}
    for call in usable_shapes(_spans(file, losses), losses, _calls):
        sessions.setdefault(call.shape.session, []).append(call)
    for calls in sessions.values():
        calls.sort(key=lambda call: call.start_ns)
    in_order = sorted(sessions.values(), key=lambda calls: calls[0].start_ns)
    for file.row, shape in chain.from_iterable(_session(calls, losses) for calls in in_order):
        yield shape


def _session(calls: list[_Call], losses: Losses) -> Iterator[tuple[int, Shape]]:
    """The row and the shape of each turn."""
    first = calls[0]
    yield first.row, replace(first.shape, due_ns=first.start_ns)
    ended_ns = first.end_ns
    for turn, call in enumerate(calls[1:], 1):
        if call.start_ns < ended_ns:
            losses.clamp("a span that began before the one before it ended", call.row)
        delay_ns = max(0, call.start_ns - ended_ns)
        yield call.row, replace(call.shape, turn=turn, delay_ns=delay_ns)
        ended_ns = max(ended_ns, call.end_ns)


def _spans(file: TraceFile, losses: Losses) -> Iterator[Row]:
    """Every span, as a row that has its `trace_id`."""
    for row in objects_of(file, losses):
        if not row.has("spans"):
            yield row
            continue
        for span in row.objects("spans"):
            yield replace(span, fields={"trace_id": row.fields.get("trace_id"), **span.fields})


def _calls(span: Row, notes: Notes) -> list[_Call]:
    attributes = span.child("attributes") if span.has("attributes") else span
    if attributes.first_of(_MESSAGES, *_ASKED) is None:
        raise UnusableRow("a span that is no call of a model")
    start_ns, end_ns = span.wall_clock_ns("start_time"), span.wall_clock_ns("end_time")
    if end_ns < start_ns:
        span.refuse("end_time", "a date that is not before start_time")
    shape = replace(_prompt(attributes, notes), session=session_of(span, "trace_id"))
    return [_Call(span.number, start_ns, end_ns, shape)]


def _prompt(attributes: Row, notes: Notes) -> Shape:
    output_tokens = answer_tokens(attributes, *_ANSWERED)
    if attributes.has(_MESSAGES):
        messages = _unpacked(attributes.fields[_MESSAGES])
        return Shape(None, output_tokens, messages=messages_of(messages, notes))
    prompt_tokens = attributes.whole(attributes.first_of(*_ASKED) or _ASKED[0])
    if not prompt_tokens:
        raise UnusableRow("no prompt tokens")
    return Shape(prompt_tokens, output_tokens)


def _unpacked(value: Any) -> Any:
    """Messages, which exporters may store as a JSON string."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise UnusableRow("no messages") from None


OTEL = Format(
    name="otel",
    title="OpenTelemetry GenAI spans (JSON, or JSON lines)",
    licence="",
    time="wall clock",
    detect=lambda head: "spans" in head.keys or {"trace_id", "attributes"} <= head.keys,
    read=_read,
)
