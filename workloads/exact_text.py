"""Prompts that have as many tokens when they are sent as text as when they are token ids."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

# Whoever needs more rounds than this will not get there.
_ROUNDS = 12


class Tokenizer(Hashable, Protocol):
    """The model's own: no special tokens are put around a text."""

    def encode(self, text: str) -> Sequence[int]:
        """The token ids of `text`."""
        ...

    def decode(self, token_ids: tuple[int, ...]) -> str:
        """The text of `token_ids`."""
        ...


@dataclass(slots=True)
class Residue:
    """What of a promise could not be kept: prompts whose text has another number of tokens.

    `most_tokens` is the largest difference of one of them.
    """

    prompts: int = 0
    off: int = 0
    most_tokens: int = 0

    def add(self, wanted: int, counted: int) -> None:
        """Count a prompt that was to have `wanted` tokens, and has `counted` as text."""
        self.prompts += 1
        self.off += counted != wanted
        self.most_tokens = max(self.most_tokens, abs(counted - wanted))

    def __str__(self) -> str:
        """In words; empty when every prompt is exact."""
        if not self.off:
            return ""
        return (
            f"{self.off:,} of {self.prompts:,} prompts have another number of tokens as text than "
            f"was asked for, by {self.most_tokens} at most"
        )


def counted_as_text(ids: tuple[int, ...], tokenizer: Tokenizer) -> int:
    """How many tokens the text of `ids` has."""
    return len(tokenizer.encode(tokenizer.decode(ids)))


def lasting(ids: tuple[int, ...], spare: Sequence[int], tokenizer: Tokenizer) -> tuple[int, ...]:
    """As many token ids as `ids` that stay as they are when they are sent as text.

    Text is taken apart again and again: what is too long is cut, what is too short gets tokens from
    `spare`. Where no round ends at the length that is wanted, the nearest is returned, and its own
    length is the one that the text has.
    """
    wanted, taken = len(ids), 0
    best: tuple[int, ...] = ()
    for _ in range(_ROUNDS):
        back = tuple(tokenizer.encode(tokenizer.decode(ids)))
        if counted_as_text(back, tokenizer) == len(back):
            if len(back) == wanted:
                return back
            best = min(best or back, back, key=lambda kept: abs(len(kept) - wanted))
        missing = max(0, wanted - len(back))
        ids = back[:wanted] + tuple(spare[taken : taken + missing])
        taken += missing
    return best or ids
