from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from engines.inhouse.engine import EngineOptions, build_engine
from engines.models.identity import model_digest
from engines.serving.generation import GeneratedToken, GenerationRequest
from harness.core.clock import MonotonicClock
from harness.core.errors import ModelFileError, UsageError

CONFIG = {
    "model_type": "llama",
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 16,
    "vocab_size": 4,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 96,
    "tie_word_embeddings": True,
}
OPTIONS = EngineOptions(slots=2, dtype="float32", threads=torch.get_num_threads(), version="1.2.3")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model in which every token is followed by the next one: its layers add nothing."""
    layer = "model.layers.0."
    zeros = {"q": (8, 8), "k": (8, 8), "v": (8, 8), "o": (8, 8)}
    tensors = {f"{layer}self_attn.{n}_proj.weight": torch.zeros(s) for n, s in zeros.items()}
    tensors |= {f"{layer}mlp.{n}_proj.weight": torch.zeros(16, 8) for n in ("gate", "up")}
    tensors[f"{layer}mlp.down_proj.weight"] = torch.zeros(8, 16)
    for name in (f"{layer}input_layernorm", f"{layer}post_attention_layernorm", "model.norm"):
        tensors[f"{name}.weight"] = torch.ones(8)
    tensors["model.embed_tokens.weight"] = torch.eye(4, 8)
    tensors["lm_head.weight"] = torch.eye(4, 8).roll(1, dims=0)
    path = tmp_path / "tiny-model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG | {"tie_word_embeddings": False}))
    save_file(tensors, path / "model.safetensors")
    Tokenizer(WordLevel({"a": 0, "b": 1, "c": 2, "d": 3}, "a")).save(str(path / "tokenizer.json"))
    return path


def test_a_model_folder_answers_requests(folder: Path) -> None:
    async def use() -> list[GeneratedToken]:
        engine = build_engine(folder, OPTIONS, MonotonicClock(), None)
        engine.start()
        try:
            request = GenerationRequest((2,), 5, ignore_eos=True)
            return [token async for token in engine.generate(request)]
        finally:
            await engine.stop()

    assert [token.token_id for token in asyncio.run(use())] == [3, 0, 1, 2, 3]


def test_facts_name_the_model_and_every_setting(folder: Path) -> None:
    facts = build_engine(folder, OPTIONS, MonotonicClock(), None).facts()

    assert (facts.version, facts.model, facts.dtype) == ("batchmark 1.2.3", "tiny-model", "float32")
    assert (facts.weights, facts.context_tokens) == ("F32 safetensors", 96)
    assert facts.model_digest == model_digest(folder)
    expected = {
        "policy": "continuous",
        "window_ms": None,
        "slots": 2,
        "kv_tokens": 192,
        "block_tokens": 16,
        "kv": "paged",
        "capacity": "guaranteed_no_evict",
        "step_order": "decode_first",
        "batched_tokens": None,
        "chunked_prefill": False,
        "prefix_cache": False,
        "pad_prompts": True,
        "queue_limit": None,
        "queue_tokens": None,
        "threads": OPTIONS.threads,
        "device": "cpu",
    }
    assert {name: facts.settings.get(name, ...) for name in expected} == expected
    assert str(facts.settings["kernels"]).startswith("torch on cpu")


def test_what_the_scheduler_and_the_queue_are_told_is_among_the_settings(folder: Path) -> None:
    changes = {
        "kv": "paged",
        "capacity": "max_utilization",
        "order": "prefill_first",
        "step_tokens": 24,
        "chunked_prefill": True,
        "prefix_cache": True,
        "block_tokens": 8,
        "queue_limit": 3,
        "queue_tokens": 400,
    }

    settings = (
        build_engine(folder, replace(OPTIONS, **changes), MonotonicClock(), None).facts().settings
    )

    told = {"step_order": "prefill_first", "batched_tokens": 24}
    told |= {name: value for name, value in changes.items() if name not in ("order", "step_tokens")}
    assert {name: settings[name] for name in told} == told


@pytest.mark.parametrize(("slots", "rows"), [(2, 256), (300, 300)])
def test_chunks_have_a_budget_when_none_is_given(folder: Path, slots: int, rows: int) -> None:
    options = replace(OPTIONS, chunked_prefill=True, slots=slots)

    facts = build_engine(folder, options, MonotonicClock(), None).facts()

    assert facts.settings["batched_tokens"] == rows


def test_the_kv_cache_has_room_for_the_tokens_asked_for_in_whole_blocks(folder: Path) -> None:
    options = replace(OPTIONS, kv_tokens=100)

    engine = build_engine(folder, options, MonotonicClock(), None)

    assert engine.facts().settings["kv_tokens"] == 96
    assert engine.gauges()["kv_blocks_total"] == 6


def test_the_default_kv_cache_stays_within_a_gibibyte(folder: Path) -> None:
    config = CONFIG | {"max_position_embeddings": 10**9, "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))

    engine = build_engine(folder, OPTIONS, MonotonicClock(), None)

    assert engine.facts().settings["kv_tokens"] == 2**30 // (1 * 2 * 2 * 4 * 4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtype": "int4"}, "unknown dtype 'int4'; choose from bfloat16, float32"),
        ({"device": "tpu"}, "unknown device 'tpu'; choose cpu or cuda"),
        ({"policy": "psychic"}, "unknown policy 'psychic'"),
        ({"slots": 0}, "slots is 0"),
        ({"threads": -1}, "threads is -1"),
        ({"kv_tokens": 15}, "KV cache of 15 tokens in blocks of 16 is too small"),
        ({"block_tokens": 0}, "in blocks of 0 is too small"),
        ({"kv": "heap"}, "unknown --kv 'heap'; choose from paged, reserved"),
        ({"capacity": "all"}, "unknown --capacity 'all'"),
        ({"order": "random"}, "unknown --step-order 'random'"),
        ({"step_tokens": 1}, "--batched-tokens is 1, and 2 slots"),
        (
            {"kv": "reserved", "prefix_cache": True},
            "--prefix-cache shares blocks, which --kv 'reserved'",
        ),
        (
            {"kv": "reserved", "capacity": "max_utilization"},
            "--capacity 'max_utilization' means nothing",
        ),
        ({"queue_limit": 0}, "queue_limit is 0"),
        ({"queue_tokens": 0}, "queue_tokens is 0"),
        (
            {"policy": "static", "queue_limit": 1},
            "--queue-limit is 1, and a static batch of 2 forms in",
        ),
    ],
)
def test_a_wrong_option_is_named(folder: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        build_engine(folder, replace(OPTIONS, **changes), MonotonicClock(), None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_cuda_device_is_said_at_once(folder: Path) -> None:
    with pytest.raises(UsageError, match="torch finds no CUDA device; use cpu"):
        build_engine(folder, replace(OPTIONS, device="cuda"), MonotonicClock(), None)


def test_a_model_without_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()

    with pytest.raises(ModelFileError, match="has no tokenizer.json"):
        build_engine(folder, OPTIONS, MonotonicClock(), None)
