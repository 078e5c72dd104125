"""Every way to attend over block tables, against attention of each sequence alone.

The Triton kernel is run on a GPU where there is one, and else by Triton's interpreter.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.inhouse.paged_attention import GATHERED, PagedAttention, paged_attention

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Triton's interpreter multiplies the bits of bfloat16 as if they were whole numbers.
HALF = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16


@pytest.fixture(scope="module", params=["gathered", "kernel"])
def attention(request: pytest.FixtureRequest) -> Iterator[PagedAttention]:
    """With splits and tiles so small that a short sequence has several of them."""
    if request.param == "gathered":
        yield GATHERED
        return
    if find_spec("triton") is None:
        pytest.skip("triton is not installed")
    if DEVICE.type == "cpu" and "triton" in sys.modules:
        pytest.skip("triton was imported before, and not to be interpreted")
    with pytest.MonkeyPatch.context() as patch:
        if DEVICE.type == "cpu":
            patch.setenv("TRITON_INTERPRET", "1")
        kernel = import_module("engines.inhouse.paged_kernel")
        patch.setattr(kernel, "_SPLIT_TOKENS", 32)
        patch.setattr(kernel, "_TILE_TOKENS", 16)
        yield PagedAttention("kernel", kernel.paged_kernel)


@st.composite
def cases(draw: Any) -> dict[str, Any]:
    return {
        "counts": draw(st.lists(st.integers(1, 100), min_size=1, max_size=3)),
        "block_tokens": draw(st.sampled_from([1, 4, 16])),
        "kv_heads": draw(st.sampled_from([1, 2])),
        "group": draw(st.sampled_from([1, 3, 4])),
        "dim": draw(st.sampled_from([16, 24])),
        "seed": draw(st.integers(0, 2**31)),
    }


@settings(max_examples=15)
@given(cases())
def test_a_batch_of_any_lengths_attends_as_each_sequence_alone(
    attention: PagedAttention, case: dict[str, Any]
) -> None:
    generator = torch.Generator().manual_seed(case["seed"])
    counts, size, kv_heads, dim = (case[n] for n in ("counts", "block_tokens", "kv_heads", "dim"))
    heads = kv_heads * case["group"]
    width = max(-(-count // size) for count in counts) + 2
    blocks = len(counts) * width + 3
    stored = torch.randn(blocks, size, 2 * kv_heads, dim, generator=generator)
    table = torch.randperm(blocks, generator=generator)[: len(counts) * width].int()
    # As the forward pass has them: queries beside keys and values, numbers in one buffer.
    queries = torch.randn(len(counts), heads + 2 * kv_heads, dim, generator=generator)[:, :heads]
    fed = torch.cat((torch.tensor(counts).int()[:, None], table.view(-1, width)), dim=1).to(DEVICE)

    found = attention.attend(queries.to(DEVICE), stored.to(DEVICE), fed[:, 1:], fed[:, 0])

    for row, count in enumerate(counts):
        own = stored[table.view(-1, width)[row].long()].flatten(0, 1)[:count]
        torch.testing.assert_close(found[row].cpu(), alone(queries[row], own))


def alone(query: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
    """One token [heads, dim] over `kv` [tokens, 2 * kv_heads, dim], head by head."""
    kv_heads = kv.shape[1] // 2
    outputs = []
    for head, own in enumerate(query):
        shared = head * kv_heads // len(query)
        weights = torch.softmax(kv[:, shared] @ own / math.sqrt(len(own)), dim=0)
        outputs.append(weights @ kv[:, kv_heads + shared])
    return torch.stack(outputs)


def test_numbers_of_two_bytes_are_attended_to_as_exactly_as_they_are_stored(
    attention: PagedAttention,
) -> None:
    torch.manual_seed(0)
    stored = torch.randn(40, 4, 4, 16, device=DEVICE)
    queries = torch.randn(2, 8, 16, device=DEVICE)
    table = torch.randperm(40, device=DEVICE).int().view(2, 20)
    counts = torch.tensor([77, 5], dtype=torch.int32, device=DEVICE)
    expected = GATHERED.attend(queries, stored, table, counts)

    found = attention.attend(queries.to(HALF), stored.to(HALF), table, counts)

    assert found.dtype is HALF
    assert (found.float() - expected).square().mean() < 1e-4 * expected.square().mean()


def test_a_cpu_gathers_the_blocks() -> None:
    assert paged_attention(torch.device("cpu")) is GATHERED
