"""Decoding with fixed shapes: whatever the batch, a step is one of a few that are known before.

A batch is put into the smallest bucket of rows and block numbers that holds it. Rows left over are
padding: they feed token 0 at position 0 to the cache's scratch block, which no sequence owns. What
a step reads lies in one buffer, a row for each sequence (token id, position, block numbers), which
is filled on the host and copied in one move; what comes back is one token id for each row. So a
step of a bucket can be captured once, on a GPU as a CUDA graph, and done again for every batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch

from engines.inhouse.capture import Capture, Step
from engines.inhouse.forward import TokenIds
from engines.inhouse.kv_cache import KvCache
from engines.inhouse.model import LlamaModel
from engines.inhouse.paged_attention import PagedAttention, PagedDecode
from engines.scheduling.step import Decode

# Rows are rounded up to powers of two; block numbers more coarsely, because a wider table costs
# the kernel next to nothing, and each width costs a capture for every number of rows.
_ROWS_GROWTH = 2
_FIRST_BLOCKS, _BLOCKS_GROWTH = 32, 4
_TOKEN, _POSITION, _BLOCKS = 0, 1, 2  # the columns of the buffer; blocks are the rest


@dataclass(frozen=True, slots=True)
class Bucket:
    """A step for up to `rows` sequences, each of up to `blocks` blocks."""

    rows: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Means:
    """How the attention of a step is computed, and how a step is done again."""

    attention: PagedAttention
    capture: Capture


def buckets_of(most: Bucket) -> tuple[Bucket, ...]:
    """All buckets up to `most`, which is the last of them: by blocks, then by rows."""
    widths = _sizes(_FIRST_BLOCKS, _BLOCKS_GROWTH, most.blocks)
    return tuple(Bucket(r, b) for b in widths for r in _sizes(1, _ROWS_GROWTH, most.rows))


class BucketedDecode:
    """A Decoder for up to `most` sequences and blocks. Captures every bucket when it is made.

    Nothing in the cache changes by that but the scratch block.
    """

    def __init__(self, model: LlamaModel, cache: KvCache, most: Bucket, means: Means) -> None:
        self._model = model
        self._cache = cache
        self._means = means
        numbers = most.rows * (_BLOCKS + most.blocks)
        on_gpu = model.device.type == "cuda"
        self._staged = torch.zeros(numbers, dtype=torch.int32, pin_memory=on_gpu)
        self._fed = torch.zeros(numbers, dtype=torch.int32, device=model.device)
        self._chosen = torch.zeros(most.rows, dtype=torch.int64, device=model.device)
        self._buckets = buckets_of(most)
        self._staged_bucket = most
        self._staged_blocks: list[tuple[int, ...]] = []
        # The largest first: what it needed is used again by the others.
        self._steps = {bucket: self._captured(bucket) for bucket in reversed(self._buckets)}

    @property
    def name(self) -> str:
        """See Decoder."""
        return f"{self._means.attention.name}, {self._means.capture.name}"

    def __call__(self, decodes: Sequence[Decode], token_ids: TokenIds) -> list[int]:
        """See Decoder. Raises ValueError when no bucket holds `decodes`."""
        bucket = self._bucket_of(decodes)
        self._feed(bucket, decodes, token_ids)
        self._steps[bucket]()
        chosen: list[int] = self._chosen[: len(decodes)].tolist()  # waits until the step is done
        return chosen

    def _bucket_of(self, decodes: Sequence[Decode]) -> Bucket:
        rows, blocks = len(decodes), max(len(d.blocks) for d in decodes)
        for bucket in self._buckets:
            if rows <= bucket.rows and blocks <= bucket.blocks:
                return bucket
        most = self._buckets[-1]
        msg = f"{rows} sequences of up to {blocks} blocks; there is room for {most}"
        raise ValueError(msg)

    def _captured(self, bucket: Bucket) -> Step:
        self._feed(bucket, (), ())
        return self._means.capture(partial(self._step, bucket))

    def _feed(self, bucket: Bucket, decodes: Sequence[Decode], token_ids: TokenIds) -> None:
        """Fill the rows of `bucket`, and copy them to the device.

        A list of blocks that is still the one in its row is not written again; from one step to the
        next most are.
        """
        staged = _rows_of(self._staged, bucket)
        if bucket != self._staged_bucket or not self._staged_blocks:
            self._staged_bucket, self._staged_blocks = bucket, [()] * bucket.rows
            staged[:, _BLOCKS:] = self._cache.scratch_block
        rows, count = staged.numpy(), len(decodes)
        rows[:count, _TOKEN] = token_ids
        rows[:count, _POSITION] = [decode.position for decode in decodes]
        rows[count:, :_BLOCKS] = 0
        owned = [decode.blocks for decode in decodes] + [()] * (bucket.rows - count)
        for row, (blocks, before) in enumerate(zip(owned, self._staged_blocks, strict=True)):
            if blocks is not before:
                rows[row, _BLOCKS : _BLOCKS + len(blocks)] = blocks
                rows[row, _BLOCKS + len(blocks) :] = self._cache.scratch_block
        self._staged_blocks = owned
        _rows_of(self._fed, bucket).copy_(staged, non_blocking=True)

    @torch.inference_mode()
    def _step(self, bucket: Bucket) -> None:
        """Feed the tokens of the buffer, and choose the likeliest next one of each row."""
        rows, size = _rows_of(self._fed, bucket), self._cache.block_tokens
        positions, table = rows[:, _POSITION], rows[:, _BLOCKS:]
        own = table.gather(1, (positions // size).long()[:, None])[:, 0]
        attend = PagedDecode(
            self._cache,
            self._means.attention,
            slots=(own * size + positions % size).long(),
            table=table,
            counts=positions + 1,
        )
        logits = self._model.logits(rows[:, _TOKEN], positions, attend, None)
        self._chosen[: bucket.rows] = logits.argmax(dim=-1)


def _rows_of(numbers: torch.Tensor, bucket: Bucket) -> torch.Tensor:
    """The rows of a bucket: the first of `numbers`, so that they lie together."""
    width = _BLOCKS + bucket.blocks
    return numbers[: bucket.rows * width].view(bucket.rows, width)


def _sizes(first: int, growth: int, most: int) -> list[int]:
    """`first` and its multiples below `most`, and `most`."""
    sizes = []
    while first < most:
        sizes.append(first)
        first *= growth
    return [*sizes, most]
