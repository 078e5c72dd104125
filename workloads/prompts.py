"""Prompts of an exact number of tokens that no engine has seen before."""

from __future__ import annotations

import random


def random_token_ids(count: int, token_ids: tuple[int, int], rng: random.Random) -> tuple[int, ...]:
    """`count` token ids drawn uniformly from the range [first, last) `token_ids`.

    Uses only `rng.random()`, whose sequence Python guarantees for a seed across versions.
    """
    first, last = token_ids
    span = last - first
    return tuple(first + int(rng.random() * span) for _ in range(count))
