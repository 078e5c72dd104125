"""Prompts of an exact number of tokens that no engine has seen, and what they are made of."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workloads.exact_text import Tokenizer
from workloads.streams import Words, runs

_WORD = re.compile(r" [A-Za-z]+")
# With fewer words than this, prompts are made of all tokens instead.
_FEWEST_WORDS = 1000


class PromptSource(Protocol):
    """What the tokens of prompts are taken from.

    `is_exact`: the text of what it makes has as many tokens as the ids, whatever follows whatever.
    """

    @property
    def is_exact(self) -> bool:
        """True when nothing needs to be looked at again."""
        ...

    def tokens(self, keys: Words, ids: Words, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """A run of `lengths[i]` token ids for each key and id, one after another.

        Shorter runs of a key and an id begin longer ones; runs of different ids differ early.
        """
        ...


@dataclass(frozen=True, slots=True)
class RandomIds:
    """Any token of the range [first, last) `token_ids`. Their text may have other tokens."""

    token_ids: tuple[int, int]
    is_exact: bool = False

    def tokens(self, keys: Words, ids: Words, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """As PromptSource says."""
        first, last = self.token_ids
        return first + runs(keys, ids, lengths, last - first)


@dataclass(frozen=True, slots=True)
class RandomWords:
    """Tokens that are a space and a word: `ids` of them, which text leaves as they are."""

    ids: NDArray[np.int64]
    is_exact: bool = True

    def tokens(self, keys: Words, ids: Words, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """As PromptSource says."""
        return self.ids[runs(keys, ids, lengths, len(self.ids))]


def random_source(token_ids: tuple[int, int], tokenizer: Tokenizer | None) -> PromptSource:
    """Random tokens of the range [first, last) `token_ids`.

    With a `tokenizer`, those of them that text leaves as they are, if there are enough.
    """
    words = () if tokenizer is None else _words(token_ids, tokenizer)
    if len(words) < _FEWEST_WORDS:
        return RandomIds(token_ids)
    return RandomWords(np.array(words, dtype=np.int64))


def is_left_as_it_is(ids: Sequence[int], tokenizer: Tokenizer) -> bool:
    """True when the text of `ids` is taken apart into just these tokens."""
    return tuple(tokenizer.encode(tokenizer.decode(tuple(ids)))) == tuple(ids)


@lru_cache(maxsize=4)
def _words(token_ids: tuple[int, int], tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens in the range that are a space and a word, alone as well as in a row.

    Tokenizers cut text at spaces before they look for tokens, so a row of them all is proof enough;
    none where it is not left as it is.
    """
    found = tuple(
        token_id
        for token_id in range(*token_ids)
        if _WORD.fullmatch(text := tokenizer.decode((token_id,)))
        and tuple(tokenizer.encode(text)) == (token_id,)
    )
    return found if is_left_as_it_is(found + found[::-1], tokenizer) else ()


def random_token_ids(count: int, token_ids: tuple[int, int], rng: random.Random) -> tuple[int, ...]:
    """`count` token ids drawn uniformly from the range [first, last) `token_ids`.

    Uses only `rng.random()`, whose sequence Python guarantees for a seed across versions.
    """
    first, last = token_ids
    span = last - first
    return tuple(first + int(rng.random() * span) for _ in range(count))
