from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from engines.inhouse.kv_cache import CacheSize, KvCache, bytes_per_token
from engines.inhouse.llama_config import LlamaConfig

CONFIG = LlamaConfig("llama", 2, 8, 2, 1, 4, 8, 16, 1e4, 1e-5, 64, True, (), None)


def test_a_slot_follows_the_block_list() -> None:
    cache = KvCache(CONFIG, CacheSize(8, 4), torch.float32, torch.device("cpu"))

    assert cache.slots((5, 2), 2, 4) == [22, 23, 8, 9]


@st.composite
def sequences(draw: Any) -> list[tuple[tuple[int, ...], int]]:
    """Block lists that share no block, and how many tokens of each are written."""
    blocks = draw(st.permutations(range(12)))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    owned = []
    for size in sizes:
        mine, blocks = tuple(blocks[:size]), blocks[size:]
        owned.append((mine, draw(st.integers(1, size * 3))))
    return owned


@given(sequences())
def test_what_is_gathered_is_what_was_written(owned: list[tuple[tuple[int, ...], int]]) -> None:
    cache = KvCache(CONFIG, CacheSize(12, 3), torch.float32, torch.device("cpu"))
    written = []
    for number, (blocks, tokens) in enumerate(owned, start=1):
        kv = torch.arange(tokens * 8.0).view(tokens, 2, 4) + 1000 * number
        cache.write(1, torch.tensor(cache.slots(blocks, 0, tokens)), kv)
        written.append(kv)

    for (blocks, tokens), kv in zip(owned, written, strict=True):
        gathered = cache.gather(1, torch.tensor([blocks]))
        assert torch.equal(gathered[0, :tokens], kv)
        assert not cache.gather(0, torch.tensor([blocks])).any()


def test_a_token_of_smollm2_135m_takes_23_kb() -> None:
    config = replace(CONFIG, layers=30, kv_heads=3, head_dim=64)

    assert bytes_per_token(config, torch.bfloat16) == 23_040
