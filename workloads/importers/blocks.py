"""The blocks of a prompt by their hashes, by which traces tell which prompts begin alike."""

from __future__ import annotations

from workloads.importers.row import Row
from workloads.shape import PrefixBlocks


def prefix_blocks(row: Row, key: str, prompt_tokens: int, block_tokens: int) -> PrefixBlocks | None:
    """The hashes in field `key` as blocks of `block_tokens`; None where the row has none.

    Raises TraceError unless there is one for each block of `prompt_tokens`, begun ones included.
    """
    if not row.has(key):
        return None
    ids = row.ids(key)
    expected = -(-prompt_tokens // block_tokens)
    if len(ids) != expected:
        row.refuse(
            key,
            f"{expected} hashes, not {len(ids)}: one for each {block_tokens} of the "
            f"{prompt_tokens} tokens",
        )
    return PrefixBlocks(ids, block_tokens)
