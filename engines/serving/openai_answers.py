"""How an answer is written down: the events of a stream, and whole bodies. Bytes, no I/O.

The part of an event that is the same for every token is built once per request, so that a token
costs one small JSON string.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from engines.serving.openai_schema import Call

DONE = b"data: [DONE]\n\n"
_SPLIT = "split-here"


@dataclass(frozen=True, slots=True)
class AnswerWriter:
    """Writes the answer of one call. `first` differs from `next` only in a chat, by the role."""

    call: Call
    identity: dict[str, Any]
    first: tuple[bytes, bytes]
    next: tuple[bytes, bytes]

    def event(
        self, text: str, token_id: int, finish_reason: str | None, *, is_first: bool
    ) -> bytes:
        """The event of one token."""
        before, between = self.first if is_first else self.next
        reason = b"null" if finish_reason is None else msgspec.json.encode(finish_reason)
        ids = b',"token_ids":[%d]' % token_id if self.call.returns_token_ids else b""
        return b"".join((before, msgspec.json.encode(text), between, reason, ids, b"}]}\n\n"))

    def tail(self, output_tokens: int) -> bytes:
        """What follows the last token: the usage when it was asked for, and the end mark."""
        if not self.call.includes_usage:
            return DONE
        return _event(self.identity | {"choices": [], "usage": self._usage(output_tokens)}) + DONE

    def body(self, text: str, token_ids: list[int], finish_reason: str | None) -> bytes:
        """The answer as one JSON body, for a call that is not streamed."""
        content: dict[str, Any] = {"text": text}
        if self.call.is_chat:
            content = {"message": {"role": "assistant", "content": text}}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}
        if self.call.returns_token_ids:
            choice["token_ids"] = token_ids
        return msgspec.json.encode(
            self.identity | {"choices": [choice], "usage": self._usage(len(token_ids))}
        )

    def _usage(self, output_tokens: int) -> dict[str, int]:
        prompt_tokens = len(self.call.generation.prompt_token_ids)
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": prompt_tokens + output_tokens,
        }


def answer_writer(call: Call, number: int, model: str, created_s: int) -> AnswerWriter:
    """The writer for `call`, the server's request `number`; `created_s` is Unix time."""
    kind = "text_completion"
    if call.is_chat:
        kind = "chat.completion.chunk" if call.is_streamed else "chat.completion"
    prefix = "chatcmpl" if call.is_chat else "cmpl"
    identity = {"id": f"{prefix}-{number}", "object": kind, "created": created_s, "model": model}
    first: dict[str, Any] = {"text": _SPLIT}
    following = first
    if call.is_chat:
        first = {"delta": {"role": "assistant", "content": _SPLIT}}
        following = {"delta": {"content": _SPLIT}}
    return AnswerWriter(call, identity, _parts(identity, first), _parts(identity, following))


def error_event(body: bytes) -> bytes:
    """The event that ends a stream which has failed; no end mark follows it."""
    return b"data: " + body + b"\n\n"


def _parts(identity: dict[str, Any], content: dict[str, Any]) -> tuple[bytes, bytes]:
    """The bytes before the text of an event, and those between the text and the finish reason."""
    choice = {"index": 0, **content, "logprobs": None, "finish_reason": None}
    event = _event(identity | {"choices": [choice]})
    before, _, after = event.rpartition(msgspec.json.encode(_SPLIT))
    return before, after.removesuffix(b"null}]}\n\n")


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
