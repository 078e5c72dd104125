"""What each switch of the engine does to tokens, totals and the queue, and how steps are timed."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Coroutine, Mapping
from io import BytesIO
from typing import Any

import pytest

from engines.inhouse.engine import InhouseEngine
from engines.serving.generation import GenerationRequest, QueueFull
from engines.serving.request_queue import QueueLimits
from harness.core.jsonable import from_json
from harness.core.record import StepRecord
from harness.core.rundir import LineWriter

Use = Callable[[InhouseEngine], Coroutine[Any, Any, Any]]
PROMPTS = [((1, 2, 3), 9), ((9,), 12), ((4,) * 11, 5), ((7, 8), 9), ((5, 6), 14)]


def run(engine: InhouseEngine, use: Use, gate: Any = None) -> Any:
    async def main() -> Any:
        engine.start()
        try:
            return await asyncio.wait_for(use(engine), 60)
        finally:
            if gate is not None:
                gate.is_open.set()
            await engine.stop()

    return asyncio.run(main())


async def answer(engine: InhouseEngine, prompt: tuple[int, ...], most: int) -> list[int]:
    request = GenerationRequest(prompt, most, ignore_eos=True)
    return [token.token_id async for token in engine.generate(request)]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def alone(engine: InhouseEngine) -> list[list[int]]:
    return [await answer(engine, *row) for row in PROMPTS]


async def together(engine: InhouseEngine) -> list[list[int]]:
    return await asyncio.gather(*(answer(engine, *row) for row in PROMPTS))


@pytest.mark.parametrize(
    ("limits", "totals"),
    [
        ({}, {"preemptions_total": 0}),
        ({"kv": "reserved"}, {"preemptions_total": 0}),
        ({"step_tokens": 3, "chunked_prefill": True}, {"prefill_tokens_total": 19}),
        ({"step_tokens": 3, "chunked_prefill": True, "order": "prefill_first"}, {}),
        ({"prefix_cache": True}, {"prefix_query_tokens_total": 19}),
    ],
)
def test_no_switch_changes_a_token(
    tiny: Any, limits: dict[str, Any], totals: Mapping[str, float]
) -> None:
    expected = run(tiny.engine(tiny.runner()), alone)

    engine = tiny.engine(tiny.runner(), **limits)

    assert run(engine, together) == expected
    gauges = engine.gauges()
    assert {name: gauges[name] for name in totals} == totals
    assert gauges["prompt_tokens_total"] == sum(len(prompt) for prompt, _ in PROMPTS)
    assert gauges["output_tokens_total"] == sum(most for _, most in PROMPTS)
    assert gauges["kv_blocks_used"] == gauges["requests_waiting"] == gauges["queue_tokens"] == 0


def test_an_answer_that_gave_way_goes_on_with_the_same_tokens(tiny: Any) -> None:
    expected = run(tiny.engine(tiny.runner()), alone)
    runner = tiny.runner()

    engine = tiny.engine(runner, kv_blocks=6, capacity="max_utilization")

    assert run(engine, together) == expected
    assert engine.gauges()["preemptions_total"] > 0
    assert engine.gauges()["prompt_tokens_total"] == 19
    assert engine.gauges()["prefill_tokens_total"] > 19
    assert engine.gauges()["requests_waiting"] == 0
    assert runner.sequence_ids == ()


def test_one_that_gave_way_waits_and_may_still_be_cancelled(tiny: Any) -> None:
    gate = tiny.gate()
    engine = tiny.engine(gate, kv_blocks=6, capacity="max_utilization")

    async def use(engine: InhouseEngine) -> None:
        older = asyncio.create_task(answer(engine, (1,) * 8, 14))
        await until(lambda: len(gate.plans) == 1)
        younger = asyncio.create_task(answer(engine, (2,) * 4, 18))
        await asyncio.sleep(0)
        while not any(plan.preempted for plan in gate.plans):
            await gate.next_step()
        await until(lambda: engine.gauges()["requests_waiting"] == 1)
        younger.cancel()
        await until(lambda: engine.gauges()["requests_waiting"] == 0)
        gate.is_open.set()
        assert len(await older) == 14
        await until(lambda: not gate.sequence_ids)

    run(engine, use, gate)


def test_a_prompt_that_was_read_before_is_found_and_counted(tiny: Any) -> None:
    prompt = (1, 2, 3, 4, 5, 6, 7, 8, 9)

    async def twice(engine: InhouseEngine) -> list[list[int]]:
        return [await answer(engine, prompt, 3), await answer(engine, prompt, 3)]

    engine = tiny.engine(tiny.runner(), prefix_cache=True)
    first, second = run(engine, twice)

    assert first == second
    gauges = engine.gauges()
    assert (gauges["prefix_query_tokens_total"], gauges["prefix_hit_tokens_total"]) == (18, 8)
    assert (gauges["prompt_tokens_total"], gauges["prefill_tokens_total"]) == (18, 10)


def test_without_a_prefix_cache_nothing_is_said_of_one(tiny: Any) -> None:
    assert not [name for name in tiny.engine(tiny.runner()).gauges() if "prefix" in name]


def test_the_kv_gauges_say_what_is_stored_what_is_unfilled_and_what_is_over_reserved(
    tiny: Any,
) -> None:
    gate = tiny.gate()
    engine = tiny.engine(gate, kv="reserved")

    async def use(engine: InhouseEngine) -> None:
        task = asyncio.create_task(answer(engine, (1, 2, 3, 4, 5), 10))
        await until(lambda: len(gate.plans) == 1)
        gate.step()
        await until(lambda: engine.gauges()["steps_total"] == 1)
        gauges = engine.gauges()
        names = ("stored", "unfilled", "over_reserved")
        assert [gauges[f"kv_tokens_{name}"] for name in names] == [5, 3, 8]
        assert gauges["kv_blocks_used"] == 4
        gate.is_open.set()
        await task
        await until(lambda: engine.gauges()["kv_blocks_used"] == 0)
        assert [engine.gauges()[f"kv_tokens_{name}"] for name in names] == [0, 0, 0]

    run(engine, use, gate)


def test_steps_that_had_every_slot_at_work_are_counted(tiny: Any) -> None:
    engine = tiny.engine(tiny.runner(), "static", window_ms=50)

    async def use(engine: InhouseEngine) -> None:
        await asyncio.gather(answer(engine, (1, 2), 3), answer(engine, (3, 4), 5))
        await until(lambda: engine.gauges()["steps_total"] == 5)

    run(engine, use)

    assert engine.gauges()["steps_saturated_total"] == 3


def test_a_full_queue_is_told_at_once_while_a_step_is_computed(tiny: Any) -> None:
    gate = tiny.gate()
    engine = tiny.engine(gate, queue=QueueLimits(requests=2))

    async def use(engine: InhouseEngine) -> None:
        tasks = [asyncio.create_task(answer(engine, (1, 2, 3), 2))]
        await until(lambda: engine.gauges()["requests_waiting"] == 0 and len(gate.plans) == 1)
        tasks += [asyncio.create_task(answer(engine, (1, 2, 3), 2)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFull, match="2 requests wait already"):
            await answer(engine, (1,), 1)
        gauges = engine.gauges()
        assert (gauges["requests_waiting"], gauges["queue_tokens"]) == (2, 6)
        assert gauges["requests_rejected_total"] == 1
        assert len(gate.plans) == 1
        gate.is_open.set()
        await asyncio.gather(*tasks)
        assert len(await answer(engine, (1,), 1)) == 1
        assert "batchmark_queue_seconds_count 4" in engine.histograms()[0].lines()

    run(engine, use, gate)


def test_who_is_admitted_makes_room_before_its_step_has_ended(tiny: Any) -> None:
    gate = tiny.gate()
    engine = tiny.engine(gate, queue=QueueLimits(requests=1))

    async def use(engine: InhouseEngine) -> None:
        first = asyncio.create_task(answer(engine, (1, 2, 3), 2))
        await until(lambda: len(gate.plans) == 1 and not engine.gauges()["requests_waiting"])
        second = asyncio.create_task(answer(engine, (1, 2, 3), 2))
        await asyncio.sleep(0)
        gate.is_open.set()
        await asyncio.gather(first, second)

    run(engine, use, gate)


def test_tokens_of_a_step_arrive_while_the_next_one_is_computed(tiny: Any) -> None:
    gate = tiny.gate()

    async def use(engine: InhouseEngine) -> None:
        tokens: Any = engine.generate(GenerationRequest((1, 2), 3, ignore_eos=True))
        task = asyncio.create_task(anext(tokens))
        await until(lambda: len(gate.plans) == 1)
        gate.step()
        await task
        await until(lambda: len(gate.plans) == 2)
        assert engine.gauges()["steps_total"] == 1
        gate.is_open.set()
        await tokens.aclose()

    run(tiny.engine(gate), use, gate)


def test_a_batch_that_is_not_full_starts_once_no_more_requests_will_come(tiny: Any) -> None:
    async def use(engine: InhouseEngine) -> None:
        task = asyncio.create_task(answer(engine, (1, 2), 3))
        await asyncio.sleep(0)
        assert engine.gauges()["requests_waiting"] == 1
        engine.drain()
        assert len(await task) == 3

    run(tiny.engine(tiny.runner(), "static"), use)


def test_a_step_begins_when_the_one_before_has_ended_unless_there_was_nothing_to_do(
    tiny: Any,
) -> None:
    file = BytesIO()

    async def use(engine: InhouseEngine) -> None:
        for _ in range(2):
            await answer(engine, (1, 2, 3), 4)
            await asyncio.sleep(0.01)

    run(tiny.engine(tiny.runner(), log=LineWriter(file)), use)
    steps = [from_json(StepRecord, json.loads(line)) for line in file.getvalue().splitlines()]

    ends = [step.started_ns + step.duration_ns for step in steps]
    gaps = [step.started_ns - end for step, end in zip(steps[1:], ends, strict=False)]
    assert len(steps) == 8
    assert [gap > 0 for gap in gaps] == [False, False, False, True, False, False, False]
    assert all(gap == 0 for gap in gaps if gap <= 0)
    for step in steps:
        assert step.outside_ns == step.duration_ns - step.prefill_ns - step.decode_ns
        assert step.outside_ns > 0


class FullDisk(io.RawIOBase):
    """Takes nothing."""

    def write(self, _: object) -> int:
        raise OSError(28, "No space left on device")


def test_a_step_log_that_cannot_be_written_fails_the_requests_in_words(tiny: Any) -> None:
    async def use(engine: InhouseEngine) -> None:
        with pytest.raises(RuntimeError, match="cannot write its step log: .* No space left"):
            await answer(engine, (1, 2), 40)

    run(tiny.engine(tiny.runner(), log=LineWriter(FullDisk())), use)
