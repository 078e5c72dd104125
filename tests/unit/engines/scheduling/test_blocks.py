"""The pool of KV blocks, and the prefixes that are kept in it."""

import pytest

from engines.scheduling.blocks import BlockPool


def take(pool: BlockPool, count: int) -> tuple[int, ...]:
    blocks = pool.take(count)
    assert blocks is not None
    return blocks


def pool_with_prefix(*keys: bytes, total: int = 4) -> BlockPool:
    """A pool in which nobody owns a block, and the first blocks hold `keys`."""
    pool = BlockPool(total)
    blocks = take(pool, len(keys))
    for block, key in zip(blocks, keys, strict=True):
        pool.name(block, key)
    pool.give_back(blocks)
    return pool


def test_blocks_are_taken_all_or_nothing() -> None:
    pool = BlockPool(total=3)

    assert pool.take(4) is None
    assert pool.free == 3
    assert pool.take(3) == (0, 1, 2)


def test_a_block_given_back_can_be_taken_again() -> None:
    pool = BlockPool(total=1)
    blocks = take(pool, 1)

    pool.give_back(blocks)

    assert pool.take(1) == blocks


def test_a_block_cannot_be_given_back_twice() -> None:
    pool = BlockPool(total=2)
    blocks = take(pool, 1)
    pool.give_back(blocks)

    with pytest.raises(ValueError, match="nobody owns it"):
        pool.give_back(blocks)


def test_a_prefix_stays_when_its_owner_has_gone_and_counts_as_free() -> None:
    pool = pool_with_prefix(b"a", b"b")

    assert (pool.free, pool.used, pool.cached) == (4, 0, 2)
    assert pool.find([b"a", b"b", b"c"]) == (0, 1)


def test_a_prefix_is_found_only_from_its_first_block_on() -> None:
    assert pool_with_prefix(b"a", b"b").find([b"x", b"b"]) == ()


def test_a_shared_block_is_used_until_its_last_owner_has_gone() -> None:
    pool = pool_with_prefix(b"a")
    pool.share((0,))
    pool.share((0,))

    pool.give_back((0,))
    assert (pool.used, pool.cached) == (1, 0)

    pool.give_back((0,))
    assert (pool.used, pool.cached) == (0, 1)


def test_blocks_without_a_prefix_are_taken_before_one_is_lost() -> None:
    pool = pool_with_prefix(b"a", b"b")

    take(pool, 2)

    assert pool.find([b"a", b"b"]) == (0, 1)


def test_the_prefix_that_was_not_used_for_longest_goes_first() -> None:
    pool = pool_with_prefix(b"a", b"b", total=2)
    pool.share((1,))  # b is used once more, after a
    pool.give_back((1,))

    take(pool, 1)

    assert pool.find([b"a"]) == ()
    assert pool.find([b"b"]) == (1,)


def test_the_end_of_a_prefix_goes_before_its_beginning() -> None:
    pool = pool_with_prefix(b"a", b"b", b"c", total=3)

    take(pool, 1)

    assert pool.find([b"a", b"b", b"c"]) == (0, 1)


def test_a_block_in_use_is_never_taken_for_its_prefix() -> None:
    pool = pool_with_prefix(b"a", total=1)
    pool.share((0,))

    assert pool.take(1) is None


def test_what_is_stored_twice_is_found_where_it_was_first() -> None:
    pool = BlockPool(total=2)
    first, second = take(pool, 2)
    pool.name(first, b"a")
    pool.name(second, b"a")

    pool.give_back((first, second))

    assert pool.find([b"a"]) == (first,)
    assert pool.cached == 1
