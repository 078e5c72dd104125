"""Random numbers by their place: the published sequence, and runs that tell their ids."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workloads.streams import below, outputs, runs, stratified, stream_key, uniforms


def runs_of(ids: list[int], length: int, span: int, key: int = 7) -> list[tuple[int, ...]]:
    keys, made = np.full(len(ids), key, dtype=np.uint64), np.array(ids, dtype=np.uint64)
    lengths = np.full(len(ids), length, dtype=np.int64)
    return [tuple(row) for row in runs(keys, made, lengths, span).reshape(len(ids), length)]


def test_a_stream_is_the_published_splitmix64() -> None:
    """The first outputs of state 1234567, as they stand in many test suites."""
    keys = np.full(5, 1234567, dtype=np.uint64)

    assert outputs(keys, np.arange(5, dtype=np.uint64)).tolist() == [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431,
        16408922859458223821,
    ]  # fmt: skip


def test_keys_are_of_the_seed_and_the_purpose() -> None:
    keys = {stream_key(seed, purpose) for seed in (0, 1, 10) for purpose in ("a", "b", "0/a")}

    assert len(keys) == 9
    assert stream_key(0, "prompts") == 10080501539938020643


def test_uniform_numbers_lie_between_0_and_1_and_do_not_depend_on_where_one_begins() -> None:
    whole = uniforms(3, 0, 20_000)

    assert uniforms(3, 5_000, 10) == whole[5_000:5_010]
    assert 0 < min(whole) < 1e-3
    assert 0.999 < max(whole) < 1
    assert abs(sum(whole) / len(whole) - 0.5) < 0.01


@given(st.integers(0, 2**64 - 1), st.integers(1, 300))
def test_stratified_numbers_lie_one_in_each_part(key: int, count: int) -> None:
    assert sorted(int(share * count) for share in stratified(key, count)) == list(range(count))


@given(st.integers(1, 2**32), st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_numbers_below_a_span_are_below_it(span: int, words: list[int]) -> None:
    assert below(np.array(words, dtype=np.uint64), span).max() < span


@given(st.sets(st.integers(0, 2**64 - 1), min_size=2, max_size=30), st.integers(2, 70_000))
def test_runs_of_different_ids_differ_within_the_digits_of_an_id(ids: set[int], span: int) -> None:
    digits = next(n for n in range(1, 66) if span**n >= 2**64)

    assert len(set(runs_of(sorted(ids), digits, span))) == len(ids)


@given(st.integers(0, 2**40), st.integers(2, 500))
def test_as_many_ids_in_a_row_as_the_span_is_wide_begin_with_different_numbers(
    first: int, span: int
) -> None:
    assert len(set(runs_of(list(range(first, first + span)), 1, span))) == span


@given(st.lists(st.integers(1, 40), min_size=1, max_size=20), st.integers(1, 1000))
def test_a_shorter_run_begins_a_longer_one(lengths: list[int], span: int) -> None:
    """So a block that is cut short begins the whole block."""
    ids = np.arange(len(lengths), dtype=np.uint64)
    keys = np.full(len(lengths), 5, dtype=np.uint64)
    made = runs(keys, ids, np.array(lengths, dtype=np.int64), span)
    longest = runs_of(list(range(len(lengths))), 40, span, key=5)

    ends = np.cumsum(lengths)
    for row, (start, end) in enumerate(pairwise([0, *ends])):
        assert tuple(made[start:end]) == longest[row][: end - start]


def test_the_numbers_after_the_digits_are_even_over_the_span() -> None:
    tails = np.array(runs_of(list(range(2000)), 30, 10))[:, 20:]
    counts = np.bincount(tails.ravel(), minlength=10)

    assert counts.sum() == 20_000
    assert ((counts - 2000) ** 2 / 2000).sum() < 27.9  # chi square of 9 degrees, 1 in 1000
