"""When to send: a pure question (`due_instant_ns`), and the two loops that ask it.

Open loop: each request goes out when it is due, whatever became of the others. Closed loop: at most
`concurrency` are in flight. Instants are absolute, so one late send does not move the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from harness.core.clock import Clock
from harness.core.workload import Arrival, Load

Send = Callable[[Arrival], Awaitable[None]]


async def send_all(
    arrivals: Sequence[Arrival], load: Load, start_ns: int, clock: Clock, send: Send
) -> None:
    """Call `send` once for each of `arrivals`, as `load` says, and wait until all have ended."""
    if load.is_open_loop:
        await _open_loop(arrivals, start_ns, clock, send)
    else:
        await _closed_loop(arrivals, load.concurrency or 1, send)


async def _open_loop(arrivals: Sequence[Arrival], start_ns: int, clock: Clock, send: Send) -> None:
    async with asyncio.TaskGroup() as group:
        for arrival in arrivals:
            await clock.sleep_until_ns(start_ns + arrival.due_ns)
            group.create_task(_run(send, arrival))


async def _closed_loop(arrivals: Sequence[Arrival], concurrency: int, send: Send) -> None:
    queue = iter(arrivals)

    async def slot() -> None:
        for arrival in queue:  # the iterator is shared: each arrival is taken by one slot
            await send(arrival)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(arrivals))):
            group.create_task(slot())


async def _run(send: Send, arrival: Arrival) -> None:
    await send(arrival)
