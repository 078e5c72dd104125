"""Which block holds which prefix of a prompt, and which of these blocks nobody owns any more."""

from __future__ import annotations

from collections.abc import Iterable


class PrefixBlocks:
    """Blocks by the key of what they hold. A key has one block: who stored it first keeps it.

    Blocks that nobody owns are idle: they stay until their room is needed, and the one that has
    been idle for longest goes first.
    """

    def __init__(self) -> None:
        self._block_of: dict[bytes, int] = {}
        self._key_of: dict[int, bytes] = {}
        self._idle: dict[int, None] = {}

    @property
    def idle(self) -> int:
        """Blocks that hold a prefix and that nobody owns."""
        return len(self._idle)

    def find(self, keys: Iterable[bytes]) -> tuple[int, ...]:
        """The blocks that hold `keys`, up to the first key that no block holds."""
        found: list[int] = []
        for key in keys:
            block = self._block_of.get(key)
            if block is None:
                break
            found.append(block)
        return tuple(found)

    def is_idle(self, block: int) -> bool:
        """True when `block` holds a prefix and nobody owns it."""
        return block in self._idle

    def name(self, block: int, key: bytes) -> None:
        """`block` holds what `key` names; no effect when another block does already."""
        if self._block_of.setdefault(key, block) == block:
            self._key_of[block] = key

    def own(self, block: int) -> None:
        """Somebody owns `block` again."""
        self._idle.pop(block, None)

    def disown(self, block: int) -> bool:
        """Nobody owns `block` any more; False when it holds no prefix, so that it is just free."""
        if block not in self._key_of:
            return False
        self._idle[block] = None
        return True

    def evict(self) -> int:
        """Give up the block that has been idle for longest. Raises StopIteration without one."""
        block = next(iter(self._idle))
        del self._idle[block]
        del self._block_of[self._key_of.pop(block)]
        return block
