"""SGLang's data sets: `custom` conversations, `autobench` requests, and agentic traces.

    {"conversations": [{"role": "user", "content": "..."}, {"role": "assistant", ...}]}   custom
    {"prompt": "...", "output_len": 64, "timestamp": 120}                              autobench
    {"conversations": [[{"messages": [...], "prompt_tokens": 12}, ...], ...]}          agentic

A `prompt` of autobench is text, messages, token ids, or a list with what each turn adds. The turns
of an agentic trace hold only what is new; the answers between them are not in the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from workloads.importers.chat_messages import (
    Notes,
    UnusableRow,
    answer_tokens,
    messages_of,
    prompt_text,
    usable_shapes,
    without_answer,
)
from workloads.importers.conversations import conversation_of
from workloads.importers.format import Format
from workloads.importers.head import Head
from workloads.importers.losses import Losses
from workloads.importers.rounds import Round, session_of_rounds
from workloads.importers.row import Row
from workloads.importers.source import TraceFile
from workloads.shape import Shape

_AGENTIC = re.compile(r'"conversations"\s*:\s*\[\s*\[')
_LENGTHS = ("output_len", "max_tokens", "max_completion_tokens", "completion_tokens")
_OF_AUTOBENCH = {
    "completion_tokens",
    "extra_request_body",
    "image_data",
    "output_len",
    "prompt_len",
    "prompt_origin",
    "routing_key",
}


def _is_custom(head: Head) -> bool:
    has_turns = bool(head.keys & {"conversations", "conversation"})
    return has_turns and not head.is_list and not _is_agentic(head)


def _is_autobench(head: Head) -> bool:
    asks = bool(head.keys & {"prompt", "messages", "prompt_origin"})
    return asks and not head.is_list and bool(head.keys & _OF_AUTOBENCH)


def _is_agentic(head: Head) -> bool:
    return "conversations" in head.keys and bool(_AGENTIC.search(head.text))


def _read_custom(file: TraceFile, losses: Losses, *, whole: bool) -> Iterator[Shape]:
    return usable_shapes(file.rows(losses), losses, partial(conversation_of, whole=whole))


def _read_autobench(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    return usable_shapes(file.rows(losses), losses, _autobench_shapes)


def _autobench_shapes(row: Row, notes: Notes) -> Sequence[Shape]:
    if row.fields.get("image_data"):
        raise UnusableRow("content with an image, audio or another part that is not text")
    tokens = answer_tokens(row, *_LENGTHS)
    shapes = _asked(row, notes)
    first = replace(shapes[0], due_ns=row.optional_instant_ns("timestamp", "ms"))
    return [replace(shape, output_tokens=tokens) for shape in (first, *shapes[1:])]


def _asked(row: Row, notes: Notes) -> Sequence[Shape]:
    """What is sent, without time and length of the answer."""
    key = row.first_of("messages", "prompt", "prompt_origin")
    asked = _unpacked(row.fields[key]) if key else None
    if not isinstance(asked, list) or not asked:
        return [Shape(None, None, text=prompt_text(asked, notes))]
    if isinstance(asked[0], dict):
        messages, answer = without_answer(messages_of(asked, notes), notes)
        return [Shape(None, None, messages=messages, answer=answer)]
    if all(type(token) is int for token in asked):
        notes.repaired.add("a prompt of token ids taken for its length, with other tokens")
        return [Shape(len(asked), None)]
    turns = ([{"role": "user", "content": t}] if isinstance(t, str) else t for t in asked)
    rounds = (Round(messages_of(turn, notes)) for turn in turns)
    return session_of_rounds(rounds, f"conversation {row.number}", notes)


def _unpacked(value: Any) -> Any:
    """Messages that are stored as a JSON string; another text is itself."""
    if isinstance(value, str) and value.lstrip().startswith("[{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _read_agentic(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    return usable_shapes(_conversations(file), losses, _agentic_shapes)


def _conversations(file: TraceFile) -> Iterator[Row]:
    document = file.json_document()
    (whole,) = file.rows_of([document])
    conversations = whole.fields.get("conversations")
    if not isinstance(conversations, list):
        whole.refuse("conversations", "a list of lists of turns")
    for file.row, turns in enumerate(conversations, 1):
        yield Row(file.row, {"conversations": turns}, file.path)


def _agentic_shapes(row: Row, notes: Notes) -> Sequence[Shape]:
    turns = row.objects("conversations")
    rounds = (Round(messages_of(turn.fields.get("messages"), notes)) for turn in turns)
    return session_of_rounds(rounds, f"conversation {row.number}", notes)


SGLANG_CUSTOM = Format(
    name="sglang-custom",
    title="SGLang custom data set (JSON lines), first question and answer",
    licence="",
    time=None,
    detect=_is_custom,
    read=partial(_read_custom, whole=False),
)
SGLANG_CUSTOM_SESSIONS = Format(
    name="sglang-custom-sessions",
    title="SGLang custom data set (JSON lines), whole conversations",
    licence="",
    time=None,
    detect=lambda _: False,
    read=partial(_read_custom, whole=True),
)
SGLANG_AUTOBENCH = Format(
    name="sglang-autobench",
    title="SGLang auto benchmark (JSON lines)",
    licence="",
    time="ms",
    detect=_is_autobench,
    read=_read_autobench,
)
SGLANG_AGENTIC = Format(
    name="sglang-agentic",
    title="SGLang agentic trace (JSON)",
    licence="",
    time=None,
    detect=_is_agentic,
    read=_read_agentic,
)
