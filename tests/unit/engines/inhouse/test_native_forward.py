"""The forward pass in C against the one in torch, on small random models of every supported shape.

It is built three times: for this processor, for it without bfloat16 instructions, and for none in
particular, so that whatever tests run on, every way to multiply is tested that it has.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.inhouse import native_forward
from engines.inhouse.attention import prefill_attention
from engines.inhouse.forward import NumberBytes
from engines.inhouse.kv_cache import CacheSize, KvCache
from engines.inhouse.llama_config import LlamaConfig
from engines.inhouse.model import LlamaModel
from engines.inhouse.native_forward import (
    NativeForward,
    NativeOptions,
    Quantization,
    load_native,
)
from engines.inhouse.native_rows import rows_of_decodes, rows_of_prompts
from engines.inhouse.weights import Weights
from engines.scheduling.step import Decode, Prefill
from harness.core.compiled import NUMERIC

PLAIN = tuple(flag for flag in NUMERIC if not flag.startswith("-march"))
BUILDS = {
    "native": NUMERIC,
    "no bfloat16": (*NUMERIC, "-mno-avx512bf16", "-mno-amx-bf16", "-mno-amx-tile"),
    "any processor": (*PLAIN, "-Wno-psabi"),
}
if platform.machine() != "x86_64":
    del BUILDS["no bfloat16"]
CONFIG = LlamaConfig(
    architecture="llama",
    layers=2,
    hidden=96,
    heads=6,
    kv_heads=2,
    head_dim=32,
    intermediate=160,
    vocabulary=336,
    rope_theta=10_000.0,
    norm_eps=1e-5,
    context=1024,
    tied_embeddings=False,
    eos_ids=(),
    bos_id=None,
)
CONFIGS = {
    "llama": CONFIG,
    "qwen2": replace(CONFIG, qkv_bias=True, heads=8, kv_heads=1, head_dim=64),
    "qwen3": replace(CONFIG, qk_norm=True, heads=3, kv_heads=3, hidden=64),
}
SIZE = CacheSize(kv_blocks=128, block_tokens=16)
ROUNDING = 0.03  # relative; a row that sees one token too many is off by more than ten times that


def random_weights(config: LlamaConfig) -> Weights:
    """Weights that bfloat16 can hold, so that only the arithmetic differs."""
    generator = torch.Generator().manual_seed(3)
    hidden, queries = config.hidden, config.heads * config.head_dim
    keys, middle = config.kv_heads * config.head_dim, config.intermediate

    def matrix(*shape: int) -> torch.Tensor:
        return (torch.randn(shape, generator=generator) * 0.15).bfloat16().float()

    def norm(size: int) -> torch.Tensor:
        return (1 + 0.1 * torch.randn(size, generator=generator)).bfloat16().float()

    weights = {
        "embedding": matrix(config.vocabulary, hidden),
        "output": matrix(config.vocabulary, hidden),
        "output_norm": norm(hidden),
    }
    for i in range(config.layers):
        own = {
            "attention_norm": norm(hidden),
            "query": matrix(queries, hidden),
            "key": matrix(keys, hidden),
            "value": matrix(keys, hidden),
            "attention_out": matrix(hidden, queries),
            "mlp_norm": norm(hidden),
            "gate": matrix(middle, hidden),
            "up": matrix(middle, hidden),
            "down": matrix(hidden, middle),
        }
        if config.qkv_bias:
            own |= {"query_bias": matrix(queries), "key_bias": matrix(keys)}
            own |= {"value_bias": matrix(keys)}
        if config.qk_norm:
            own |= {"query_norm": norm(config.head_dim), "key_norm": norm(config.head_dim)}
        weights |= {f"{i}.{name}": values for name, values in own.items()}
    return weights


@dataclass(frozen=True)
class Pair:
    """The same model twice."""

    native: NativeForward
    exact: LlamaModel

    def native_logits(self, prefills: list[Prefill], prompts: list[list[int]]) -> Any:
        """Logits of every row that is no padding."""
        rows = rows_of_prompts(prefills, prompts, SIZE.block_tokens)
        wanted = np.flatnonzero(rows.slots >= 0).astype(np.int32)
        _, logits = self.native.compute(replace(rows, wanted=wanted), with_logits=True)
        return logits

    def exact_logits(self, prompt: list[int]) -> Any:
        """In float32, the whole prompt at once."""
        count = len(prompt)
        cache = KvCache(self.exact.config, SIZE, torch.float32, torch.device("cpu"))
        whole = Prefill(0, 0, count, 0, tuple(range(-(-count // 16))))
        attend = prefill_attention(cache, [whole], torch.device("cpu"))
        at = torch.arange(count)
        return self.exact.logits(torch.tensor(prompt), at, attend, at).numpy()


def native_model(config: LlamaConfig, size: CacheSize = SIZE, threads: int = 2) -> NativeForward:
    native = load_native(config, random_weights(config), size, NativeOptions(threads))
    if isinstance(native, str):
        pytest.skip(native)
    return native


@pytest.fixture(scope="module", params=BUILDS)
def build(request: pytest.FixtureRequest) -> Any:
    """Every model of a test is built like this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_forward, "NUMERIC", BUILDS[request.param])
        yield request.param


@pytest.fixture(scope="module", params=CONFIGS)
def pair(request: pytest.FixtureRequest, build: str) -> Pair:
    config = CONFIGS[request.param]
    return Pair(native_model(config), LlamaModel(config, random_weights(config)))


def prompt_of(count: int, seed: int = 1) -> list[int]:
    return np.random.default_rng(seed).integers(0, CONFIG.vocabulary, count).tolist()


def scattered(count: int, seed: int = 5) -> tuple[int, ...]:
    """Blocks for `count` tokens, in no order."""
    order = np.random.default_rng(seed).permutation(SIZE.kv_blocks)
    return tuple(order[: -(-count // SIZE.block_tokens)].tolist())


def relative_error(found: Any, expected: Any) -> float:
    return float(np.sqrt(((found - expected) ** 2).mean() / (expected**2).mean()))


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 33, 130, 700])
def test_logits_are_those_of_float32_within_the_rounding_of_bfloat16(
    pair: Pair, count: int
) -> None:
    prompt = prompt_of(count)

    found = pair.native_logits([Prefill(1, 0, count, 0, scattered(count))], [prompt])

    assert relative_error(found, pair.exact_logits(prompt)) < ROUNDING


def test_prompts_that_are_read_together_do_not_mix(pair: Pair) -> None:
    lengths = (5, 1, 40, 16, 3, 90)
    prompts = [prompt_of(count, seed) for seed, count in enumerate(lengths)]
    blocks = np.random.default_rng(9).permutation(SIZE.kv_blocks).tolist()
    cuts = list(pairwise(np.cumsum([0, *(-(-count // 16) for count in lengths)])))
    prefills = [
        Prefill(i, 0, count, padding, tuple(blocks[a:b]))
        for i, (count, padding, (a, b)) in enumerate(
            zip(lengths, (85, 0, 7, 0, 1, 0), cuts, strict=True)
        )
    ]

    found = pair.native_logits(prefills, prompts)

    expected = np.concatenate([pair.exact_logits(prompt) for prompt in prompts])
    assert relative_error(found, expected) < ROUNDING


def test_a_prompt_in_chunks_and_then_token_by_token_gives_the_logits_of_the_whole(
    pair: Pair,
) -> None:
    prompt, blocks = prompt_of(120), scattered(120)
    found = [
        pair.native_logits([Prefill(1, first, last - first, 0, blocks)], [prompt[first:last]])
        for first, last in ((0, 1), (1, 50), (50, 64), (64, 100))
    ]
    for position in range(100, 120):
        rows = rows_of_decodes([Decode(1, position, blocks)], [prompt[position]], 16)
        _, logits = pair.native.compute(rows, with_logits=True)
        found.append(logits)

    assert relative_error(np.concatenate(found), pair.exact_logits(prompt)) < ROUNDING


def test_sequences_that_decode_together_do_not_mix(pair: Pair) -> None:
    lengths = (1, 18, 64, 200, 33, 5, 6, 7, 90, 16)
    prompts = [prompt_of(count, seed) for seed, count in enumerate(lengths)]
    blocks = np.random.default_rng(4).permutation(SIZE.kv_blocks).tolist()
    tables = [tuple(blocks.pop() for _ in range(-(-count // 16))) for count in lengths]
    for prompt, table in zip(prompts, tables, strict=True):
        if len(prompt) > 1:
            pair.native.read([Prefill(1, 0, len(prompt) - 1, 0, table)], [prompt[:-1]])

    decodes = [
        Decode(i, len(p) - 1, t) for i, (p, t) in enumerate(zip(prompts, tables, strict=True))
    ]
    rows = rows_of_decodes(decodes, [prompt[-1] for prompt in prompts], 16)
    chosen, logits = pair.native.compute(rows, with_logits=True)

    expected = np.stack([pair.exact_logits(prompt)[-1] for prompt in prompts])
    assert relative_error(logits, expected) < ROUNDING
    assert logits is not None
    assert chosen == logits.argmax(-1).tolist()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    lengths=st.lists(st.integers(1, 70), min_size=1, max_size=6),
    threads=st.integers(1, 3),
)
def test_the_number_of_threads_changes_no_bit(lengths: list[int], threads: int) -> None:
    alone, several = native_model(CONFIG, threads=1), native_model(CONFIG, threads=threads)
    prompts = [prompt_of(count, seed) for seed, count in enumerate(lengths)]
    prefills = []
    first = 0
    for i, count in enumerate(lengths):
        last = first + -(-count // 16)
        prefills.append(Prefill(i, 0, count, 0, tuple(range(first, last))))
        first = last
    rows = rows_of_prompts(prefills, prompts, 16)

    _, one = alone.compute(rows, with_logits=True)
    _, more = several.compute(rows, with_logits=True)

    np.testing.assert_array_equal(one, more)


def test_blocks_of_64_tokens_give_what_blocks_of_16_give() -> None:
    small, large = native_model(CONFIG), native_model(CONFIG, CacheSize(32, 64))
    prompt = prompt_of(100)
    of_small = rows_of_prompts([Prefill(1, 0, 100, 0, (4, 5, 6, 7, 12, 13, 14))], [prompt], 16)
    of_large = rows_of_prompts([Prefill(1, 0, 100, 0, (1, 3))], [prompt], 64)

    np.testing.assert_array_equal(of_small.slots, of_large.slots)
    assert small.compute(of_small)[0] == large.compute(of_large)[0]


def test_a_chunk_that_is_not_the_last_names_no_token() -> None:
    native = native_model(CONFIG)
    chunk, last = Prefill(1, 0, 20, 0, (0, 1), is_last=False), Prefill(2, 0, 3, 0, (2,))

    assert native.read([chunk], [prompt_of(20)]) == []
    assert len(native.read([chunk, last], [prompt_of(20), prompt_of(3)])) == 1


def test_of_equal_logits_the_first_token_is_chosen() -> None:
    weights = random_weights(CONFIG)
    weights["output"] = torch.zeros_like(weights["output"])
    native = load_native(CONFIG, weights, SIZE, NativeOptions(threads=2))
    if isinstance(native, str):
        pytest.skip(native)

    assert native.read([Prefill(1, 0, 3, 0, (0,))], [[1, 2, 3]]) == [0]


def test_int8_weights_are_off_by_the_error_that_they_report(build: str) -> None:
    del build  # in every build
    weights = random_weights(CONFIG)
    native = load_native(CONFIG, weights, SIZE, NativeOptions(2, "int8"))
    if isinstance(native, str):
        pytest.skip(native)
    prompt = prompt_of(50)
    pair = Pair(native, LlamaModel(CONFIG, weights))
    error = relative_error(
        pair.native_logits([Prefill(1, 0, 50, 0, scattered(50))], [prompt]),
        pair.exact_logits(prompt),
    )

    assert native.weight_error is not None
    assert 0.001 < native.weight_error < 0.02  # a step is 1/127 of the largest weight of a row
    assert error < ROUNDING + 5 * native.weight_error  # each of 15 matrices adds its own
    assert native.number_bytes == NumberBytes(weight=1, kv=2)


def test_int8_weights_are_exact_where_they_can_be() -> None:
    whole = torch.tensor([[127.0, -64.0, 0.0], [2.0, 0.0, -254.0]])
    quantization = Quantization()

    values, scales = quantization.quantize(whole)

    assert values.tolist() == [[127, -64, 0], [1, 0, -127]]
    assert scales.tolist() == [1.0, 2.0]
    assert quantization.error == 0.0


@pytest.mark.parametrize(
    ("config", "size", "said"),
    [
        (replace(CONFIG, hidden=100), SIZE, "hidden size 100 is no multiple of 32"),
        (replace(CONFIG, head_dim=16), SIZE, "head_dim 16 is no multiple of 32"),
        (replace(CONFIG, vocabulary=333), SIZE, "vocabulary 333 is no multiple of 16"),
        (CONFIG, CacheSize(64, 8), "block_tokens 8 is no multiple of 16"),
    ],
)
def test_a_model_that_does_not_fill_panels_is_left_to_torch(
    config: LlamaConfig, size: CacheSize, said: str
) -> None:
    assert load_native(config, {}, size, NativeOptions(threads=1)) == said


def test_without_a_compiler_torch_is_used_and_the_reason_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BATCHMARK_COMPILE", "0")

    assert (
        load_native(CONFIG, {}, SIZE, NativeOptions(threads=1))
        == "no C compiler, or BATCHMARK_COMPILE=0"
    )


def test_the_c_files_are_beside_the_module() -> None:
    folder = Path(native_forward.__file__).parent / "native"

    assert {path.name for path in folder.iterdir()} >= {"forward.c", "product.h", "attention.h"}
    assert os.access(folder / "forward.c", os.R_OK)
