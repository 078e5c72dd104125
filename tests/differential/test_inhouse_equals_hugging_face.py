"""SmolLM2-135M in float32: our greedy tokens are Hugging Face's, alone and in any batch, however
their prompts are read and whatever happens to their memory.

Needs the model in the cache (`batchmark model fetch smollm2-135m`) and transformers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engines.inhouse.attention import prefill_attention
from engines.inhouse.kv_cache import CacheSize, KvCache
from engines.inhouse.llama_config import LlamaConfig
from engines.inhouse.model import LlamaModel
from engines.inhouse.native_forward import NativeOptions, load_native
from engines.inhouse.native_rows import rows_of_prompts
from engines.inhouse.prefix_keys import prefix_keys
from engines.inhouse.runner import Runner
from engines.inhouse.torch_forward import TorchForward
from engines.inhouse.weights import Weights, load_weights
from engines.models.model_store import resolve_model
from engines.models.tokenizer import Codec, load_codec
from engines.scheduling.limits import Limits
from engines.scheduling.policies import make_policy
from engines.scheduling.scheduler import Scheduler
from engines.scheduling.sequence import Sequence
from engines.scheduling.step import Prefill, StepPlan
from harness.core.clock import MonotonicClock
from harness.core.errors import ModelFileError

NEW_TOKENS = 6
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

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # transformers warns about its own plans
    pytest.mark.timeout(900),  # 4000 tokens of prompts, several times, on one core
]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other are many times as slow where other tests use the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
    """Twenty prompts of 1 to 1500 tokens, each beginning elsewhere in the text."""
    token_ids = codec.encode(TEXT * 8)
    lengths = (1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 48, 65, 100, 150, 220, 330, 500, 800, 1500)
    assert len(token_ids) > 10 * len(lengths) + lengths[-1]
    return [token_ids[10 * i : 10 * i + length] for i, length in enumerate(lengths)]


@dataclass(frozen=True)
class Ours:
    """Our model, and how it answers the prompts, sent `times` times, under a policy."""

    model: LlamaModel
    prompts: list[tuple[int, ...]]

    def answers(
        self, policy: str, limits: Limits, lengths: tuple[int, ...], times: int = 1
    ) -> tuple[list[list[int]], list[StepPlan]]:
        """An answer of each of `lengths`, and the plans that led to them."""
        size = CacheSize(limits.kv_blocks, limits.block_tokens)
        cache = KvCache(self.model.config, size, torch.float32, torch.device("cpu"))
        runner = Runner(TorchForward(self.model, cache), MonotonicClock())
        scheduler = Scheduler(make_policy(policy), limits)
        scheduler.is_draining = True
        prompts = self.prompts * times
        made: list[list[int]] = [[] for _ in prompts]
        for index, (prompt, length) in enumerate(zip(prompts, lengths * times, strict=True)):
            keys = prefix_keys(prompt, limits.block_tokens) if limits.prefix_cache else ()
            runner.add(index, prompt, ignore_eos=True)
            scheduler.add(Sequence(index, len(prompt), length, 0, block_keys=keys))
        plans = []
        while (plan := scheduler.plan(0)) is not None:
            plans.append(plan)
            output = runner.execute(plan)
            scheduler.commit(plan, output.result)
            for index, token_id in output.token_ids.items():
                made[index].append(token_id)
        return made, plans


@pytest.fixture(scope="module")
def ours(model_path: Path, prompts: list[tuple[int, ...]]) -> Ours:
    return Ours(LlamaModel(*load_weights(model_path, torch.float32)), prompts)


@pytest.fixture(scope="module")
def alone(ours: Ours) -> list[list[int]]:
    answers, _ = ours.answers("continuous", Limits(1, 256), (NEW_TOKENS,) * 20)
    return answers


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


def plain_tokens(config: LlamaConfig, weights: Weights, token_ids: list[int]) -> list[int]:
    """The likeliest token after each of `token_ids`: full attention, written as in the papers."""
    count, dim, group = len(token_ids), config.head_dim, config.heads // config.kv_heads
    steps = torch.arange(0, dim, 2, dtype=torch.float64) / dim
    angles = torch.arange(count)[:, None] / config.rope_theta**steps
    turn = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)

    def norm(rows: torch.Tensor, name: str) -> torch.Tensor:
        scale = rows.pow(2).mean(-1, keepdim=True).add(config.norm_eps).rsqrt()
        return rows * scale * weights[name]

    def heads(rows: torch.Tensor, name: str) -> torch.Tensor:
        return (rows @ weights[name].T).view(count, -1, dim).transpose(0, 1)

    def turned(rows: torch.Tensor) -> torch.Tensor:
        first, second = rows.chunk(2, dim=-1)
        both = torch.complex(first, second) * turn
        return torch.cat((both.real, both.imag), dim=-1)

    future = torch.full((count, count), float("-inf")).triu(1)
    hidden = weights["embedding"][token_ids]
    for i in range(config.layers):
        rows = norm(hidden, f"{i}.attention_norm")
        queries, keys = turned(heads(rows, f"{i}.query")), turned(heads(rows, f"{i}.key"))
        keys = keys.repeat_interleave(group, 0)
        values = heads(rows, f"{i}.value").repeat_interleave(group, 0)
        shares = (queries @ keys.transpose(1, 2) / dim**0.5 + future).softmax(-1)
        attended = (shares @ values).transpose(0, 1).reshape(count, -1)
        hidden = hidden + attended @ weights[f"{i}.attention_out"].T
        rows = norm(hidden, f"{i}.mlp_norm")
        gate = rows @ weights[f"{i}.gate"].T
        middle = gate * gate.sigmoid() * (rows @ weights[f"{i}.up"].T)
        hidden = hidden + middle @ weights[f"{i}.down"].T
    return (norm(hidden, "output_norm") @ weights["output"].T).argmax(-1).tolist()


@pytest.mark.slow
def test_each_token_is_that_of_a_plain_loop_of_full_attention(
    model_path: Path, prompts: list[tuple[int, ...]], alone: list[list[int]]
) -> None:
    config, weights = load_weights(model_path, torch.float32)
    for prompt, answer in zip(prompts, alone, strict=True):
        with torch.inference_mode():
            tokens = plain_tokens(config, weights, [*prompt, *answer[:-1]])
        assert tokens[len(prompt) - 1 :] == answer, len(prompt)


@pytest.mark.parametrize(
    ("policy", "limits"),
    [
        pytest.param("static", Limits(4, 512), marks=pytest.mark.slow),
        pytest.param("dynamic", Limits(4, 512, pad_prompts=True), marks=pytest.mark.slow),
        pytest.param("continuous", Limits(20, 512, kv="reserved"), marks=pytest.mark.slow),
        pytest.param(
            "continuous",
            Limits(6, 512, step_tokens=100, chunked_prefill=True),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "continuous",
            Limits(6, 512, step_tokens=64, chunked_prefill=True, order="prefill_first"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_answer_is_the_same_in_a_batch_and_in_chunks_as_alone(
    ours: Ours, alone: list[list[int]], policy: str, limits: Limits
) -> None:
    lengths = (4, 6, 6, 5) * 5  # so that slots get free at different steps
    expected = [answer[:length] for answer, length in zip(alone, lengths, strict=True)]

    answers, _ = ours.answers(policy, limits, lengths)

    assert answers == expected


@pytest.mark.parametrize(
    ("indices", "kv_blocks"),
    [
        (tuple(range(17)), 84),
        pytest.param((17, 18), 326, marks=pytest.mark.slow),
        pytest.param((17, 19), 501, marks=pytest.mark.slow),
    ],
)
def test_an_answer_is_the_same_after_a_preemption(
    ours: Ours, alone: list[list[int]], indices: tuple[int, ...], kv_blocks: int
) -> None:
    # In blocks of 4 tokens these prompts fit together, and their answers do not.
    limits = Limits(
        16, kv_blocks, 4, capacity="max_utilization", step_tokens=2048, chunked_prefill=True
    )
    some = replace(ours, prompts=[ours.prompts[i] for i in indices])

    answers, plans = some.answers("continuous", limits, (NEW_TOKENS,) * len(indices))

    assert sum(len(plan.preempted) for plan in plans) > 0
    assert answers == [alone[i] for i in indices]


@pytest.mark.slow
def test_an_answer_is_the_same_when_its_prompt_is_found_in_the_cache(
    ours: Ours, alone: list[list[int]]
) -> None:
    limits = Limits(8, 1024, prefix_cache=True)

    answers, plans = ours.answers("continuous", limits, (NEW_TOKENS,) * 20, times=2)

    assert sum(plan.prefix_hit_tokens for plan in plans) > 3000
    assert answers == alone * 2


def test_logits_in_bfloat16_are_near_those_in_float32(
    model_path: Path, prompts: list[tuple[int, ...]], ours: Ours
) -> None:
    config, weights = load_weights(model_path, torch.bfloat16)
    native = load_native(config, weights, CacheSize(128, 16), NativeOptions(threads=2))
    if isinstance(native, str):
        pytest.skip(native)
    for prompt in prompts[::3]:
        count = len(prompt)
        prefill = Prefill(0, 0, count, 0, tuple(range(-(-count // 16))))
        rows = replace(
            rows_of_prompts([prefill], [prompt], 16), wanted=np.arange(count, dtype="i4")
        )
        _, logits = native.compute(rows, with_logits=True)
        cache = KvCache(config, CacheSize(128, 16), torch.float32, torch.device("cpu"))
        attend = prefill_attention(cache, [prefill], torch.device("cpu"))
        at = torch.arange(count)
        exact = ours.model.logits(torch.tensor(prompt), at, attend, at).numpy()
        assert logits is not None
        # As far as torch is with the same weights in bfloat16: 0.01 to 0.034.
        assert np.sqrt(((logits - exact) ** 2).mean() / (exact**2).mean()) < 0.034


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
