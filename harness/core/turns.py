"""Later turns: requests that are due only when another has ended."""

from __future__ import annotations

from heapq import heappop, heappush

from harness.core.workload import After


class LaterTurns:
    """Those that wait for another request: held until it ends, and then due at a known instant.

    Instants are ns from the start of the run. The length is how many were held and not popped yet.
    """

    def __init__(self) -> None:
        self._held: dict[int, list[tuple[int, int, After]]] = {}
        self._released: list[tuple[int, int]] = []
        self._left = 0

    def __len__(self) -> int:
        return self._left

    def hold(self, index: int, due_ns: int, after: After) -> None:
        """Keep request `index`, due at `due_ns` at the earliest, until `after` allows it."""
        self._held.setdefault(after.index, []).append((index, due_ns, after))
        self._left += 1

    def release(self, ended: int, ended_ns: int) -> bool:
        """Request `ended` ended at `ended_ns`, well or not; True when any had waited for it."""
        waited = self._held.pop(ended, ())
        for index, due_ns, after in waited:
            heappush(self._released, (after.due_ns(due_ns, ended_ns), index))
        return bool(waited)

    @property
    def next_ns(self) -> int | None:
        """When the next of those released is due; None while all that are left are held."""
        return self._released[0][0] if self._released else None

    def pop(self) -> tuple[int, int]:
        """Take the next of those released: its index, and the instant that it is due."""
        due_ns, index = heappop(self._released)
        self._left -= 1
        return index, due_ns

    def clear(self) -> None:
        """Forget all of them."""
        self._held.clear()
        self._released.clear()
        self._left = 0
