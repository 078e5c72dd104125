"""A model small enough to run in a unit test, with random weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from engines.inhouse.kv_cache import CacheSize, KvCache
from engines.inhouse.llama_config import LlamaConfig
from engines.inhouse.model import LlamaModel
from engines.inhouse.runner import Runner
from harness.core.clock import MonotonicClock

CONFIG = LlamaConfig(
    architecture="llama",
    layers=2,
    hidden=64,
    heads=4,
    kv_heads=2,
    head_dim=16,
    intermediate=96,
    vocabulary=128,
    rope_theta=10_000.0,
    norm_eps=1e-5,
    context=256,
    tied_embeddings=True,
    eos_ids=(),
    bos_id=None,
)


@dataclass(frozen=True)
class Tiny:
    """Makes runners of one model; `eos_ids` are the tokens that end an answer."""

    config: LlamaConfig = CONFIG

    def model(self, eos_ids: tuple[int, ...] = ()) -> LlamaModel:
        """The same random model at every call, apart from its end tokens."""
        config = replace(self.config, eos_ids=eos_ids)
        generator = torch.Generator().manual_seed(1)

        def matrix(rows: int, columns: int) -> torch.Tensor:
            return torch.randn(rows, columns, generator=generator) * 0.2

        keys, middle = config.kv_heads * config.head_dim, config.intermediate
        weights = {"embedding": matrix(config.vocabulary, config.hidden)}
        weights["output"] = weights["embedding"]
        weights["output_norm"] = torch.ones(config.hidden)
        for i in range(config.layers):
            weights[f"{i}.query"] = matrix(config.hidden, config.hidden)
            weights[f"{i}.key"] = matrix(keys, config.hidden)
            weights[f"{i}.value"] = matrix(keys, config.hidden)
            weights[f"{i}.attention_out"] = matrix(config.hidden, config.hidden)
            weights[f"{i}.gate"] = matrix(middle, config.hidden)
            weights[f"{i}.up"] = matrix(middle, config.hidden)
            weights[f"{i}.down"] = matrix(config.hidden, middle)
            weights[f"{i}.attention_norm"] = torch.ones(config.hidden)
            weights[f"{i}.mlp_norm"] = torch.ones(config.hidden)
        return LlamaModel(config, weights)

    def cache(self, kv_blocks: int = 32, block_tokens: int = 4) -> KvCache:
        """An empty cache."""
        size = CacheSize(kv_blocks, block_tokens)
        return KvCache(self.config, size, torch.float32, torch.device("cpu"))

    def runner(self, eos_ids: tuple[int, ...] = (), kv_blocks: int = 32) -> Runner:
        """A runner with blocks of 4 tokens."""
        return Runner(self.model(eos_ids), self.cache(kv_blocks), MonotonicClock())


@pytest.fixture
def tiny() -> Tiny:
    return Tiny()
