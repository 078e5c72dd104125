"""The pool of KV blocks."""

import pytest

from engines.scheduling.blocks import BlockPool


def test_blocks_are_taken_all_or_nothing() -> None:
    pool = BlockPool(total=3, block_tokens=4)

    assert pool.take(13) is None
    assert pool.free == 3
    assert pool.take(9) == (0, 1, 2)


def test_a_block_given_back_can_be_taken_again() -> None:
    pool = BlockPool(total=1, block_tokens=4)
    blocks = pool.take(4)
    assert blocks is not None

    pool.give_back(blocks)

    assert pool.take(1) == blocks


def test_a_block_cannot_be_given_back_twice() -> None:
    pool = BlockPool(total=2, block_tokens=4)
    blocks = pool.take(4)
    assert blocks is not None
    pool.give_back(blocks)

    with pytest.raises(ValueError, match="nobody owns it"):
        pool.give_back(blocks)


@pytest.mark.parametrize(("total", "block_tokens"), [(0, 4), (4, 0)])
def test_a_pool_of_nothing_is_refused(total: int, block_tokens: int) -> None:
    with pytest.raises(ValueError, match="a pool needs blocks"):
        BlockPool(total, block_tokens)
