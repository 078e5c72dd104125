"""Watches the engine's own counters while it is measured: twice a second, and at both ends.

It runs in the parent's loop, beside the sending processes, and asks one question at a time. An
answer that fails or takes too long is a sample without values; nothing here ends a run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.clock import Clock
from harness.core.engine import EngineSample
from harness.core.jsonable import to_json
from harness.core.rundir import ENGINE_SAMPLES, LineWriter, open_lines
from harness.core.units import NS_PER_MS

EVERY_NS = 500 * NS_PER_MS
SLOWEST_S = 3.0

Ask = Callable[[], Awaitable[EngineSample | None]]


@dataclass(frozen=True, slots=True)
class Watched:
    """Who is asked, on which clock, the run folder that keeps the answers, and the time for one."""

    ask: Ask
    clock: Clock
    folder: Path
    slowest_s: float = SLOWEST_S


async def take_sample(watched: Watched) -> EngineSample:
    """What the engine says now; a sample without values when it says nothing, or not in time."""
    sample = None
    with contextlib.suppress(Exception):  # whatever an adapter does, it must not end the run
        async with asyncio.timeout(watched.slowest_s):
            sample = await watched.ask()
    return sample or EngineSample(watched.clock.now_ns())


@asynccontextmanager
async def watching(watched: Watched, start_ns: int, before: EngineSample) -> AsyncIterator[None]:
    """Note `before`, which was taken just now, then a sample each EVERY_NS, and one on leaving.

    Instants are noted from `start_ns`, the run's start. An answer that is awaited on leaving is
    waited for: where reading takes something away from the engine, it would be lost.
    """
    asking = asyncio.Lock()
    with open_lines(watched.folder / ENGINE_SAMPLES) as lines:
        _note(lines, before, start_ns)
        task = asyncio.create_task(_watch(watched, lines, start_ns, asking))
        try:
            yield
        finally:
            async with asking:
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            _note(lines, await take_sample(watched), start_ns)


async def _watch(watched: Watched, lines: LineWriter, start_ns: int, asking: asyncio.Lock) -> None:
    """Take a sample at each tick; those that pass while an answer is awaited are left out.

    The first is after the start, where many requests may be due, and `before` was just taken.
    """
    tick = 1
    while True:
        await watched.clock.sleep_until_ns(start_ns + tick * EVERY_NS)
        async with asking:
            _note(lines, await take_sample(watched), start_ns)
        tick = max(tick, (watched.clock.now_ns() - start_ns) // EVERY_NS) + 1


def _note(lines: LineWriter, sample: EngineSample, start_ns: int) -> None:
    at_ns = sample.at_ns - start_ns
    values = to_json(replace(sample, at_ns=at_ns))
    try:
        lines.append({key: value for key, value in values.items() if value not in (None, {})})
    except ValueError:  # a value that JSON does not have
        lines.append({"at_ns": at_ns})
