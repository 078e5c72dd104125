"""Requests that wait for the end of another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.core.turns import LaterTurns
from harness.core.workload import After


def test_a_turn_is_due_its_delay_after_the_end_of_the_one_before() -> None:
    later = LaterTurns()
    later.hold(1, 0, After(0, 30))

    assert later.next_ns is None
    assert later.release(0, 100)
    assert later.next_ns == 130
    assert later.pop() == (1, 130)
    assert not later


def test_a_turn_is_not_due_before_its_own_instant() -> None:
    later = LaterTurns()
    later.hold(1, 500, After(0, 30))
    later.release(0, 100)

    assert later.next_ns == 500


def test_an_end_that_nobody_waits_for_releases_nothing() -> None:
    later = LaterTurns()
    later.hold(2, 0, After(1, 0))

    assert not later.release(0, 100)
    assert len(later) == 1


def test_those_that_are_forgotten_are_never_released() -> None:
    later = LaterTurns()
    later.hold(1, 0, After(0, 0))
    later.hold(2, 0, After(1, 0))
    later.release(0, 1)
    later.clear()

    assert not later.release(1, 2)
    assert (len(later), later.next_ns) == (0, None)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=20))
def test_turns_come_in_the_order_in_which_they_are_due(waits: list[tuple[int, int]]) -> None:
    later = LaterTurns()
    for index, (least_ns, delay_ns) in enumerate(waits, start=1):
        later.hold(index, least_ns, After(0, delay_ns))
    later.release(0, 5)
    popped = [later.pop() for _ in waits]

    wanted = {i: max(least, 5 + delay) for i, (least, delay) in enumerate(waits, start=1)}
    assert dict(popped) == wanted
    assert [due for _, due in popped] == sorted(wanted.values())
