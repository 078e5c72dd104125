"""Answers of two runs, request by request: where each pair parts, as far as their marks tell."""

from __future__ import annotations

import numpy as np

from harness.analyzer.columns import Ints, RecordColumns
from harness.analyzer.strings import Strings
from harness.core.marks import DIGEST_CHARS, POSITIONS


def pairs_with(field: str, a: RecordColumns, b: RecordColumns) -> tuple[Ints, Ints]:
    """The places in `a` and in `b` of the requests of one index that have `field` on both sides."""
    has_a, has_b = (np.flatnonzero(columns.marks[field].lengths) for columns in (a, b))
    indices = a.numbers["index"][has_a], b.numbers["index"][has_b]
    _, of_a, of_b = np.intersect1d(indices[0], indices[1], return_indices=True)
    return has_a[of_a], has_b[of_b]


def first_differences(a: Strings, b: Strings) -> Ints:
    """For each pair of marks the position at or before which the answers first differ.

    0 where they are the same.
    """
    alike = _alike_at_start(a, b)
    is_same = (alike == a.lengths) & (alike == b.lengths)
    most = np.minimum(a.lengths, b.lengths) - DIGEST_CHARS
    # Marks that no answer is long enough for are those of an edited file.
    marks = np.clip(np.minimum(alike, most), 0, len(POSITIONS) - 1)
    return np.where(is_same, 0, np.array(POSITIONS)[marks])


def _alike_at_start(a: Strings, b: Strings) -> Ints:
    """How many characters each pair has in common at its start."""
    shorter = np.minimum(a.lengths, b.lengths)
    alike = np.zeros(len(a), dtype=np.int64)
    pairs = np.flatnonzero(shorter)
    place = 0
    while len(pairs):
        is_alike = a.characters[a.starts[pairs] + place] == b.characters[b.starts[pairs] + place]
        place += 1
        pairs = pairs[is_alike]
        alike[pairs] = place
        pairs = pairs[shorter[pairs] > place]
    return alike
