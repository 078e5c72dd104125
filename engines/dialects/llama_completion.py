"""The native stream of llama-server: POST /completion with token ids.

Source: tools/server/server-task.cpp (to_json_non_oaicompat of the partial and the final result) and
tools/server/server-context.cpp of b11434. The last event has `stop: true`, and the body ends
without `[DONE]`. Tokens are counted by `tokens_predicted`, not by `tokens`: while a character is
incomplete no event is sent, and the next one covers several tokens but lists only the last. What
was reused of the prompt is `timings.cache_n`; `tokens_cached` is all that the slot holds then.
EOS is not ignored but banned, so that the answer is another one than the model's own.
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
from harness.core.record import Answer
from harness.core.workload import Request

_FINISH_REASONS = {"limit": "length", "eos": "stop", "word": "stop"}


class _Timings(msgspec.Struct):
    cache_n: int | None = None


class _Event(msgspec.Struct):
    content: str | None = None
    stop: bool = False
    tokens_predicted: int | None = None
    tokens_evaluated: int | None = None
    stop_type: str | None = None
    timings: _Timings | None = None
    error: Any = None


_events = msgspec.json.Decoder(_Event)


@dataclass(frozen=True, slots=True)
class LlamaCppDialect:
    """POST /completion for a greedy answer of exact length, with the prompt as token ids.

    `caches_prompt` lets the server reuse what a slot still holds of earlier prompts.
    """

    caches_prompt: bool = False
    key: ApiKey | None = None

    def encode(self, request: Request, model: str) -> WireRequest:  # noqa: ARG002 - it has but one
        """The HTTP request for a greedy answer of exactly `request.max_tokens` tokens."""
        body = {
            "prompt": request.prompt_token_ids,
            "n_predict": request.max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "cache_prompt": self.caches_prompt,
            "stream": True,
        }
        return post("/completion", body, self.key)

    def decode(self, capture: Capture) -> Answer:
        """What `capture` says; the same however the body was cut into reads, stamps apart."""
        return read_answer(capture, Stream(read_chunk, counts_always=True), self.key)


def read_chunk(payload: bytes) -> Chunk:
    """What `payload` says. Raises ValueError when it is no JSON object, or of another shape."""
    event = _events.decode(payload)
    if event.content is None or event.error is not None:
        return odd_chunk(payload)
    reason, timings = event.stop_type, event.timings
    return Chunk(
        text=event.content,
        finish_reason=None if reason is None else _FINISH_REASONS.get(reason, reason),
        prompt_tokens=event.tokens_evaluated,
        usage_tokens=event.tokens_predicted,
        cached_tokens=None if timings is None else timings.cache_n,
        is_last=event.stop,
    )
