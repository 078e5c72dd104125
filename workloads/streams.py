"""Random numbers that can be had in any order: number n of a stream, without those before it.

A stream is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
OOPSLA 2014): output n is a hash of the key plus n + 1 steps. It is whole-number arithmetic alone,
so it is the same on every machine, in every version, and for any number of processes.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONE, _HALF = np.uint64(1), np.uint64(32)


def stream_key(seed: int, purpose: str) -> int:
    """The key of the stream that `seed` has for `purpose`: 64 bits."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{purpose}".encode()).digest()[:8], "little")


def outputs(keys: Words, numbers: Words) -> Words:
    """Output `numbers` of the streams of `keys`, element by element: 64 random bits each."""
    bits = keys + (numbers + _ONE) * _STEP
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    mixed: Words = bits ^ (bits >> np.uint64(31))
    return mixed


def below(bits: Words, span: int) -> Words:
    """`bits` as whole numbers from 0 to span - 1, for a `span` up to 2^32."""
    scaled: Words = ((bits >> _HALF) * np.uint64(span)) >> _HALF
    return scaled


def uniforms(key: int, start: int, count: int) -> list[float]:
    """Numbers `start` to `start + count - 1` of the stream, between 0 and 1 and never either."""
    numbers = np.arange(start, start + count, dtype=np.uint64)
    bits = outputs(np.full(count, key, dtype=np.uint64), numbers) >> np.uint64(12)
    return [(word + 0.5) * 2.0**-52 for word in bits.tolist()]


def stratified(key: int, count: int) -> list[float]:
    """A number in each of `count` equal parts of 0 to 1, in random order.

    Lengths drawn at these have nearly the mean and the spread of their distribution, also when
    there are few of them.
    """
    numbers = np.arange(count, dtype=np.uint64)
    order = np.argsort(outputs(np.full(count, key, dtype=np.uint64), numbers), kind="stable")
    inside = uniforms(key, count, count)
    shares = ((part + u) / count for part, u in zip(order.tolist(), inside, strict=True))
    return [min(share, 1 - 2.0**-53) for share in shares]


def runs(keys: Words, ids: Words, lengths: NDArray[np.int64], span: int) -> NDArray[np.int64]:
    """A run of `lengths[i]` random numbers below `span` for each `ids[i]`, one after another.

    A shorter run of one key and id is the beginning of a longer one. The first numbers spell out
    the id, so runs of one key and different ids differ within the first 64 / log2(span) numbers,
    and `span` ids in a row in the very first: by construction, not by luck.
    """
    starts = np.cumsum(lengths) - lengths
    places = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(starts, lengths)
    of_ids = outputs(keys, ids)
    numbers = below(outputs(np.repeat(of_ids, lengths), places.astype(np.uint64)), span)
    _spell(numbers, keys, ids, (starts, lengths), span)
    return numbers.astype(np.int64)


def _spell(
    numbers: Words,
    keys: Words,
    ids: Words,
    where: tuple[NDArray[np.int64], NDArray[np.int64]],
    span: int,
) -> None:
    """Write each id's digits in base `span` over the beginning of its run, lowest first.

    A digit is scattered by a factor and shifted by a number that depends on the digits before it:
    one digit for another, given those before, so nothing that the digits tell is lost.
    """
    starts, lengths = where
    base, factor = np.uint64(span), np.uint64(_scattering(span))
    rest, shifts = ids.copy(), keys
    for place in range(_digits(span)):
        shifts = outputs(shifts, np.full(len(ids), place, dtype=np.uint64))
        digits = rest % base
        rest //= base
        has_place = lengths > place
        written = (digits * factor + below(shifts, span)) % base
        numbers[starts[has_place] + place] = written[has_place]
        shifts = shifts ^ written


def _digits(span: int) -> int:
    """How many digits in base `span` all ids of 64 bits take."""
    return 1 if span < 2 else math.ceil(64 / math.log2(span))


def _scattering(span: int) -> int:
    """A factor by which neighbouring digits come far apart, and no two fall together."""
    factor = max(1, round(span * 0.618))
    while math.gcd(factor, span) != 1:
        factor += 1
    return factor
