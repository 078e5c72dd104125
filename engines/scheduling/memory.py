"""How sequences come by KV blocks: block by block as they grow, or all at once before they start.

A sequence asks for admission once, then for room as often as it grows, and gives all back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple, Protocol

from engines.scheduling.blocks import BlockPool
from engines.scheduling.limits import Limits
from engines.scheduling.runs import RunPool
from engines.scheduling.sequence import Sequence
from engines.scheduling.step import KvUse


class Holding(NamedTuple):
    """What one sequence has of the cache: so many blocks, with so many tokens stored in them."""

    blocks: int
    tokens: int


class Memory(Protocol):
    """The KV cache, as far as the scheduler needs to know it."""

    @property
    def used(self) -> int:
        """Blocks that somebody owns."""
        ...

    def hit_tokens(self, sequence: Sequence) -> int:
        """Tokens of a waiting sequence that are stored already and need not be read."""
        ...

    def admit(self, sequence: Sequence) -> bool:
        """Let `sequence` start, with what the cache holds of it; False when it has to wait."""
        ...

    def grow(self, sequence: Sequence, tokens: int) -> bool:
        """Room for the first `tokens` tokens of an admitted `sequence`; False without any."""
        ...

    def keep_prefix(self, sequence: Sequence, first: int) -> None:
        """Let others find the full blocks of the prompt that were stored from `first` on."""
        ...

    def give_back(self, sequence: Sequence) -> None:
        """Take all blocks from `sequence`."""
        ...

    def use(self, holdings: Iterable[Holding], head: Sequence | None) -> KvUse:
        """How the cache stands with these `holdings`, while `head` is next to be admitted."""
        ...


class PagedMemory:
    """Any free block will do, so nothing is lost between sequences, and nothing is copied.

    `is_promised`: what an admitted sequence may still need is counted as taken, so that `grow` can
    never fail. Otherwise a sequence is admitted when all that it has to read fits.
    """

    def __init__(self, limits: Limits, *, is_promised: bool) -> None:
        self._pool = BlockPool(limits.kv_blocks)
        self._block_tokens = limits.block_tokens
        self._has_prefixes = limits.prefix_cache
        self._is_promised = is_promised
        self._promised = 0  # blocks that admitted sequences have yet to take

    @property
    def used(self) -> int:
        """See Memory."""
        return self._pool.used

    def hit_tokens(self, sequence: Sequence) -> int:
        """See Memory."""
        return len(self._find(sequence)) * self._block_tokens

    def admit(self, sequence: Sequence) -> bool:
        """See Memory."""
        found = self._find(sequence)
        missing = self._goal(sequence) - len(found)
        if missing > self._pool.free - self._pool.count_free(found) - self._promised:
            return False
        self._pool.share(found)
        sequence.blocks = found
        sequence.stored = len(found) * self._block_tokens
        self._promise(missing)
        return True

    def grow(self, sequence: Sequence, tokens: int) -> bool:
        """See Memory."""
        missing = _blocks_for(tokens, self._block_tokens) - len(sequence.blocks)
        if missing <= 0:
            return True
        taken = self._pool.take(missing)
        if taken is None:
            return False
        sequence.blocks += taken
        self._promise(-missing)
        return True

    def keep_prefix(self, sequence: Sequence, first: int) -> None:
        """See Memory."""
        if self._has_prefixes:
            new = slice(first // self._block_tokens, sequence.stored // self._block_tokens)
            for block, key in zip(sequence.blocks[new], sequence.block_keys[new], strict=False):
                self._pool.name(block, key)

    def give_back(self, sequence: Sequence) -> None:
        """See Memory."""
        self._promise(len(sequence.blocks) - self._goal(sequence))
        self._pool.give_back(sequence.blocks)
        sequence.blocks = ()
        sequence.stored = 0

    def use(self, holdings: Iterable[Holding], head: Sequence | None) -> KvUse:  # noqa: ARG002
        """See Memory. Shared blocks, which are always full, count once."""
        use = _use_of(holdings, self._pool.total, self._block_tokens)
        shared = use.used - self._pool.used
        return replace(
            use,
            used=self._pool.used,
            tokens_stored=use.tokens_stored - shared * self._block_tokens,
            cached=self._pool.cached,
        )

    def _find(self, sequence: Sequence) -> tuple[int, ...]:
        """Blocks to share; one token at least is left to be read, and to produce the next."""
        if not self._has_prefixes:
            return ()
        most = (sequence.known - 1) // self._block_tokens
        return self._pool.find(sequence.block_keys[:most])

    def _goal(self, sequence: Sequence) -> int:
        """How many blocks `sequence` must be able to come by before it may start."""
        tokens = sequence.tokens_at_end if self._is_promised else sequence.known
        return _blocks_for(tokens, self._block_tokens)

    def _promise(self, blocks: int) -> None:
        if self._is_promised:
            self._promised += blocks


class ReservedMemory:
    """One run of blocks for the prompt and the longest answer, from the first step to the last."""

    def __init__(self, limits: Limits) -> None:
        self._runs = RunPool(limits.kv_blocks)
        self._block_tokens = limits.block_tokens

    @property
    def used(self) -> int:
        """See Memory."""
        return self._runs.used

    def hit_tokens(self, sequence: Sequence) -> int:  # noqa: ARG002
        """None: contiguous room cannot be shared."""
        return 0

    def admit(self, sequence: Sequence) -> bool:
        """See Memory."""
        blocks = self._runs.take(self._needed(sequence))
        if blocks is None:
            return False
        sequence.blocks = blocks
        return True

    def grow(self, sequence: Sequence, tokens: int) -> bool:  # noqa: ARG002
        """Always: the room is there since the start."""
        return True

    def keep_prefix(self, sequence: Sequence, first: int) -> None:
        """Nothing is kept."""

    def give_back(self, sequence: Sequence) -> None:
        """See Memory."""
        self._runs.give_back(sequence.blocks)
        sequence.blocks = ()
        sequence.stored = 0

    def use(self, holdings: Iterable[Holding], head: Sequence | None) -> KvUse:
        """See Memory."""
        use = _use_of(holdings, self._runs.total, self._block_tokens)
        free = use.total - use.used
        needed = self._needed(head) if head else 0
        return replace(use, stranded=free if self._runs.longest_gap < needed <= free else 0)

    def _needed(self, sequence: Sequence) -> int:
        return _blocks_for(sequence.tokens_at_end, self._block_tokens)


def make_memory(limits: Limits, *, is_promised: bool) -> Memory:
    """The KV cache of `limits`; `is_promised` as in PagedMemory."""
    if limits.kv == "reserved":
        return ReservedMemory(limits)
    return PagedMemory(limits, is_promised=is_promised)


def _blocks_for(tokens: int, block_tokens: int) -> int:
    return -(-tokens // block_tokens)


def _use_of(holdings: Iterable[Holding], total: int, block_tokens: int) -> KvUse:
    """`holdings` added up, as if no block were shared."""
    owned = stored = begun = 0
    for holding in holdings:
        owned += holding.blocks
        stored += holding.tokens
        begun += _blocks_for(holding.tokens, block_tokens)
    return KvUse(
        used=owned,
        total=total,
        tokens_stored=stored,
        tokens_unfilled=begun * block_tokens - stored,
        tokens_over_reserved=(owned - begun) * block_tokens,
    )
