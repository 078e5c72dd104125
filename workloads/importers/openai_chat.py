"""Bodies of OpenAI requests, one in each line, bare or as the Batch API wraps them.

    {"messages": [{"role": "user", "content": "..."}], "max_tokens": 24}
    {"custom_id": "r-1", "method": "POST", "url": "/v1/chat/completions", "body": {...}}

AIPerf's `raw_payload` is the first of these. A body of the completions API, with a `prompt`, is
taken too. An answer at the end of the messages is not sent: it says how long the answer was.
"""

from __future__ import annotations

from collections.abc import Iterator

from workloads.importers.chat_messages import (
    Notes,
    UnusableRow,
    answer_tokens,
    messages_of,
    prompt_text,
    usable_shapes,
    without_answer,
)
from workloads.importers.format import Format
from workloads.importers.head import Head
from workloads.importers.losses import Losses
from workloads.importers.row import Row
from workloads.importers.source import TraceFile
from workloads.shape import Shape

_LENGTHS = ("max_completion_tokens", "max_tokens")
_OF_OTHERS = {
    "completion_tokens",
    "custom_id",
    "extra_request_body",
    "image_data",
    "output_len",
    "output_length",
    "prompt_len",
    "prompt_origin",
    "routing_key",
    "timestamp",
}


def _is_chat(head: Head) -> bool:
    is_body = "messages" in head.keys or {"prompt", "max_tokens"} <= head.keys
    return is_body and not head.is_list and not head.keys & _OF_OTHERS


def _is_batch(head: Head) -> bool:
    return {"custom_id", "body"} <= head.keys


def _read_chat(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    return usable_shapes(file.rows(losses), losses, lambda row, notes: [body_shape(row, notes)])


def _read_batch(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    return usable_shapes(
        file.rows(losses), losses, lambda row, notes: [body_shape(row.child("body"), notes)]
    )


def body_shape(body: Row, notes: Notes) -> Shape:
    """The request that a body of the chat or the completions API asks for."""
    tokens = answer_tokens(body, *_LENGTHS)
    if body.has("messages"):
        messages = messages_of(body.fields["messages"], notes, body.fields.get("tools"))
        asked, answer = without_answer(messages, notes)
        return Shape(None, tokens, messages=asked, answer=None if tokens else answer)
    if not body.has("prompt"):
        raise UnusableRow("neither messages nor a prompt")
    return Shape(None, tokens, text=prompt_text(body.fields["prompt"], notes))


OPENAI_CHAT = Format(
    name="openai-chat",
    title="OpenAI request bodies (JSON lines; also AIPerf raw_payload)",
    licence="",
    time=None,
    detect=_is_chat,
    read=_read_chat,
)
OPENAI_BATCH = Format(
    name="openai-batch",
    title="OpenAI Batch API input (JSON lines)",
    licence="",
    time=None,
    detect=_is_batch,
    read=_read_batch,
)
