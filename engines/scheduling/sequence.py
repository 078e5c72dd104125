"""One request as the scheduler sees it: counts of tokens, the KV blocks it owns, and its state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class SequenceState(Enum):
    """waiting -> reading -> decoding -> ended; preempted, back to waiting from either of the two.

    Under a batch policy decoding -> padding -> ended, in the same slot.
    """

    WAITING = "waiting"
    READING = "reading"
    DECODING = "decoding"
    PADDING = "padding"
    ENDED = "ended"


@dataclass(slots=True)
class Sequence:
    """A prompt of `prompt_tokens` that asks for `max_tokens`; `generated` of them exist so far.

    `stored` tokens, from the first on, have their keys and values in `blocks`. `block_keys` name
    the contents of the prompt's full blocks, first to last: equal keys promise equal tokens from
    the start of the prompt to the end of that block. Without them no prefix is looked for.
    """

    id: int
    prompt_tokens: int
    max_tokens: int
    arrived_ns: int
    block_keys: tuple[bytes, ...] = ()
    state: SequenceState = SequenceState.WAITING
    generated: int = 0
    stored: int = 0
    blocks: tuple[int, ...] = ()
    preemptions: int = 0

    @property
    def known(self) -> int:
        """Tokens that exist: the prompt, and the answer so far."""
        return self.prompt_tokens + self.generated

    @property
    def tokens_at_end(self) -> int:
        """Tokens whose keys and values are stored when the answer is as long as it may be.

        The last token is never fed back, so it needs no room.
        """
        return self.prompt_tokens + self.max_tokens - 1
