from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from io import BytesIO
from typing import Any

import pytest

from engines.inhouse.engine import InhouseEngine
from engines.serving.generation import (
    GeneratedToken,
    GenerationRequest,
    RequestRefused,
)
from harness.core.jsonable import from_json
from harness.core.record import StepRecord
from harness.core.rundir import LineWriter

Use = Callable[[InhouseEngine], Coroutine[Any, Any, Any]]


def run(engine: InhouseEngine, use: Use) -> Any:
    """Start `engine`, `use` it, and stop it, whatever happens."""

    async def main() -> Any:
        engine.start()
        try:
            return await asyncio.wait_for(use(engine), 60)
        finally:
            await engine.stop()

    return asyncio.run(main())


async def answer(engine: InhouseEngine, prompt: tuple[int, ...], most: int) -> list[GeneratedToken]:
    return [token async for token in engine.generate(GenerationRequest(prompt, most, False))]


async def until(condition: Callable[[], bool]) -> None:
    """Let the worker's thread work until `condition` holds."""
    while not condition():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("policy", ["static", "dynamic", "continuous"])
def test_every_policy_gives_each_request_the_tokens_that_it_gets_alone(
    tiny: Any, policy: str
) -> None:
    requests = [((1, 2, 3), 6), ((9,), 3), ((4,) * 11, 1), ((7, 8), 9), ((5, 6), 4)]

    async def alone(engine: InhouseEngine) -> list[list[GeneratedToken]]:
        return [await answer(engine, *request) for request in requests]

    async def together(engine: InhouseEngine) -> list[list[GeneratedToken]]:
        return await asyncio.gather(*(answer(engine, *request) for request in requests))

    expected = run(tiny.engine(tiny.runner()), alone)

    assert [len(tokens) for tokens in expected] == [most for _, most in requests]
    assert run(tiny.engine(tiny.runner(), policy, window_ms=5), together) == expected


def test_the_last_token_says_why_the_answer_ended(tiny: Any) -> None:
    free = run(tiny.engine(tiny.runner()), lambda engine: answer(engine, (1, 2, 3), 3))
    assert [token.finish_reason for token in free] == [None, None, "length"]

    end_id = free[1].token_id
    stopped = run(tiny.engine(tiny.runner((end_id,))), lambda engine: answer(engine, (1, 2, 3), 3))

    assert free[0].token_id != end_id
    assert stopped[-1] == GeneratedToken(end_id, "stop")
    assert len(stopped) == 2


def test_an_ignored_end_token_ends_nothing(tiny: Any) -> None:
    async def use(engine: InhouseEngine) -> list[GeneratedToken]:
        request = GenerationRequest((1, 2, 3), 5, ignore_eos=True)
        return [token async for token in engine.generate(request)]

    everything = tuple(range(128))

    assert len(run(tiny.engine(tiny.runner(everything)), use)) == 5


@pytest.mark.parametrize("policy", ["static", "continuous"])
def test_closing_the_iterator_frees_the_slot_and_forgets_the_prompt(tiny: Any, policy: str) -> None:
    gate = tiny.gate()
    gate.is_open.set()
    engine = tiny.engine(gate, policy, window_ms=1)

    async def use(engine: InhouseEngine) -> None:
        tokens: Any = engine.generate(GenerationRequest((1, 2, 3), 50, ignore_eos=True))
        await anext(tokens)
        gate.is_open.clear()
        taken = len(gate.plans)
        await tokens.aclose()
        gate.is_open.set()
        await until(lambda: engine.gauges()["kv_blocks_used"] == 0 and not gate.sequence_ids)
        assert engine.gauges()["requests_running"] == 0
        assert len(gate.plans) <= taken + 1
        assert len(await answer(engine, (1, 2), 3)) == 3

    run(engine, use)


def test_a_cancelled_request_of_a_static_batch_pads_until_the_batch_ends(tiny: Any) -> None:
    gate = tiny.gate()

    async def use(engine: InhouseEngine) -> None:
        other = asyncio.create_task(answer(engine, (4, 5), 4))
        leaver = asyncio.create_task(answer(engine, (1, 2, 3), 50))
        await until(lambda: len(gate.plans) == 1)
        leaver.cancel()
        await asyncio.sleep(0)
        gate.is_open.set()
        assert len(await other) == 4
        await until(lambda: engine.gauges()["kv_blocks_used"] == 0)
        assert [plan.padded for plan in gate.plans] == [0, 1, 1, 1]
        assert gate.sequence_ids == ()

    run(tiny.engine(gate, "static"), use)


def test_a_model_that_breaks_fails_every_request_now_and_later(tiny: Any) -> None:
    gate = tiny.gate()
    gate.breaks = True

    async def use(engine: InhouseEngine) -> None:
        tasks = [asyncio.create_task(answer(engine, (1, 2, 3), 5)) for _ in range(4)]
        await asyncio.sleep(0)
        gate.is_open.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == [
            "the engine failed: RuntimeError: out of memory"
        ] * 4
        with pytest.raises(RuntimeError, match="out of memory"):
            await answer(engine, (1,), 1)

    run(tiny.engine(gate), use)


def test_stopping_fails_what_is_in_flight_and_may_be_repeated(tiny: Any) -> None:
    async def use(engine: InhouseEngine) -> None:
        tokens: Any = engine.generate(GenerationRequest((1,), 60, ignore_eos=True))
        await anext(tokens)
        await engine.stop()
        await engine.stop()
        with pytest.raises(RuntimeError, match="was stopped"):
            async for _ in tokens:
                pass
        with pytest.raises(RuntimeError, match="was stopped"):
            await answer(engine, (1,), 1)

    run(tiny.engine(tiny.runner()), use)


def test_an_engine_that_never_started_can_be_stopped(tiny: Any) -> None:
    asyncio.run(tiny.engine(tiny.runner()).stop())


@pytest.mark.parametrize(
    ("prompt", "most", "words"),
    [
        ((), 1, "has 0 tokens and max_tokens is 1"),
        ((1,), 0, "max_tokens is 0"),
        ((1, 128), 1, "token id 128; ids are 0 to 127"),
        ((1, -1), 1, "token id -1"),
        ((1,) * 90, 7, "90 prompt tokens and max_tokens 7 .* context of 96 tokens"),
        ((1,) * 60, 6, "60 prompt tokens and max_tokens 6 .* KV cache of 64 tokens"),
    ],
)
def test_what_can_never_be_served_is_refused_with_the_numbers(
    tiny: Any, prompt: tuple[int, ...], most: int, words: str
) -> None:
    async def use(engine: InhouseEngine) -> None:
        with pytest.raises(RequestRefused, match=words):
            await answer(engine, prompt, most)
        assert engine.gauges()["requests_waiting"] == 0

    run(tiny.engine(tiny.runner()), use)


def test_the_largest_request_that_fits_is_served(tiny: Any) -> None:
    assert len(run(tiny.engine(tiny.runner()), lambda engine: answer(engine, (1,) * 60, 5))) == 5


def test_steps_are_logged_and_add_up_to_the_totals(tiny: Any) -> None:
    file = BytesIO()
    engine = tiny.engine(tiny.runner(), "static", window_ms=1, log=LineWriter(file))

    async def use(engine: InhouseEngine) -> None:
        await asyncio.gather(answer(engine, (1, 2, 3), 4), answer(engine, (1,) * 8, 2))
        await until(lambda: engine.gauges()["steps_total"] == 4)

    run(engine, use)
    steps = [from_json(StepRecord, json.loads(line)) for line in file.getvalue().splitlines()]
    gauges = engine.gauges()

    assert [step.index for step in steps] == [1, 2, 3, 4]
    assert [(step.running, step.padded) for step in steps] == [(2, 0), (2, 0), (1, 1), (1, 1)]
    assert (steps[0].prefill_tokens, steps[0].prefill_padding_tokens) == (11, 5)
    assert [step.decode_tokens for step in steps] == [0, 2, 1, 1]
    assert gauges["prompt_tokens_total"] == 11
    assert gauges["output_tokens_total"] == 6
    assert gauges["requests_total"] == 2
    assert gauges["kv_share"] == 0
    assert gauges["slots_padded"] == gauges["kv_blocks_used"] == gauges["requests_running"] == 0
    assert all(step.duration_ns >= step.prefill_ns + step.decode_ns for step in steps)
