"""The in-house engine plans the very steps that the simulator plans, under every setting."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engines.scheduling.limits import Limits
from engines.scheduling.policies import make_policy
from engines.serving.generation import GenerationRequest
from engines.simulator.cost_model import CostModel
from engines.simulator.simulate import SimulatedRequest, Simulation, simulate
from harness.core.clock import MonotonicClock
from harness.core.jsonable import from_json
from harness.core.record import StepRecord
from harness.core.rundir import open_lines

WORK = [(20, 4), (30, 8), (10, 16), (25, 24), (7, 3), (40, 12), (12, 1), (5, 30), (18, 9), (3, 2)]
BLOCK_TOKENS = 4
# What a step log says, apart from when and for how long, and from the work of the model.
PLANNED = (
    "index", "slots", "running", "padded", "waiting", "kv_blocks_used", "kv_blocks_total",
    "prefill_sequences", "prefill_tokens", "prefill_padding_tokens", "decode_tokens",
    "prefill_context_tokens", "decode_context_tokens", "kv_tokens_stored", "kv_tokens_unfilled",
    "kv_tokens_over_reserved", "kv_blocks_stranded", "preempted", "prefix_hit_tokens",
)  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "whole prompts": {},
    "padded prompts": {"pad_prompts": True},
    "reserved": {"kv": "reserved"},
    "prefill first": {"order": "prefill_first"},
    "a budget for whole prompts": {"step_tokens": 32},
    "chunks": {"step_tokens": 16, "chunked_prefill": True},
    "chunks, prefill first": {
        "step_tokens": 16, "chunked_prefill": True, "order": "prefill_first"
    },
    "padded prompts in chunks": {"step_tokens": 16, "chunked_prefill": True, "pad_prompts": True},
    "preemption": {"capacity": "max_utilization"},
    "preemption, chunks": {
        "capacity": "max_utilization", "step_tokens": 16, "chunked_prefill": True
    },
    "preemption, prefill first": {"capacity": "max_utilization", "order": "prefill_first"},
    "prefix cache": {"prefix_cache": True},
    "all at once": {
        "capacity": "max_utilization", "step_tokens": 16, "chunked_prefill": True,
        "order": "prefill_first", "prefix_cache": True,
    },
}  # fmt: skip


def planned(steps: Any) -> list[tuple[int, ...]]:
    return [tuple(getattr(step, name) for name in PLANNED) for step in steps]


def simulated(limits: Limits, policy: str, window_ns: int | None) -> Simulation:
    """All prompts begin alike, so the n-th block of each has the same key."""
    requests = [
        SimulatedRequest(
            "", prompt, answer, block_keys=tuple(bytes([n]) for n in range(prompt // BLOCK_TOKENS))
        )
        for prompt, answer in WORK
    ]
    return simulate(requests, make_policy(policy, window_ns), limits, CostModel(1_000_000))


def taken(model: Path, log: Path, **options: Any) -> list[StepRecord]:
    """The steps of an engine that finds all of WORK in its queue when it starts."""
    engine_module = pytest.importorskip("engines.inhouse.engine")
    settings = engine_module.EngineOptions(**options, dtype="float32", threads=1)

    async def one(engine: Any, prompt_tokens: int, max_tokens: int) -> int:
        prompt = tuple(range(10, 10 + prompt_tokens))
        request = GenerationRequest(prompt, max_tokens, ignore_eos=True)
        return len([token async for token in engine.generate(request)])

    async def answer_all() -> None:
        with open_lines(log) as lines:
            engine = engine_module.build_engine(model, settings, MonotonicClock(), lines)
            answers = [asyncio.ensure_future(one(engine, *row)) for row in WORK]
            await asyncio.sleep(0)  # all are in the queue before the first plan
            engine.start()
            assert await asyncio.gather(*answers) == [tokens for _, tokens in WORK]
            await engine.stop()
            await asyncio.sleep(0)  # the last step is written once its tokens are handed over

    asyncio.run(answer_all())
    return [from_json(StepRecord, json.loads(line)) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("policy", ["static", "dynamic", "continuous"])
@pytest.mark.parametrize(
    ("setting", "slots"), [("whole prompts", 1), *((setting, 4) for setting in SETTINGS)]
)
def test_engine_and_simulator_take_the_same_steps(
    tiny_model: Path, tmp_path: Path, policy: str, setting: str, slots: int
) -> None:
    changes = {"pad_prompts": False, **SETTINGS[setting]}
    limits = Limits(slots, kv_blocks=20, block_tokens=BLOCK_TOKENS, **changes)
    window_ns = None if policy == "continuous" else 0
    steps = taken(
        tiny_model, tmp_path / "steps.jsonl", slots=slots, policy=policy, window_ns=window_ns,
        kv_tokens=limits.most_tokens, block_tokens=BLOCK_TOKENS, **changes,
    )  # fmt: skip

    assert planned(steps) == planned(simulated(limits, policy, window_ns).steps)


@pytest.mark.parametrize(
    ("setting", "figure"),
    [
        ("padded prompts", "prefill_padding_tokens"),
        ("reserved", "kv_tokens_over_reserved"),
        ("reserved", "kv_blocks_stranded"),
        ("preemption", "preempted"),
        ("preemption, chunks", "preempted"),
        ("preemption, prefill first", "preempted"),
        ("all at once", "preempted"),
        ("all at once", "prefix_hit_tokens"),
        ("prefix cache", "prefix_hit_tokens"),
    ],
)
def test_the_work_is_such_that_each_setting_shows(setting: str, figure: str) -> None:
    limits = Limits(4, kv_blocks=20, block_tokens=BLOCK_TOKENS, **SETTINGS[setting])
    policy, window_ns = ("static", 0) if "padded" in setting else ("continuous", None)

    assert sum(getattr(step, figure) for step in simulated(limits, policy, window_ns).steps) > 0
