"""Attention over the paged cache as two Triton kernels, without gathering a block.

Each context is cut into splits of `_SPLIT_TOKENS`. The first kernel has a program for each row, key
head and split: all query heads of that key head attend to the split at once, in one pass with a
running maximum, and leave their output with the logarithm of its weight. The second weighs the
splits of each head. Splits keep a GPU busy with few long sequences; those that lie behind the end
of a context do nothing. Numbers are added up in float32.
"""

from __future__ import annotations

from math import sqrt

import torch
import triton
import triton.language as tl

_SPLIT_TOKENS = 256
_TILE_TOKENS = 64
_PRODUCT_ROWS = 16  # fewer rows than these cannot be multiplied with tl.dot on every GPU


def paged_kernel(
    queries: torch.Tensor, stored: torch.Tensor, table: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """See PagedAttention. The rows of `queries` and of `table` may lie apart, their heads not."""
    rows, heads, dim = queries.shape
    _, block_tokens, both, _ = stored.shape
    kv_heads = both // 2
    splits = triton.cdiv(table.shape[1] * block_tokens, _SPLIT_TOKENS)
    parts = torch.empty(rows, heads, splits, dim, dtype=torch.float32, device=queries.device)
    weights = torch.empty(rows, heads, splits, dtype=torch.float32, device=queries.device)
    columns = triton.next_power_of_2(dim)
    _attend_to_splits[(rows, kv_heads, splits)](
        queries,
        stored,
        table,
        counts,
        parts,
        weights,
        queries.stride(0),
        table.stride(0),
        counts.stride(0),
        1 / sqrt(dim),
        kv_heads=kv_heads,
        group=heads // kv_heads,
        group_rows=max(_PRODUCT_ROWS, triton.next_power_of_2(heads // kv_heads)),
        dim=dim,
        columns=columns,
        block_tokens=block_tokens,
        split_tokens=_SPLIT_TOKENS,
        tile_tokens=_TILE_TOKENS,
    )
    output = torch.empty(rows, heads, dim, dtype=queries.dtype, device=queries.device)
    _weigh_splits[(rows, heads)](
        parts,
        weights,
        counts,
        output,
        splits,
        counts.stride(0),
        heads=heads,
        dim=dim,
        columns=columns,
        most_splits=triton.next_power_of_2(splits),
        split_tokens=_SPLIT_TOKENS,
    )
    return output


@triton.jit  # type: ignore[untyped-decorator]
def _attend_to_splits(  # type: ignore[no-untyped-def]  # noqa: PLR0917 - kernels take no objects
    queries,
    stored,
    table,
    counts,
    parts,
    weights,
    query_stride,
    table_stride,
    count_stride,
    scale,
    kv_heads: tl.constexpr,
    group: tl.constexpr,
    group_rows: tl.constexpr,
    dim: tl.constexpr,
    columns: tl.constexpr,
    block_tokens: tl.constexpr,
    split_tokens: tl.constexpr,
    tile_tokens: tl.constexpr,
):
    row, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    count = tl.load(counts + row * count_stride)
    if split * split_tokens < count:
        member = tl.arange(0, group_rows)
        column = tl.arange(0, columns)
        own = (member < group)[:, None] & (column < dim)[None, :]
        head = kv_head * group + member
        query = tl.load(
            queries + row * query_stride + head[:, None] * dim + column[None, :], own, other=0.0
        )
        highest = tl.full([group_rows], float("-inf"), tl.float32)
        total = tl.zeros([group_rows], tl.float32)
        output = tl.zeros([group_rows, columns], tl.float32)
        # The first tile holds a token at least, so that `highest` is finite from then on.
        for tile in range(split_tokens // tile_tokens):
            position = split * split_tokens + tile * tile_tokens + tl.arange(0, tile_tokens)
            is_stored = position < count
            block = tl.load(
                table + row * table_stride + position // block_tokens, is_stored, other=0
            )
            slot = block.to(tl.int64) * block_tokens + position % block_tokens
            place = stored + (slot * 2 * kv_heads + kv_head)[:, None] * dim + column[None, :]
            there = is_stored[:, None] & (column < dim)[None, :]
            keys = tl.load(place, there, other=0.0)
            values = tl.load(place + kv_heads * dim, there, other=0.0)
            scores = tl.dot(query, tl.trans(keys), input_precision="ieee") * scale
            scores = tl.where(is_stored[None, :], scores, float("-inf"))
            higher = tl.maximum(highest, tl.max(scores, 1))
            shares = tl.exp(scores - higher[:, None])
            kept = tl.exp(highest - higher)
            seen = tl.dot(shares.to(values.dtype), values, input_precision="ieee")
            output = output * kept[:, None] + seen
            total = total * kept + tl.sum(shares, 1)
            highest = higher
        part = (row * kv_heads * group + head) * tl.num_programs(2) + split
        tl.store(parts + part[:, None] * dim + column[None, :], output / total[:, None], own)
        tl.store(weights + part, highest + tl.log(total), member < group)


@triton.jit  # type: ignore[untyped-decorator]
def _weigh_splits(  # type: ignore[no-untyped-def]  # noqa: PLR0917 - kernels take no objects
    parts,
    weights,
    counts,
    output,
    splits,
    count_stride,
    heads: tl.constexpr,
    dim: tl.constexpr,
    columns: tl.constexpr,
    most_splits: tl.constexpr,
    split_tokens: tl.constexpr,
):
    row, head = tl.program_id(0), tl.program_id(1)
    count = tl.load(counts + row * count_stride)
    split = tl.arange(0, most_splits)
    column = tl.arange(0, columns)
    is_used = split * split_tokens < count
    part = (row * heads + head) * splits + split
    weight = tl.load(weights + part, is_used, other=float("-inf"))
    share = tl.exp(weight - tl.max(weight, 0))
    there = is_used[:, None] & (column < dim)[None, :]
    seen = tl.load(parts + part[:, None] * dim + column[None, :], there, other=0.0)
    merged = tl.sum(seen * share[:, None], 0) / tl.sum(share, 0)
    tl.store(output + (row * heads + head) * dim + column, merged, column < dim)
