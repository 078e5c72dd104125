"""Attention of one new token per sequence over the paged cache, in one call for all sequences.

Shapes depend on the number of rows and on the width of the block table, never on how long a
sequence is, so that a step can be captured once and done again. On a GPU with Triton a kernel reads
the blocks where they lie; elsewhere torch operators gather them first, each row as wide as the
table, in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from torch.nn.functional import scaled_dot_product_attention

from engines.inhouse.kv_cache import KvCache


@dataclass(frozen=True, slots=True)
class PagedAttention:
    """A way to compute it, and its name for the engine's facts.

    `attend(queries, stored, table, counts)` takes queries [rows, heads, head_dim]; a layer of the
    cache [blocks, block_tokens, 2 * kv_heads, head_dim]; the block numbers [rows, most blocks] of
    each row's sequence, where numbers behind its last block are of any block; and how many tokens
    [rows] it has, one at least. It returns [rows, heads, head_dim].
    """

    name: str
    attend: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class PagedDecode:
    """An Attend for one step: row i is stored in `slots[i]`, and sees `counts[i]` tokens."""

    cache: KvCache
    attention: PagedAttention
    slots: torch.Tensor
    table: torch.Tensor
    counts: torch.Tensor

    def __call__(self, layer: int, queries: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """See Attend."""
        self.cache.write(layer, self.slots, kv)
        return self.attention.attend(queries, self.cache.layer(layer), self.table, self.counts)


def gathered_attention(
    queries: torch.Tensor, stored: torch.Tensor, table: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """The blocks of all rows gathered in one call, and attended to in another."""
    rows = len(table)
    gathered = stored.index_select(0, table.flatten()).view(rows, -1, *stored.shape[2:])
    keys, values = gathered.transpose(1, 2).chunk(2, dim=1)
    # The query heads that share a key head become that head's query rows: no key is copied.
    shared = queries.reshape(rows, keys.shape[1], -1, queries.shape[-1])
    sees = torch.arange(gathered.shape[1], device=table.device) < counts[:, None]
    output = scaled_dot_product_attention(shared, keys, values, attn_mask=sees[:, None, None, :])
    return output.flatten(1, 2)


GATHERED = PagedAttention("gathered attention", gathered_attention)


def paged_attention(device: torch.device) -> PagedAttention:
    """The kernel on a GPU where Triton is installed, and what every torch can do elsewhere."""
    if device.type != "cuda" or find_spec("triton") is None:
        return GATHERED
    from engines.inhouse.paged_kernel import paged_kernel  # noqa: PLC0415 - needs Triton

    return PagedAttention("Triton attention", paged_kernel)
