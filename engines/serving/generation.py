"""What the HTTP front asks of an engine that runs in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engines.serving.timings import Histogram
from harness.core.engine import EngineFacts


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A prompt as token ids, and how to answer it: greedily, with at most `max_tokens` tokens."""

    prompt_token_ids: tuple[int, ...]
    max_tokens: int
    ignore_eos: bool


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """One token of an answer. `finish_reason` (`length` or `stop`) is set on the last one only.

    A token that ends the answer because it is the model's end token is delivered too, and counts.
    """

    token_id: int
    finish_reason: str | None


class RequestRefused(ValueError):  # noqa: N818 - the event in the field's words
    """The engine can never serve this request; the message says why, with the numbers."""


class QueueFull(Exception):  # noqa: N818 - the event in the field's words
    """Too much waits already. `retry_after_s`: when, by the present pace, there will be room."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TextCodec(Protocol):
    """A tokenizer, as far as serving needs one."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of `text`, without special tokens around it."""
        ...

    def encode_chat(self, messages: list[tuple[str, str]]) -> tuple[int, ...]:
        """Token ids of a conversation of (role, content) turns, ready for the assistant's turn."""
        ...

    def decode(self, token_ids: tuple[int, ...]) -> str:
        """Text of `token_ids`, special tokens left out."""
        ...


class TokenEngine(Protocol):
    """Turns prompts into tokens, many at a time."""

    @property
    def codec(self) -> TextCodec: ...

    def start(self) -> None:
        """Begin to work, on a thread of the engine's own; called with an event loop running."""
        ...

    def generate(self, request: GenerationRequest) -> AsyncIterator[GeneratedToken]:
        """Tokens of the answer as they are made. Closing the iterator cancels the request.

        Raises RequestRefused before the first token when the request can never be served, QueueFull
        when it might be later, and RuntimeError when the engine has failed.
        """
        ...

    def drain(self) -> None:
        """Be told that no more requests will come, so that none waits for others to join it."""
        ...

    def facts(self) -> EngineFacts:
        """What the engine is: model, dtype, limits and settings."""
        ...

    def gauges(self) -> Mapping[str, float]:
        """Prometheus sample names to present values, without the `batchmark_` prefix."""
        ...

    def histograms(self) -> Sequence[Histogram]:
        """What the engine times by itself, beside what its front does."""
        ...

    async def stop(self) -> None:
        """End the work; requests in flight fail."""
        ...
