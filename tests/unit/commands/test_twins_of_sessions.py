"""What the simulator is given of a run that was measured, when turns waited for each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.analyzer.columns import columns_of
from harness.commands import judging
from harness.core.units import ms_to_ns
from harness.core.workload import After


def test_a_later_turn_waits_as_long_for_the_one_before_as_it_did(build: Any) -> None:
    first = build.record(0, (10, 20), session="s", turn=0)
    second = build.record(1, (80, 90), due_ms=70, session="s", turn=1, after=0)
    other = build.record(2, (35, 40), due_ms=30)

    work = judging._work_of(columns_of([first, second, other]))

    assert [(r.due_ns, r.after) for r in work] == [
        (0, None),
        (ms_to_ns(30), None),
        (0, After(0, ms_to_ns(50))),
    ]


def test_a_turn_whose_predecessor_has_no_end_arrives_when_it_was_due(build: Any) -> None:
    first = replace(build.record(0, (10, 20), session="s"), closed_ns=None)
    second = build.record(1, (80, 90), due_ms=70, session="s", turn=1, after=0)

    work = judging._work_of(columns_of([first, second]))

    assert [(r.due_ns, r.after) for r in work] == [(0, None), (ms_to_ns(70), None)]
