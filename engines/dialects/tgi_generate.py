"""The native stream of Text Generation Inference: POST /generate_stream.

Source: router/src/server.rs (generate_stream_internal) and router/src/lib.rs of v3.3.7. One event
is one token, with its id; the last one carries `details`, and the body ends without `[DONE]`.
Overload and refused input come as an event in a 200 stream. EOS cannot be ignored over HTTP, so an
answer may be shorter than asked for; token ids cannot be sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from engines.api_key import ApiKey
from engines.dialects.chunk import Chunk, odd_chunk
from engines.dialects.exchange import post, read_answer
from engines.dialects.stream import Stream
from harness.core.engine import Capture, WireRequest
from harness.core.record import Answer
from harness.core.workload import Request

_FINISH_REASONS = {"eos_token": "stop", "stop_sequence": "stop"}


class _Token(msgspec.Struct):
    text: str
    id: int | None = None
    special: bool = False


class _Details(msgspec.Struct):
    finish_reason: str
    generated_tokens: int
    input_length: int | None = None


class _Event(msgspec.Struct):
    token: _Token | None = None
    generated_text: str | None = None
    details: _Details | None = None


_events = msgspec.json.Decoder(_Event)


@dataclass(frozen=True, slots=True)
class TgiDialect:
    """POST /generate_stream for a greedy answer of at most the asked length.

    `prompt_as_text` turns token ids into the text that is sent; the server adds special tokens of
    its own, which show in the answer's prompt tokens. It must be picklable.
    """

    prompt_as_text: Callable[[tuple[int, ...]], str]
    key: ApiKey | None = None

    def encode(self, request: Request, model: str) -> WireRequest:  # noqa: ARG002 - it has but one
        """The HTTP request for a greedy answer of up to `request.max_tokens` tokens."""
        body = {
            "inputs": self.prompt_as_text(request.prompt_token_ids),
            # Sampling is off only inside parameters that are given.
            "parameters": {
                "max_new_tokens": request.max_tokens,
                "do_sample": False,
                "details": True,
            },
        }
        return post("/generate_stream", body, self.key)

    def decode(self, capture: Capture) -> Answer:
        """What `capture` says; the same however the body was cut into reads, stamps apart."""
        return read_answer(capture, Stream(read_chunk), self.key)


def read_chunk(payload: bytes) -> Chunk:
    """What `payload` says. Raises ValueError when it is no JSON object, or of another shape."""
    event = _events.decode(payload)
    token, details = event.token, event.details
    if token is None:
        return odd_chunk(payload)
    text = "" if token.special else token.text  # as in `generated_text`
    ids = None if token.id is None else (token.id,)
    if details is None:
        return Chunk(text=text, ids=ids, is_last=event.generated_text is not None)
    return Chunk(
        text=text,
        ids=ids,
        finish_reason=_FINISH_REASONS.get(details.finish_reason, details.finish_reason),
        prompt_tokens=details.input_length,
        usage_tokens=details.generated_tokens,
        is_last=True,
    )
