"""What the forward pass in C is told of a step: which token stands where, and what it sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from engines.inhouse.forward import TokenIds
from engines.scheduling.step import Decode, Prefill

PANEL = 16  # tokens in one block of its cache; columns of a packed matrix that stand side by side
Ints = np.ndarray[tuple[int, ...], np.dtype[np.int32]]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a pass, in int32 arrays of one number a row.

    A row is a token and its position, how many tokens it attends to, where its keys and values go
    (-1: nowhere), and whose table it uses. `tables` are the cache blocks of 16 tokens of each
    sequence, one table after the other from `table_starts` on. `wanted` are the rows whose next
    token is asked for.
    """

    token_ids: Ints
    positions: Ints
    sees: Ints
    slots: Ints
    sequences: Ints
    tables: Ints
    table_starts: Ints
    wanted: Ints


def rows_of_prompts(
    prefills: Sequence[Prefill], token_ids: Sequence[TokenIds], block_tokens: int
) -> Rows:
    """The rows of chunks of prompts, with their padding; wanted are the last of last chunks."""
    counts = [p.tokens + p.padding_tokens for p in prefills]
    starts = [0, *accumulate(counts)]
    tables = [_small_blocks(p.blocks, block_tokens) for p in prefills]
    ids, positions, sees, slots = [], [], [], []
    for prefill, own, table, count in zip(prefills, token_ids, tables, counts, strict=True):
        at = np.arange(prefill.first, prefill.first + count, dtype=np.int32)
        end = prefill.first + prefill.tokens
        # Padding stands where the prompt's last token does and is not stored: it costs its time.
        real = np.minimum(at, end - 1)
        place = table[real // PANEL] * PANEL + real % PANEL
        ids.append(np.array([*own, *[0] * prefill.padding_tokens], dtype=np.int32))
        positions.append(real)
        sees.append(real + 1)
        slots.append(np.where(at < end, place, -1))
    last = [starts[i] + p.tokens - 1 for i, p in enumerate(prefills) if p.is_last]
    return Rows(
        token_ids=np.concatenate(ids),
        positions=_int32(np.concatenate(positions)),
        sees=_int32(np.concatenate(sees)),
        slots=_int32(np.concatenate(slots)),
        sequences=_int32(np.repeat(np.arange(len(prefills)), counts)),
        tables=_int32(np.concatenate(tables)),
        table_starts=_starts(tables),
        wanted=_int32(np.array(last, dtype=np.int32)),
    )


def rows_of_decodes(decodes: Sequence[Decode], token_ids: TokenIds, block_tokens: int) -> Rows:
    """One row for each of `decodes`, all wanted."""
    tables = [_small_blocks(d.blocks, block_tokens) for d in decodes]
    positions = np.array([d.position for d in decodes], dtype=np.int32)
    places = [
        table[d.position // PANEL] * PANEL + d.position % PANEL
        for d, table in zip(decodes, tables, strict=True)
    ]
    rows = np.arange(len(decodes), dtype=np.int32)
    return Rows(
        token_ids=np.array(token_ids, dtype=np.int32),
        positions=positions,
        sees=_int32(positions + 1),
        slots=_int32(np.array(places)),
        sequences=rows,
        tables=_int32(np.concatenate(tables)),
        table_starts=_starts(tables),
        wanted=rows,
    )


def _small_blocks(blocks: tuple[int, ...], block_tokens: int) -> Ints:
    """The blocks of 16 tokens that `blocks` of `block_tokens` are made of."""
    each = block_tokens // PANEL
    whole = np.array(blocks, dtype=np.int32)
    if each == 1:
        return whole
    return _int32((whole[:, None] * each + np.arange(each, dtype=np.int32)).ravel())


def _starts(tables: Sequence[Ints]) -> Ints:
    lengths = np.array([0, *(len(table) for table in tables[:-1])], dtype=np.int32)
    return _int32(np.cumsum(lengths))


def _int32(values: np.ndarray[tuple[int, ...], np.dtype[Any]]) -> Ints:
    return np.ascontiguousarray(values, dtype=np.int32)
