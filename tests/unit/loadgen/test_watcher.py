"""The engine's own counters, read while it is measured: when, and whatever the engine does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.core.clock import MonotonicClock, VirtualClock
from harness.core.engine import EngineSample
from harness.core.errors import EngineFailed
from harness.core.rundir import ENGINE_SAMPLES
from harness.core.units import NS_PER_S, ms_to_ns
from harness.loadgen.watcher import Watched, take_sample, watching

START_NS = 100 * NS_PER_S

Ask = Callable[[], Awaitable[EngineSample | None]]


def watch(folder: Path, clock: VirtualClock, ask: Ask, length_ms: float) -> list[dict[str, Any]]:
    """The lines that a run of `length_ms` leaves when its engine answers with `ask`."""

    async def run() -> None:
        watched = Watched(ask, clock, folder)
        before = await take_sample(watched)
        await clock.sleep_until_ns(START_NS)
        async with watching(watched, START_NS, before):
            while clock.now_ns() < START_NS + ms_to_ns(length_ms):
                await asyncio.sleep(0)

    asyncio.run(run())
    return [json.loads(line) for line in (folder / ENGINE_SAMPLES).read_text().splitlines()]


def test_the_engine_is_read_before_twice_a_second_and_after(tmp_path: Path) -> None:
    clock = VirtualClock(START_NS - ms_to_ns(20))

    async def ask() -> EngineSample:
        return EngineSample(clock.now_ns(), running=2.0, kv_share=0.0)

    lines = watch(tmp_path, clock, ask, 1500)
    assert [line["at_ns"] / 1e6 for line in lines] == [-20, 500, 1000, 1500]
    assert lines[0] == {"at_ns": -20_000_000, "running": 2.0, "kv_share": 0.0}


def test_a_slow_answer_moves_no_tick_and_nobody_is_asked_twice_at_once(tmp_path: Path) -> None:
    clock = VirtualClock(START_NS - NS_PER_S)
    asked_ms, pending = [], set[int]()

    async def ask() -> EngineSample:
        assert not pending
        pending.add(1)
        asked_ms.append((clock.now_ns() - START_NS) / 1e6)
        try:
            await clock.sleep_until_ns(clock.now_ns() + ms_to_ns(700))
        finally:
            pending.clear()
        return EngineSample(clock.now_ns())

    watch(tmp_path, clock, ask, 4000)
    during = [ms for ms in asked_ms[1:] if ms < 4000]
    assert during == [500, 1500, 2500, 3500]  # the tick at 1000 fell into the wait until 1200


def test_what_is_being_read_when_the_run_ends_is_not_lost(tmp_path: Path) -> None:
    """TensorRT-LLM gives each record away once: an answer that nobody waits for is gone."""
    clock = VirtualClock(START_NS)
    taken: list[float] = []
    is_asked = asyncio.Event()

    async def ask() -> EngineSample:
        taken.append(len(taken) + 1.0)
        number = taken[-1]
        is_asked.set()
        for _ in range(5):
            await asyncio.sleep(0)
        return EngineSample(clock.now_ns(), requests_total=number)

    async def run() -> None:
        async with watching(Watched(ask, clock, tmp_path), START_NS, EngineSample(START_NS)):
            await is_asked.wait()

    asyncio.run(run())
    lines = (tmp_path / ENGINE_SAMPLES).read_text().splitlines()
    assert [json.loads(line).get("requests_total") for line in lines] == [None, *taken]


async def refuse() -> EngineSample | None:
    raise EngineFailed("the page is gone")


async def break_down() -> EngineSample | None:
    raise RuntimeError("a fault of the adapter")


async def say_nothing() -> EngineSample | None:
    return None


async def say_what_json_has_not() -> EngineSample | None:
    return EngineSample(START_NS, running=float("nan"))


@pytest.mark.parametrize("ask", [refuse, break_down, say_nothing, say_what_json_has_not])
def test_a_reading_that_fails_is_a_line_without_values(tmp_path: Path, ask: Ask) -> None:
    lines = watch(tmp_path, VirtualClock(START_NS), ask, 1000)
    assert len(lines) >= 3
    assert all(set(line) == {"at_ns"} for line in lines)


def test_an_engine_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    async def hang() -> EngineSample | None:
        await asyncio.Event().wait()
        return None

    clock = MonotonicClock()
    before_ns = clock.now_ns()
    found = asyncio.run(take_sample(Watched(hang, clock, tmp_path, slowest_s=0.001)))
    assert found == EngineSample(found.at_ns)
    assert found.at_ns >= before_ns


def test_the_file_is_whole_up_to_its_last_line_while_the_run_lasts(tmp_path: Path) -> None:
    clock = VirtualClock(START_NS)

    async def ask() -> EngineSample:
        return EngineSample(clock.now_ns(), running=1.0)

    async def run() -> str:
        watched = Watched(ask, clock, tmp_path)
        async with watching(watched, START_NS, await take_sample(watched)):
            while clock.now_ns() < START_NS + NS_PER_S:
                await asyncio.sleep(0)
            return (tmp_path / ENGINE_SAMPLES).read_text()

    lines = asyncio.run(run()).splitlines(keepends=True)
    assert len(lines) >= 2
    assert all(line.endswith("\n") and json.loads(line) for line in lines)


def test_a_run_that_fails_is_read_once_more_and_still_fails(tmp_path: Path) -> None:
    clock = VirtualClock(START_NS)

    async def run() -> None:
        watched = Watched(say_nothing, clock, tmp_path)
        async with watching(watched, START_NS, EngineSample(START_NS)):
            raise EngineFailed("it died")

    with pytest.raises(EngineFailed, match="it died"):
        asyncio.run(run())
    assert len((tmp_path / ENGINE_SAMPLES).read_text().splitlines()) == 2
