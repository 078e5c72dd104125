"""SmolLM2-135M hosted with OpenVINO GenAI: exact counts, and the same tokens every time.

Needs the model in the cache (`batchmark model fetch smollm2-135m`) and the extra openvino.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from engines.hosted.build import build_engine
from engines.hosted.libraries import require_library
from engines.hosted.options import HostedOptions
from engines.models.model_store import resolve_model
from engines.serving.generation import GeneratedToken, GenerationRequest
from harness.core.clock import MonotonicClock
from harness.core.errors import UsageError

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]
LENGTHS = ((5, 20), (17, 9), (40, 33), (80, 1), (150, 12), (220, 25))


@pytest.fixture(scope="module")
def path() -> Path:
    try:
        require_library("openvino")
        return resolve_model("smollm2-135m")
    except UsageError as error:
        pytest.skip(str(error))


def answers(path: Path, dtype: str) -> tuple[list[list[GeneratedToken]], Any]:
    """What a fresh process answers to six random prompts at once, four of them in slots."""
    drawn = random.Random(3)
    requests = [
        GenerationRequest(tuple(drawn.randrange(49_152) for _ in range(length)), most, True)
        for length, most in LENGTHS
    ]
    options = HostedOptions(slots=4, dtype=dtype)

    async def ask() -> tuple[list[list[GeneratedToken]], Any]:
        engine: Any = build_engine("openvino", path, options, MonotonicClock(), None)
        engine.start()

        async def answer(request: GenerationRequest) -> list[GeneratedToken]:
            return [token async for token in engine.generate(request)]

        try:
            return await asyncio.gather(*(answer(request) for request in requests)), engine.facts()
        finally:
            await engine.stop()

    return asyncio.run(ask())


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_every_run_gives_the_same_tokens_and_as_many_as_were_asked_for(
    path: Path, dtype: str
) -> None:
    first, facts = answers(path, dtype)
    second, _ = answers(path, dtype)

    assert [len(tokens) for tokens in first] == [most for _, most in LENGTHS]
    assert {tokens[-1].finish_reason for tokens in first} == {"length"}
    assert first == second
    assert facts.weights == "Q4_1 GGUF, packed anew"
    assert facts.settings["kv_dtype"] in {"bf16", "f32"}
