"""The pool of KV blocks: how many own which, never a leak."""

from __future__ import annotations

from collections.abc import Sequence

from engines.scheduling.prefix_blocks import PrefixBlocks


class BlockPool:
    """Blocks 0 to `total` - 1. A block has one owner, or several who share the prefix it holds.

    Blocks without a prefix are handed out first, lowest number first in a new pool; then those
    whose prefix nobody has used for longest.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = list(range(total - 1, -1, -1))
        self._owners: dict[int, int] = {}
        self._prefixes = PrefixBlocks()

    @property
    def free(self) -> int:
        """Blocks that nobody owns, whether or not they hold a prefix."""
        return len(self._free) + self._prefixes.idle

    @property
    def used(self) -> int:
        """Blocks that somebody owns; a shared one counts once."""
        return len(self._owners)

    @property
    def cached(self) -> int:
        """Blocks that nobody owns and that hold a prefix."""
        return self._prefixes.idle

    def take(self, count: int) -> tuple[int, ...] | None:
        """`count` blocks of one's own, or None when too few are free; all or nothing."""
        if count > self.free:
            return None
        blocks = tuple(
            self._free.pop() if self._free else self._prefixes.evict() for _ in range(count)
        )
        self._owners.update(dict.fromkeys(blocks, 1))
        return blocks

    def find(self, keys: Sequence[bytes]) -> tuple[int, ...]:
        """The blocks that hold the longest known run of `keys` from the first on."""
        return self._prefixes.find(keys)

    def count_free(self, blocks: Sequence[int]) -> int:
        """How many of `blocks` nobody owns."""
        return sum(map(self._prefixes.is_idle, blocks))

    def share(self, blocks: Sequence[int]) -> None:
        """Become an owner of each of `blocks`, which `find` has found."""
        for block in blocks:
            self._prefixes.own(block)
            self._owners[block] = self._owners.get(block, 0) + 1

    def name(self, block: int, key: bytes) -> None:
        """Let others find `block` by `key`, unless another block holds the same already."""
        self._prefixes.name(block, key)

    def give_back(self, blocks: Sequence[int]) -> None:
        """No longer own `blocks`. Raises ValueError when one is not owned.

        The last goes first: the rest of a prefix is worth nothing without its beginning.
        """
        for block in reversed(blocks):
            if block not in self._owners:
                msg = f"block {block} is given back but nobody owns it"
                raise ValueError(msg)
            self._owners[block] -= 1
            if self._owners[block]:
                continue
            del self._owners[block]
            if not self._prefixes.disown(block):
                self._free.append(block)
