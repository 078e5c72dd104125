"""The only reader of time. Everything else is handed a Clock, or an instant."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

from harness.core.units import NS_PER_S


class Clock(Protocol):
    """One monotonic time line, in integer nanoseconds."""

    def now_ns(self) -> int:
        """The present instant. Only differences between two readings mean anything."""
        ...

    async def sleep_until_ns(self, instant_ns: int) -> None:
        """Return at `instant_ns` or as soon after it as possible; at once if it is past."""
        ...


class MonotonicClock:
    """CLOCK_MONOTONIC, which on Linux all processes of one machine share."""

    # The built-in function itself: it is called once for every read of every stream.
    now_ns = staticmethod(time.monotonic_ns)

    async def sleep_until_ns(self, instant_ns: int) -> None:
        """Sleep on the event loop until `instant_ns`."""
        while (left_ns := instant_ns - time.monotonic_ns()) > 0:  # noqa: ASYNC110 - time itself
            await asyncio.sleep(left_ns / NS_PER_S)


class VirtualClock:
    """Time that passes only when somebody sleeps; for tests and simulation."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """The present virtual instant."""
        return self._now_ns

    async def sleep_until_ns(self, instant_ns: int) -> None:
        """Jump to `instant_ns`, letting other tasks run once."""
        self._now_ns = max(self._now_ns, instant_ns)
        await asyncio.sleep(0)


def utc_now() -> datetime:
    """The wall clock, for labels only: it may jump, so nothing is measured with it."""
    return datetime.now(UTC)
