"""Pairs of answers, compared all at once by their marks, against the answers themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyzer.answer_pairs import first_differences, pairs_with
from harness.analyzer.columns import columns_of
from harness.analyzer.strings import Strings, StringsBuilder
from harness.core.marks import POSITIONS, marks_of_ids


@st.composite
def edited(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """An answer, and the same with one token changed, put in, or left out, or cut somewhere."""
    ids = draw(st.lists(st.integers(0, 50_000), min_size=1, max_size=400))
    at = draw(st.integers(0, len(ids) - 1))
    token = draw(st.integers(0, 50_000))
    kind = draw(st.sampled_from(["change", "put in", "leave out", "cut", "nothing"]))
    others = {
        "change": [*ids[:at], token, *ids[at + 1 :]],
        "put in": [*ids[:at], token, *ids[at:]],
        "leave out": [*ids[:at], *ids[at + 1 :]],
        "cut": ids[:at],
        "nothing": ids,
    }
    return ids, others[kind]


def strings(several: list[list[int]]) -> Strings:
    builder = StringsBuilder()
    for ids in several:
        builder.add(marks_of_ids(ids).encode())
    return builder.build()


def first_difference(a: list[int], b: list[int]) -> int:
    """The position, from 1, at which two answers first differ; 0 where they are the same."""
    if a == b:
        return 0
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False), 1) if x != y),
        min(len(a), len(b)) + 1,
    )


@given(st.lists(edited(), max_size=8))
def test_a_difference_is_never_later_than_said_and_none_is_overlooked(
    pairs: list[tuple[list[int], list[int]]],
) -> None:
    said = first_differences(
        strings([a for a, _ in pairs]), strings([b for _, b in pairs])
    ).tolist()
    for (a, b), found in zip(pairs, said, strict=True):
        truth = first_difference(a, b)
        assert (found == 0) == (truth == 0)
        assert found >= truth
        assert found == 0 or found in POSITIONS


@pytest.mark.parametrize("at", [1, 2, 7, 8, 9, 10, 11, 40, 128, 300])
def test_a_difference_is_found_to_within_a_quarter(at: int) -> None:
    ids = list(range(300))
    other = [*ids[: at - 1], 77_777, *ids[at:]]
    (found,) = first_differences(strings([ids]), strings([other])).tolist()
    assert at <= found <= max(at, at * 1.25)


def test_both_sides_say_the_same_of_a_pair() -> None:
    a, b = strings([[1, 2, 3], [1], []]), strings([[1, 2], [1], [4]])
    assert first_differences(a, b).tolist() == first_differences(b, a).tolist() == [3, 0, 1]


def test_marks_of_an_edited_file_do_no_harm() -> None:
    builder = StringsBuilder()
    builder.add(b"abc")
    builder.add(b"x" * 500)
    odd = builder.build()
    other = strings([[1, 2], [1, 2]])
    assert first_differences(odd, odd).tolist() == [0, 0]
    assert (first_differences(odd, other) > 0).all()


def test_requests_are_paired_by_index_where_both_have_marks(build: Any) -> None:
    a = columns_of(
        [build.record(i, ids_marks=marks) for i, marks in ((0, "x"), (1, None), (4, "y"))]
    )
    b = columns_of(
        [build.record(i, ids_marks=marks) for i, marks in ((4, "y"), (1, "z"), (7, "w"))]
    )
    of_a, of_b = pairs_with("ids_marks", a, b)
    assert a.numbers["index"][of_a].tolist() == b.numbers["index"][of_b].tolist() == [4]
    assert [list(side) for side in pairs_with("text_marks", a, b)] == [[], []]
