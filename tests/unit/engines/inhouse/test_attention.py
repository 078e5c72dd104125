from __future__ import annotations

import math
from itertools import accumulate

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engines.inhouse import attention as module
from engines.inhouse.attention import decode_attention, prefill_attention
from engines.inhouse.kv_cache import CacheSize, KvCache
from engines.inhouse.llama_config import LlamaConfig
from engines.scheduling.step import Decode, Prefill

HEADS, KV_HEADS, DIM, BLOCK = 4, 2, 8, 4
CONFIG = LlamaConfig("llama", 1, 32, HEADS, KV_HEADS, DIM, 8, 16, 1e4, 1e-5, 64, True, (), None)
CPU = torch.device("cpu")


def plain_attention(query: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
    """One token [heads, dim] over `kv` [tokens, 2 * kv_heads, dim], head by head."""
    outputs = []
    for head in range(HEADS):
        shared = head // (HEADS // KV_HEADS)
        keys, values = kv[:, shared], kv[:, KV_HEADS + shared]
        weights = torch.softmax(keys @ query[head] / math.sqrt(DIM), dim=0)
        outputs.append(weights @ values)
    return torch.stack(outputs)


def filled_cache() -> KvCache:
    """A cache in which nothing is zero, as after many other sequences."""
    cache = KvCache(CONFIG, CacheSize(64, BLOCK), torch.float32, CPU)
    cache.write(0, torch.arange(64 * BLOCK), torch.randn(64 * BLOCK, 2 * KV_HEADS, DIM))
    return cache


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_batch_of_any_lengths_attends_as_each_sequence_alone(lengths: list[int], random) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    cache = filled_cache()
    free = list(range(64))
    random.shuffle(free)
    decodes, expected, queries, newest = [], [], [], []
    for number, length in enumerate(sorted(lengths, reverse=True)):
        blocks = tuple(free.pop() for _ in range(-(-length // BLOCK)))
        kv, query = torch.randn(length, 2 * KV_HEADS, DIM), torch.randn(HEADS, DIM)
        cache.write(0, torch.tensor(cache.slots(blocks, 0, length)), kv)
        decodes.append(Decode(number, length - 1, blocks))
        queries.append(query)
        newest.append(kv[-1])
        expected.append(plain_attention(query, kv))

    attend = decode_attention(cache, decodes, torch.float32, CPU)
    output = attend(0, torch.stack(queries), torch.stack(newest))

    torch.testing.assert_close(output, torch.stack(expected))


def test_sequences_of_like_length_are_gathered_together_and_long_ones_apart() -> None:
    positions = (59, 31, 29, 28, 3, 0)

    assert group_sizes(positions) == [3, 1, 1, 1]


def test_no_more_is_gathered_at_once_than_stays_in_the_cache_of_a_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_GATHERED_TOKENS", 100)

    assert group_sizes((29, 28, 27, 26, 25)) == [3, 2]
    assert group_sizes((59, 58, 57, 56)) == [2, 2]


def group_sizes(positions: tuple[int, ...]) -> list[int]:
    blocks = tuple(range(16))
    decodes = [Decode(i, position, blocks) for i, position in enumerate(positions)]
    groups = decode_attention(filled_cache(), decodes, torch.float32, CPU).groups
    assert [g.first for g in groups] == [*accumulate([0, *(len(g.blocks) for g in groups[:-1])])]
    return [len(group.blocks) for group in groups]


@pytest.mark.parametrize("paddings", [(0, 0, 0), (5, 0, 3)])
def test_prompts_attend_only_to_their_own_past_whatever_their_padding(
    paddings: tuple[int, ...],
) -> None:
    torch.manual_seed(0)
    cache = filled_cache()
    before = cache.gather(0, torch.arange(64)[None]).clone()
    tokens = (3, 8, 5)
    owned = ((7,), (1, 2), (9, 4))
    prefills = [
        Prefill(i, 0, count, padding, blocks)
        for i, (count, padding, blocks) in enumerate(zip(tokens, paddings, owned, strict=True))
    ]
    rows = sum(tokens) + sum(paddings)
    queries, kv = torch.randn(rows, HEADS, DIM), torch.randn(rows, 2 * KV_HEADS, DIM)

    output = prefill_attention(cache, prefills, CPU)(0, queries, kv)

    first = 0
    for prefill in prefills:
        own = kv[first : first + prefill.tokens]
        stored = cache.gather(0, torch.tensor([prefill.blocks]))[0]
        assert torch.equal(stored[: prefill.tokens], own)
        assert torch.equal(stored[prefill.tokens :], untouched(before, prefill))
        for row in range(prefill.tokens):
            expected = plain_attention(queries[first + row], own[: row + 1])
            torch.testing.assert_close(output[first + row], expected)
        first += prefill.tokens + prefill.padding_tokens


def untouched(before: torch.Tensor, prefill: Prefill) -> torch.Tensor:
    slots = [block * BLOCK + offset for block in prefill.blocks for offset in range(BLOCK)]
    return before[0, slots[prefill.tokens :]]
