"""Names for what the full blocks of a prompt hold, so that equal beginnings are found again."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b

# Enough that two prompts never meet by chance, and that nobody can make them meet.
_KEY_BYTES = 16


def prefix_keys(token_ids: Sequence[int], block_tokens: int) -> tuple[bytes, ...]:
    """A key for each full block of `token_ids`, first to last.

    Each is a hash of the key before and the block's own tokens: equal keys mean equal tokens from
    the start of the prompt to the end of that block.
    """
    keys: list[bytes] = []
    key = b""
    for end in range(block_tokens, len(token_ids) + 1, block_tokens):
        block = array("q", token_ids[end - block_tokens : end]).tobytes()
        key = blake2b(key + block, digest_size=_KEY_BYTES).digest()
        keys.append(key)
    return tuple(keys)
