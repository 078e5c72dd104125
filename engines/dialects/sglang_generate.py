"""The native stream of SGLang: POST /generate with token ids.

Source: srt/entrypoints/http_server.py and srt/managers/tokenizer_manager.py of 0.5.23. Text and ids
of an event are of the whole answer so far, or, with `--incremental-streaming-output`, of its newest
piece; the count in `meta_info` is of the whole in both. A server that lags behind sends several
tokens in one event. A full queue, a time-out and an abort come as an event whose finish reason is
an object of type `abort`, and refused input as an error object, both in a 200 stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from engines.api_key import ApiKey
from engines.dialects.chunk import Chunk, odd_chunk
from engines.dialects.exchange import post, read_answer
from engines.dialects.stream import Stream
from harness.core.engine import Capture, WireRequest
from harness.core.record import Answer, RequestError
from harness.core.workload import Request


class _FinishReason(msgspec.Struct):
    type: str
    message: str | None = None
    status_code: int | None = None


class _Meta(msgspec.Struct):
    finish_reason: _FinishReason | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


class _Event(msgspec.Struct):
    text: str | None = None
    output_ids: list[int] | None = None
    meta_info: _Meta | None = None
    error: Any = None


_events = msgspec.json.Decoder(_Event)


@dataclass(frozen=True, slots=True)
class SglangDialect:
    """POST /generate for a greedy answer of exact length, with the prompt as token ids."""

    key: ApiKey | None = None

    def encode(self, request: Request, model: str) -> WireRequest:  # noqa: ARG002 - it has but one
        """The HTTP request for a greedy answer of exactly `request.max_tokens` tokens."""
        body = {
            "input_ids": request.prompt_token_ids,
            # Unknown fields in here are refused.
            "sampling_params": {
                "max_new_tokens": request.max_tokens,
                "temperature": 0,
                "ignore_eos": True,
            },
            "stream": True,
        }
        return post("/generate", body, self.key)

    def decode(self, capture: Capture) -> Answer:
        """What `capture` says; the same however the body was cut into reads, stamps apart."""
        return read_answer(capture, Stream(_Growing().read_chunk, counts_always=True), self.key)


class _Growing:
    """One answer so far, so that what an event adds to it can be told."""

    def __init__(self) -> None:
        self._characters = 0
        self._ids = 0

    def read_chunk(self, payload: bytes) -> Chunk:
        """What `payload` adds. Raises ValueError when it is no JSON object, or of another shape."""
        event = _events.decode(payload)
        meta = event.meta_info
        if meta is None or event.error is not None:
            return odd_chunk(payload)
        text, ids = self._news(event, meta)
        reason = meta.finish_reason
        return Chunk(
            text=text,
            ids=ids,
            finish_reason=None if reason is None else reason.type,
            prompt_tokens=meta.prompt_tokens,
            usage_tokens=meta.completion_tokens,
            cached_tokens=meta.cached_tokens,
            fault=None if reason is None else _abort(reason),
        )

    def _news(self, event: _Event, meta: _Meta) -> tuple[str, list[int] | None]:
        """The text and the ids that `event` adds; ids None when it has no list.

        An event of the newest piece is known by its ids: with those before they are not more than
        the engine counts in all.
        """
        text, known, characters = event.text or "", self._ids, self._characters
        ids = event.output_ids
        if ids is not None and known + len(ids) <= (meta.completion_tokens or 0):
            self._ids, self._characters = known + len(ids), characters + len(text)
            return text, ids
        self._ids, self._characters = max(known, len(ids or ())), max(characters, len(text))
        return text[characters:], None if ids is None else ids[known:]


def _abort(reason: _FinishReason) -> RequestError | None:
    if reason.type != "abort":
        return None
    said = reason.message or "the server aborted the answer"
    status = "" if reason.status_code is None else f" (status {reason.status_code})"
    return RequestError("aborted", said + status)
