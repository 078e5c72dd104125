"""A session stays within one sending process."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.core.workload import After, Load, LoadKind
from harness.loadgen.crew import Shares, split
from harness.loadgen.pacing import Due
from harness.loadgen.wire import parse_target

TARGET = parse_target("http://127.0.0.1:1")


@given(turns=st.lists(st.integers(1, 5), min_size=1, max_size=20), workers=st.integers(1, 6))
def test_a_later_turn_goes_where_the_one_before_went_and_first_turns_are_dealt_evenly(
    turns: list[int], workers: int
) -> None:
    dues: list[Due] = []
    for count in turns:
        for turn in range(count):
            dues.append(Due(len(dues), 0, After(len(dues) - 1, 0) if turn else None))
    whole = Shares(TARGET, Load(LoadKind.BACKLOG), dues, {due.index: b"" for due in dues})

    plans = split(whole, workers, Path())

    homes = {due.index: number for number, plan in enumerate(plans) for due in plan.dues}
    assert sorted(homes) == [due.index for due in dues]
    assert all(homes[d.index] == homes[d.after.index] for d in dues if d.after is not None)
    firsts = [homes[due.index] for due in dues if due.after is None]
    assert firsts == [number % len(plans) for number in range(len(turns))]
    for plan in plans:
        assert [due.index for due in plan.dues] == sorted(due.index for due in plan.dues)
