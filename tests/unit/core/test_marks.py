from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.marks import DIGEST_CHARS, POSITIONS, marks_of_ids, marks_of_text


def parted(a: str, b: str) -> int:
    """How many marks two answers share before the first that is unlike."""
    alike = (x == y for x, y in zip(a[:-DIGEST_CHARS], b[:-DIGEST_CHARS], strict=False))
    return next((i for i, same in enumerate(alike) if not same), min(len(a), len(b)) - DIGEST_CHARS)


def test_every_position_up_to_eight_has_a_mark_and_then_each_is_a_quarter_further() -> None:
    assert POSITIONS[:14] == (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 22, 27)
    for before, after in pairwise(POSITIONS):
        assert before < after <= max(before + 1, before * 1.25)


@pytest.mark.parametrize(("tokens", "chars"), [(0, 8), (1, 9), (8, 16), (128, 29), (2048, 41)])
def test_marks_grow_with_the_logarithm_of_the_length(tokens: int, chars: int) -> None:
    assert len(marks_of_ids(range(tokens))) == chars


def test_the_marks_of_an_answer_never_change() -> None:
    # They are a part of the run folder's format: stored baselines are compared with them.
    assert marks_of_ids(range(20)) == "cM6p393cCRJEHGsBBygn"
    assert marks_of_text("the red fox, 你好 🙂") == "Xvbc9XDxK1ODqg_tCpS"


@given(st.lists(st.integers(0, 2**32 - 1), max_size=60), st.integers(0, 60))
def test_answers_with_a_common_start_share_the_marks_of_that_start(
    ids: list[int], length: int
) -> None:
    start = ids[:length]
    whole, begun = marks_of_ids(ids), marks_of_ids(start)
    assert whole.startswith(begun[:-DIGEST_CHARS])
    assert (whole == begun) == (ids == start)


@given(st.text(max_size=80))
def test_text_is_marked_by_character(text: str) -> None:
    assert marks_of_text(text) == marks_of_ids([ord(character) for character in text])


@pytest.mark.parametrize("ids", [[-1], [2**32], [2**70, -(2**70)]])
def test_ids_that_no_tokenizer_has_do_no_harm(ids: list[int]) -> None:
    assert len(marks_of_ids(ids)) == DIGEST_CHARS + len(ids)


def test_half_of_a_character_does_no_harm() -> None:
    assert len(marks_of_text("a\ud83d")) == DIGEST_CHARS + 2


@pytest.mark.parametrize("vocabulary", [4, 256, 50_000])
def test_the_marks_before_a_difference_are_alike_and_the_next_one_nearly_always_is_not(
    vocabulary: int,
) -> None:
    draw = random.Random(vocabulary)
    pairs, late = 4000, 0
    for _ in range(pairs):
        ids = [draw.randrange(vocabulary) for _ in range(draw.randrange(1, 150))]
        other = ids.copy()
        at = draw.randrange(len(ids))
        other[at:] = [draw.randrange(vocabulary) for _ in ids[at:]]
        other[at] = (ids[at] + draw.randrange(1, vocabulary)) % vocabulary
        assert marks_of_ids(ids) != marks_of_ids(other)
        must = next(i for i, position in enumerate(POSITIONS) if position > at)
        found = parted(marks_of_ids(ids), marks_of_ids(other))
        assert found >= min(must, len(marks_of_ids(ids)) - DIGEST_CHARS)
        late += found > must
    # Sixty-four characters: one pair in 64 meets by chance, 62 of 4,000, give or take 8.
    assert late / pairs < 0.025
