"""Marks of an answer: enough to tell where two answers part, without keeping either.

The marks of a sequence are one character for each of POSITIONS that it reaches, six bits of a
running checksum of all up to there, and behind them eight characters that are a digest of the
whole. Two sequences are the same when their marks are. Otherwise the first marks that are unlike
bound from above the position at which the two first differ; the marks before them bound it from
below, but for one pair in 64, whose unlike tokens meet in one mark by chance.

POSITIONS are every one up to 8, then a quarter further each time: 21 marks for 128 tokens, 33 for
2,048. They are a part of the run folder's format.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from zlib import crc32

DIGEST_CHARS = 8
_DIGEST_BYTES = 6
_UNIT_BYTES = 4
_LONGEST = 2**31
_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def _positions() -> Iterator[int]:
    position = 1
    while position < _LONGEST:
        yield position
        position += max(1, position // 4)


# The positions that have marks, counted from 1.
POSITIONS = tuple(_positions())
# The bytes that each mark adds to those before it.
_PIECES = tuple(
    slice(start * _UNIT_BYTES, end * _UNIT_BYTES) for start, end in pairwise((0, *POSITIONS))
)


def marks_of_ids(token_ids: Sequence[int]) -> str:
    """The marks of an answer's token ids; a position is a token. Ids count modulo 2**32."""
    units = [token_id & 0xFFFF_FFFF for token_id in token_ids]
    return _marks(struct.pack(f"<{len(units)}I", *units))


def marks_of_text(text: str) -> str:
    """The marks of an answer's text; a position is a character, which is a Unicode code point."""
    return _marks(text.encode("utf-32-le", "surrogatepass"))


def _marks(units: bytes) -> str:
    checksum, marks = 0, bytearray()
    for piece in _PIECES[: bisect_right(POSITIONS, len(units) // _UNIT_BYTES)]:
        checksum = crc32(units[piece], checksum)
        marks.append(_CHARACTERS[checksum & 63])
    digest = blake2b(units, digest_size=_DIGEST_BYTES).digest()
    return (marks + urlsafe_b64encode(digest)).decode()
