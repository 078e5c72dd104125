"""KV blocks in runs."""

import pytest

from engines.scheduling.runs import RunPool


def pool_with_gaps() -> RunPool:
    """Ten blocks; 0 to 1 and 4 to 6 are free, 9 as well."""
    pool = RunPool(10)
    runs = [pool.take(count) for count in (2, 2, 3, 2)]
    for run in (runs[0], runs[2]):
        assert run is not None
        pool.give_back(run)
    return pool


def test_the_first_gap_that_is_wide_enough_is_used() -> None:
    pool = pool_with_gaps()

    assert pool.take(3) == (4, 5, 6)
    assert pool.take(1) == (0,)


def test_free_blocks_that_stand_apart_do_not_make_a_run() -> None:
    pool = pool_with_gaps()

    assert pool.take(4) is None
    assert (pool.used, pool.longest_gap) == (4, 3)


def test_runs_that_are_given_back_join() -> None:
    pool = RunPool(6)
    runs = [pool.take(2) for _ in range(3)]
    for run in runs:
        assert run is not None
        pool.give_back(run)

    assert pool.take(6) == (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize("blocks", [(0, 1), (2,), (2, 3, 4)])
def test_a_run_is_given_back_as_it_was_taken(blocks: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="nobody owns them"):
        pool_with_gaps().give_back(blocks)
