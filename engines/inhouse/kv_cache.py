"""Keys and values of every token read so far, in blocks that the scheduler hands out.

One tensor per layer, [kv_blocks, block_tokens, 2 * kv_heads, head_dim]: the keys of a token and,
right behind them, its values, so that both are written in one move and gathered in one move. A slot
is a token's place: block * block_tokens + offset. A sequence's slots follow its block list.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch

from engines.inhouse.llama_config import LlamaConfig


@dataclass(frozen=True, slots=True)
class CacheSize:
    """How many tokens the cache has room for."""

    kv_blocks: int
    block_tokens: int


class KvCache:
    """The tensors, written by slot and read by block. Starts as zeros: a NaN would spread.

    Behind the blocks that the scheduler hands out lies `scratch_block`, for rows of no sequence.
    """

    def __init__(
        self, config: LlamaConfig, size: CacheSize, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.block_tokens = size.block_tokens
        self.scratch_block = size.kv_blocks
        shape = (size.kv_blocks + 1, size.block_tokens, 2 * config.kv_heads, config.head_dim)
        self._layers = [
            torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.layers)
        ]
        self._gathered = torch.empty(0, dtype=dtype, device=device)

    def slots(self, blocks: tuple[int, ...], first: int, count: int) -> list[int]:
        """The slots of positions `first` to `first + count` of the sequence that owns `blocks`."""
        size = self.block_tokens
        return [blocks[p // size] * size + p % size for p in range(first, first + count)]

    def write(self, layer: int, slots: torch.Tensor, kv: torch.Tensor) -> None:
        """Store `kv` [tokens, 2 * kv_heads, head_dim] in `slots` [tokens]."""
        self._layers[layer].flatten(0, 1).index_copy_(0, slots, kv)

    def layer(self, layer: int) -> torch.Tensor:
        """All blocks of a layer, [blocks, block_tokens, 2 * kv_heads, head_dim], as they lie."""
        return self._layers[layer]

    def gather(self, layer: int, blocks: torch.Tensor) -> torch.Tensor:
        """The tokens of `blocks` [rows, blocks] as [rows, tokens, 2 * kv_heads, head_dim].

        The memory is used again by the next call: new memory for every layer costs page faults, and
        the same memory stays in the processor's cache.
        """
        stored = self._layers[layer]
        shape = (blocks.numel(), *stored.shape[1:])
        if self._gathered.numel() < prod(shape):
            self._gathered = stored.new_empty(prod(shape))
        gathered = self._gathered[: prod(shape)].view(shape)
        torch.index_select(stored, 0, blocks.flatten(), out=gathered)
        return gathered.view(len(blocks), -1, *stored.shape[2:])


def bytes_per_token(config: LlamaConfig, dtype: torch.dtype) -> int:
    """What the keys and values of one token take, over all layers."""
    return config.layers * 2 * config.kv_heads * config.head_dim * dtype.itemsize
