"""AIPerf's inputs: single turns, multi-turn sessions, and `inputs.json`.

    {"text": "...", "output_length": 24, "timestamp": 500}
    {"session_id": "s1", "turns": [{"text": "..."}, {"text": "...", "delay": 1000}]}
    {"data": [{"session_id": "s1", "payloads": [{"messages": [...], "max_tokens": 8}]}]}

Times are milliseconds. A `random_pool` is read as single turns, each of its texts once.
`raw_payload` is the format `openai-chat`, and what has an `input_length` is `mooncake`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from workloads.importers.chat_messages import (
    Notes,
    UnusableRow,
    answer_tokens,
    message_of,
    prompt_text,
    session_of,
    usable_shapes,
)
from workloads.importers.documents import objects_of
from workloads.importers.format import Format
from workloads.importers.head import Head
from workloads.importers.losses import Losses
from workloads.importers.openai_chat import body_shape
from workloads.importers.rounds import Round, session_of_rounds
from workloads.importers.row import Row
from workloads.importers.source import TraceFile
from workloads.shape import Shape

_MEDIA = ("image", "images", "audio", "audios", "video", "videos")


def _is_single_turn(head: Head) -> bool:
    return head.is_json and not head.is_list and bool(head.keys & {"text", "texts", *_MEDIA})


def _read_single_turn(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    return usable_shapes(file.rows(losses), losses, _single_turn)


def _single_turn(row: Row, notes: Notes) -> list[Shape]:
    shape = Shape(
        prompt_tokens=None,
        output_tokens=answer_tokens(row, "output_length"),
        due_ns=row.optional_instant_ns("timestamp", "ms"),
        text=_text_of(row, notes),
    )
    return [shape]


def _text_of(turn: Row, notes: Notes) -> str:
    """The text of a turn: `text`, or `texts`, whose items may be lists under `contents`."""
    if any(turn.fields.get(key) for key in _MEDIA):
        raise UnusableRow("content with an image, audio or another part that is not text")
    texts = turn.fields.get("texts")
    if turn.has("text") or not isinstance(texts, list):
        return prompt_text(turn.fields.get("text"), notes)
    parts = [t.get("contents", [t]) if isinstance(t, dict) else [t] for t in texts]
    flat = [text for part in parts for text in (part if isinstance(part, list) else [part])]
    if len(flat) > 1:
        notes.repaired.add("several texts of one turn joined by newlines")
    return prompt_text(flat, notes)


def _read_multi_turn(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    return usable_shapes(file.rows(losses), losses, _multi_turn)


def _multi_turn(row: Row, notes: Notes) -> Sequence[Shape]:
    session = session_of(row) if row.has("session_id") else f"conversation {row.number}"
    rounds = (_round(turn, notes) for turn in row.objects("turns"))
    return session_of_rounds(rounds, session, notes)


def _round(turn: Row, notes: Notes) -> Round:
    role = turn.optional_text("role") or "user"
    return Round(
        messages=(message_of({"role": role, "content": _text_of(turn, notes)}, notes),),
        output_tokens=answer_tokens(turn, "output_length"),
        due_ns=turn.optional_instant_ns("timestamp", "ms"),
        delay_ns=turn.optional_instant_ns("delay", "ms") or 0,
    )


def _read_inputs(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    rows = (entry for document in objects_of(file, losses) for entry in document.objects("data"))
    return usable_shapes(rows, losses, _inputs)


def _inputs(entry: Row, notes: Notes) -> list[Shape]:
    """The bodies of one session: each is sent as it stands, after the one before."""
    bodies = entry.objects("payloads")
    if not bodies:
        raise UnusableRow("no messages")
    session = session_of(entry) if len(bodies) > 1 else None
    return [
        replace(body_shape(body, notes), session=session, turn=turn)
        for turn, body in enumerate(bodies)
    ]


AIPERF_SINGLE_TURN = Format(
    name="aiperf-single-turn",
    title="AIPerf single_turn and random_pool (JSON lines)",
    licence="",
    time="ms",
    detect=_is_single_turn,
    read=_read_single_turn,
)
AIPERF_MULTI_TURN = Format(
    name="aiperf-multi-turn",
    title="AIPerf multi_turn (JSON lines)",
    licence="",
    time="ms",
    detect=lambda head: "turns" in head.keys and not head.is_list,
    read=_read_multi_turn,
)
AIPERF_INPUTS = Format(
    name="aiperf-inputs",
    title="AIPerf inputs.json",
    licence="",
    time=None,
    detect=lambda head: "data" in head.keys and '"payloads"' in head.text,
    read=_read_inputs,
)
