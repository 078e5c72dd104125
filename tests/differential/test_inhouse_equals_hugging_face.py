"""SmolLM2-135M in float32: our greedy tokens are Hugging Face's, alone and in any batch.

Needs the model in the cache (`batchmark model fetch smollm2-135m`) and transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from engines.inhouse.kv_cache import CacheSize, KvCache
from engines.inhouse.model import LlamaModel
from engines.inhouse.runner import Runner
from engines.inhouse.weights import load_weights
from engines.models.model_store import resolve_model
from engines.models.tokenizer import Codec, load_codec
from engines.scheduling.policies import make_policy
from engines.scheduling.scheduler import Limits, Scheduler
from engines.scheduling.sequence import Sequence
from harness.core.clock import MonotonicClock
from harness.core.errors import ModelFileError

NEW_TOKENS = 10
TEXT = """A queue forms wherever work arrives faster than it is done. At a bakery the first customer
waits for nobody; the tenth waits for nine. Adding a second till halves the line only while both
tills are busy. Numbers: 12 loaves, 3.50 each, makes 42.00. 一二三, naïve café, 🥖.

def served(customers, tills):
    return [c for i, c in enumerate(customers) if i % tills == 0]

The baker could also serve in batches: wait until eight people stand in line, then serve all eight
together and let nobody else in before the last of them has paid. That keeps the oven full, but a
child who wants one roll waits for the man who orders cakes for a wedding. If instead each place at
the counter is given to the next person as soon as it is free, the child is gone in a minute, and
the oven is as full as before. This small change is the whole idea.\n"""
TEXTS = [
    "",
    "Hello, world!",
    "   leading and trailing   ",
    "Year 2024 costs 3.14159, x=1234567890",
    "日本語のテキスト、漢字。 한국어 عربى",
    "emoji 😀👩‍👩‍👧‍👦 🇩🇪 fin",
    "line\nline\n\n\ttab\r\nend",
    "don't we'll I'd CAN'T",
    "def f(x):\n    return x + 1\n",
    "½ cup",
    "<|im_start|>user\nhi<|im_end|>",
    TEXT,
]

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers warns about its own plans


@pytest.fixture(scope="module")
def model_path() -> Path:
    pytest.importorskip("transformers", reason="transformers is not installed")
    try:
        return resolve_model("smollm2-135m")
    except ModelFileError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def codec(model_path: Path) -> Codec:
    return load_codec(model_path)


@pytest.fixture(scope="module")
def prompts(codec: Codec) -> list[tuple[int, ...]]:
    """Ten prompts of 1 to 300 tokens, each beginning elsewhere in the text."""
    token_ids = codec.encode(TEXT * 3)
    lengths = (1, 2, 5, 16, 17, 40, 80, 150, 220, 300)
    return [token_ids[10 * i : 10 * i + length] for i, length in enumerate(lengths)]


@dataclass(frozen=True)
class Ours:
    """Our model, and how it answers the ten prompts under a policy."""

    model: LlamaModel
    prompts: list[tuple[int, ...]]

    def answers(
        self, policy: str, slots: int, *, pads: bool = False, lengths: tuple[int, ...]
    ) -> list[list[int]]:
        """An answer of each of `lengths`."""
        cache_size = CacheSize(kv_blocks=256, block_tokens=16)
        cache = KvCache(self.model.config, cache_size, torch.float32, torch.device("cpu"))
        runner = Runner(self.model, cache, MonotonicClock())
        scheduler = Scheduler(make_policy(policy), Limits(slots, 256, 16, pad_prompts=pads))
        scheduler.is_draining = True
        made: list[list[int]] = [[] for _ in self.prompts]
        for index, prompt in enumerate(self.prompts):
            runner.add(index, prompt, ignore_eos=True)
            scheduler.add(Sequence(index, len(prompt), lengths[index], 0))
        while (plan := scheduler.plan(0)) is not None:
            output = runner.execute(plan)
            scheduler.commit(plan, output.result)
            for index, token_id in output.token_ids.items():
                made[index].append(token_id)
        return made


@pytest.fixture(scope="module")
def ours(model_path: Path, prompts: list[tuple[int, ...]]) -> Ours:
    return Ours(LlamaModel(*load_weights(model_path, torch.float32)), prompts)


@pytest.fixture(scope="module")
def alone(ours: Ours) -> list[list[int]]:
    return ours.answers("continuous", slots=1, lengths=(NEW_TOKENS,) * 10)


def test_each_token_is_the_one_that_hugging_face_finds_most_likely(
    model_path: Path, prompts: list[tuple[int, ...]], alone: list[list[int]]
) -> None:
    from transformers import AutoModelForCausalLM

    theirs: Any = AutoModelForCausalLM.from_pretrained(
        model_path.parent, gguf_file=model_path.name, dtype=torch.float32
    )
    for prompt, answer in zip(prompts, alone, strict=True):
        with torch.inference_mode():
            logits = theirs(torch.tensor([[*prompt, *answer[:-1]]])).logits[0]
        assert logits[len(prompt) - 1 :].argmax(-1).tolist() == answer, len(prompt)


@pytest.mark.parametrize(
    ("policy", "slots", "pads"),
    [
        ("static", 4, False),
        ("static", 4, True),
        ("dynamic", 3, False),
        ("dynamic", 3, True),
        ("continuous", 4, False),
        ("continuous", 10, True),
    ],
)
def test_an_answer_is_the_same_in_a_batch_as_alone(
    ours: Ours, alone: list[list[int]], policy: str, slots: int, pads: bool
) -> None:
    lengths = (7, 10, 10) * 3 + (7,)  # so that slots get free at different steps
    expected = [answer[:length] for answer, length in zip(alone, lengths, strict=True)]

    assert ours.answers(policy, slots, pads=pads, lengths=lengths) == expected


@pytest.fixture(scope="module")
def their_tokenizer(model_path: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model_path.parent, gguf_file=model_path.name)


@pytest.mark.parametrize("text", TEXTS)
def test_text_becomes_the_tokens_that_hugging_face_makes_of_it(
    codec: Codec, their_tokenizer: Any, text: str
) -> None:
    token_ids = codec.encode(text)

    assert list(token_ids) == their_tokenizer.encode(text, add_special_tokens=False)
    assert codec.decode(token_ids) == their_tokenizer.decode(token_ids, skip_special_tokens=True)


def test_spaces_before_a_digit_stay_together(codec: Codec) -> None:
    # SmolLM2 cuts digits off before words are split. transformers forgets that when it reads GGUF.
    first, second, third = codec.encode("a  2")

    assert (codec.decode((first,)), codec.decode((second,)), codec.decode((third,))) == (
        "a",
        "  ",
        "2",
    )


@pytest.mark.parametrize(
    "turns",
    [
        [("user", "Hi, 12 rolls please")],
        [("system", "Be terse."), ("user", "Hi")],
        [("user", "a"), ("assistant", "b"), ("user", "c")],
    ],
)
def test_a_conversation_becomes_the_tokens_that_hugging_face_makes_of_it(
    codec: Codec, their_tokenizer: Any, turns: list[tuple[str, str]]
) -> None:
    messages = [{"role": role, "content": words} for role, words in turns]
    text = their_tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)

    assert list(codec.encode_chat(turns)) == their_tokenizer.encode(text, add_special_tokens=False)
