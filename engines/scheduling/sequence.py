"""One request as the scheduler sees it: counts of tokens, the KV blocks it owns, and its state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class SequenceState(Enum):
    """waiting -> running -> ended; under a batch policy -> padding -> ended, in the same slot."""

    WAITING = "waiting"
    RUNNING = "running"
    PADDING = "padding"
    ENDED = "ended"


@dataclass(slots=True)
class Sequence:
    """A prompt of `prompt_tokens` that asks for `max_tokens`; `generated` of them exist so far."""

    id: int
    prompt_tokens: int
    max_tokens: int
    arrived_ns: int
    state: SequenceState = SequenceState.WAITING
    generated: int = 0
    blocks: tuple[int, ...] = ()

    @property
    def tokens_at_end(self) -> int:
        """Tokens whose keys and values are stored when the answer is as long as it may be.

        The last token is never fed back, so it needs no room.
        """
        return self.prompt_tokens + self.max_tokens - 1

    @property
    def tokens_stored(self) -> int:
        """Tokens whose keys and values are stored now."""
        return 0 if self.generated == 0 else self.prompt_tokens + self.generated - 1
