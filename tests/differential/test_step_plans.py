"""The in-house engine plans the very steps that the simulator plans."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engines.scheduling.policies import make_policy
from engines.scheduling.scheduler import Limits
from engines.serving.generation import GenerationRequest
from engines.simulator.cost_model import CostModel
from engines.simulator.simulate import SimulatedRequest, simulate
from harness.core.clock import MonotonicClock
from harness.core.jsonable import from_json
from harness.core.record import StepRecord
from harness.core.rundir import open_lines

WORK = [(20, 4), (30, 8), (10, 16), (25, 24), (7, 3), (40, 12), (12, 1), (5, 30), (18, 9), (3, 2)]
PLANNED = (
    "index", "slots", "running", "padded", "waiting", "kv_blocks_used", "prefill_sequences",
    "prefill_tokens", "prefill_padding_tokens", "decode_tokens",
)  # fmt: skip


def planned(steps: Any) -> list[tuple[int, ...]]:
    return [tuple(getattr(step, name) for name in PLANNED) for step in steps]


@pytest.mark.parametrize("policy", ["static", "dynamic", "continuous"])
@pytest.mark.parametrize("pad_prompts", [False, True])
@pytest.mark.parametrize("slots", [1, 3, 4])
def test_engine_and_simulator_take_the_same_steps(
    tiny_model: Path, tmp_path: Path, policy: str, pad_prompts: bool, slots: int
) -> None:
    engine_module = pytest.importorskip("engines.inhouse.engine")
    log = tmp_path / "steps.jsonl"
    options = engine_module.EngineOptions(
        slots=slots, policy=policy, window_ns=0 if policy != "continuous" else None,
        pad_prompts=pad_prompts, dtype="float32", threads=1, kv_tokens=2048,
    )  # fmt: skip

    async def answer_all() -> None:
        with open_lines(log) as lines:
            engine = engine_module.build_engine(tiny_model, options, MonotonicClock(), lines)

            async def one(prompt_tokens: int, max_tokens: int) -> int:
                prompt = tuple(range(10, 10 + prompt_tokens))
                request = GenerationRequest(prompt, max_tokens, ignore_eos=True)
                return len([token async for token in engine.generate(request)])

            answers = [asyncio.ensure_future(one(*row)) for row in WORK]
            await asyncio.sleep(0)  # all are in the queue before the first plan
            engine.start()
            assert await asyncio.gather(*answers) == [tokens for _, tokens in WORK]
            await engine.stop()

    asyncio.run(answer_all())
    taken = [from_json(StepRecord, json.loads(line)) for line in log.read_text().splitlines()]
    limits = Limits(slots, kv_blocks=2048 // 16, block_tokens=16, pad_prompts=pad_prompts)
    window_ns = 0 if policy != "continuous" else None
    simulated = simulate(
        [SimulatedRequest("", *row) for row in WORK],
        make_policy(policy, window_ns),
        limits,
        CostModel(1_000_000),
    )

    assert planned(taken) == planned(simulated.steps)
