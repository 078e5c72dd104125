"""SmolLM2-135M hosted with Hugging Face `generate`: the tokens are those of each prompt alone.

Needs the model in the cache (`batchmark model fetch smollm2-135m`) and the extra huggingface.
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
from engines.serving.generation import GenerationRequest
from harness.core.clock import MonotonicClock
from harness.core.errors import UsageError

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore"),  # transformers warns about its own plans
]
NEW_TOKENS = 16
LENGTHS = (5, 17, 40, 80, 150, 220)


@pytest.fixture(scope="module")
def path() -> Path:
    try:
        require_library("huggingface-static")
        return resolve_model("smollm2-135m")
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def prompts() -> list[tuple[int, ...]]:
    drawn = random.Random(3)
    return [tuple(drawn.randrange(49_152) for _ in range(length)) for length in LENGTHS]


def test_in_float32_a_padded_batch_gives_each_prompt_the_tokens_that_it_gets_alone(
    path: Path, prompts: list[tuple[int, ...]]
) -> None:
    options = HostedOptions(slots=len(prompts), dtype="float32")

    async def together() -> list[list[int]]:
        engine: Any = build_engine("huggingface-static", path, options, MonotonicClock(), None)
        engine.start()

        async def answer(prompt: tuple[int, ...]) -> list[int]:
            request = GenerationRequest(prompt, NEW_TOKENS, ignore_eos=True)
            return [token.token_id async for token in engine.generate(request)]

        try:
            return await asyncio.gather(*(answer(prompt) for prompt in prompts))
        finally:
            await engine.stop()

    answers = asyncio.run(together())
    model = plain_model(path)

    assert answers == [alone(model, prompt) for prompt in prompts]


def alone(model: Any, prompt: tuple[int, ...]) -> list[int]:
    """What plain `generate` answers to one prompt without padding."""
    import torch

    prompt_ids = torch.tensor([prompt])
    made = model.generate(
        prompt_ids,
        attention_mask=torch.ones_like(prompt_ids),
        max_new_tokens=NEW_TOKENS,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    return [int(token_id) for token_id in made[0, len(prompt) :]]


def plain_model(path: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    return AutoModelForCausalLM.from_pretrained(
        path.parent,
        gguf_file=path.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
