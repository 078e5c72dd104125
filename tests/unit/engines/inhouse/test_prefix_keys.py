"""Block keys are equal where prompts are equal from their start on, and nowhere else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engines.inhouse.prefix_keys import prefix_keys

IDS = st.lists(st.integers(0, 3), max_size=24)
BLOCK = st.integers(1, 5)


@given(IDS, BLOCK)
def test_there_is_a_key_of_16_bytes_for_each_full_block(ids: list[int], block: int) -> None:
    keys = prefix_keys(ids, block)

    assert len(keys) == len(ids) // block
    assert all(len(key) == 16 for key in keys)


@given(IDS, IDS, BLOCK)
def test_keys_are_equal_just_as_far_as_the_prompts_are(
    a: list[int], b: list[int], block: int
) -> None:
    for i, (key_a, key_b) in enumerate(
        zip(prefix_keys(a, block), prefix_keys(b, block), strict=False)
    ):
        end = (i + 1) * block
        assert (key_a == key_b) == (a[:end] == b[:end])


def test_large_token_ids_do_not_meet() -> None:
    assert prefix_keys([2**20, 1], 2) != prefix_keys([2**21, 1], 2)
    assert prefix_keys((1, 2, 3, 4), 2) == prefix_keys([1, 2, 3, 4], 2)
