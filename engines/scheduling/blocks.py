"""The pool of KV blocks: who owns which, never two owners, never a leak."""

from __future__ import annotations


class BlockPool:
    """`total` blocks of `block_tokens` tokens each. Blocks are handed out lowest number first."""

    def __init__(self, total: int, block_tokens: int) -> None:
        if total < 1 or block_tokens < 1:
            msg = f"a pool needs blocks and tokens in them; got {total} x {block_tokens}"
            raise ValueError(msg)
        self.total = total
        self.block_tokens = block_tokens
        self._free = list(range(total - 1, -1, -1))
        self._owned: set[int] = set()

    @property
    def free(self) -> int:
        """Blocks that nobody owns."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Blocks that somebody owns."""
        return len(self._owned)

    def blocks_for(self, tokens: int) -> int:
        """How many blocks `tokens` tokens need."""
        return -(-tokens // self.block_tokens)

    def take(self, tokens: int) -> tuple[int, ...] | None:
        """Blocks with room for `tokens` tokens, or None when too few are free; all or nothing."""
        count = self.blocks_for(tokens)
        if count > len(self._free):
            return None
        blocks = tuple(self._free.pop() for _ in range(count))
        self._owned.update(blocks)
        return blocks

    def give_back(self, blocks: tuple[int, ...]) -> None:
        """Return `blocks` to the pool. Raises ValueError when one is not owned."""
        for block in blocks:
            if block not in self._owned:
                msg = f"block {block} is given back but nobody owns it"
                raise ValueError(msg)
            self._owned.remove(block)
            self._free.append(block)
