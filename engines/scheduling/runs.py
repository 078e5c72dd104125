"""KV blocks in runs that stand next to each other, for sequences that need contiguous room."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence


class RunPool:
    """Blocks 0 to `total` - 1, handed out in runs: the first gap that is wide enough is used."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._owned: list[range] = []

    @property
    def used(self) -> int:
        """Blocks that somebody owns."""
        return sum(map(len, self._owned))

    @property
    def longest_gap(self) -> int:
        """The longest run that could be taken now."""
        return max(map(len, self._gaps()))

    def take(self, count: int) -> tuple[int, ...] | None:
        """`count` blocks in one run, or None when no gap is wide enough."""
        gap = next((gap for gap in self._gaps() if len(gap) >= count), None)
        if gap is None:
            return None
        insort(self._owned, gap[:count], key=lambda run: run.start)
        return tuple(gap[:count])

    def give_back(self, blocks: Sequence[int]) -> None:
        """Return a run as it was taken. Raises ValueError when nobody owns it."""
        run = range(blocks[0], blocks[0] + len(blocks))
        if run not in self._owned:
            msg = f"blocks {run.start} to {run.stop - 1} are given back but nobody owns them"
            raise ValueError(msg)
        self._owned.remove(run)

    def _gaps(self) -> Iterator[range]:
        """The free runs, empty ones included, from the first block to the last."""
        start = 0
        for run in self._owned:
            yield range(start, run.start)
            start = run.stop
        yield range(start, self.total)
