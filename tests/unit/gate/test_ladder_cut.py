"""Ablations and sweeps leave out one beginning of what they hold against each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.summarize import summarize
from harness.core.ablation_plan import LADDER
from harness.core.cautions import Code
from harness.core.slo import parse_slos
from harness.core.workload import Load, LoadKind
from harness.gate.ablation import Worth
from harness.gate.ablation_judging import LevelAttempts, cautions_of, judge_levels, with_one_cut
from harness.gate.ablation_remarks import Sent
from harness.gate.attempt import Attempt
from harness.gate.sweep import cautions_of as cautions_of_sweep
from harness.gate.sweep import point_of, with_cuts

STATIC, DYNAMIC, CONTINUOUS, *_ = LADDER
SENT = Sent(LoadKind.POISSON, 9, prompt_tokens_longest=900, slots=4, step_tokens=512)


def attempt(
    settling: Any, name: str, slow: int = 0, requests: int = 120, **changes: Any
) -> Attempt:
    run = settling(slow, requests, run_id=name, **changes)
    return Attempt(name, run, summarize(run))


def ladder(settling: Any, *slow: int) -> list[LevelAttempts]:
    """A round of an engine that is the same at each level, but for how many requests begin slow."""
    levels = zip((STATIC, DYNAMIC, CONTINUOUS), slow, strict=False)
    return [LevelAttempts(level, (attempt(settling, level.name, s),)) for level, s in levels]


def cuts(rungs: list[LevelAttempts]) -> list[float]:
    return [a.summary.cut_s for rung in rungs for a in rung.attempts if a.summary is not None]


def longest(rungs: list[LevelAttempts]) -> list[Worth | None]:
    """What each level is worth to the first in its longest TTFT."""
    values = (level.values for level in judge_levels(rungs, SENT))
    return [next(v.to_first for v in found if v.metric == "ttft_s_max") for found in values]


def test_all_levels_of_an_ablation_leave_out_what_the_slowest_to_settle_does(settling: Any) -> None:
    alone = ladder(settling, 0, 10, 30)
    assert [w.ratio for w in longest(alone) if w is not None] == pytest.approx([4, 4])

    cut = with_one_cut(alone)
    assert cuts(cut) == [3.0, 3.0, 3.0]
    assert [w.ratio for w in longest(cut) if w is not None] == pytest.approx([1, 1])
    said = [c.message for c in cautions_of(cut) if c.code == Code.BEGINNING_LEFT_OUT]
    assert said == ["latencies and rates leave out 30 of 120 requests: the first 3.0 s"]


def test_a_level_that_does_not_count_moves_no_cut_and_stays_as_it_is(settling: Any) -> None:
    rungs = ladder(settling, 0, 40)
    lost = replace(rungs[1].attempts[0], failure="it was killed")
    never = Attempt("inhouse-continuous-1")
    rungs = [rungs[0], LevelAttempts(DYNAMIC, (lost,)), LevelAttempts(CONTINUOUS, (never,))]

    assert with_one_cut(rungs) == rungs


def test_an_ablation_at_once_is_not_cut(settling: Any) -> None:
    rungs = [
        LevelAttempts(level, (attempt(settling, level.name, 20, load=Load(LoadKind.BACKLOG)),))
        for level in (STATIC, DYNAMIC)
    ]

    assert cuts(with_one_cut(rungs)) == [0.0, 0.0]


def test_engines_at_one_load_of_a_sweep_are_cut_alike_and_other_loads_by_themselves(
    settling: Any,
) -> None:
    runs = [
        (1.0, attempt(settling, "a-1", 10)),
        (1.0, attempt(settling, "b-1")),
        (2.0, attempt(settling, "b-2", 40)),
        (2.0, attempt(settling, "a-2", 20)),
        (4.0, attempt(settling, "a-4")),
        (4.0, Attempt("b-4", failure="it ended with code 9")),
    ]
    cut = with_cuts(runs)
    points = [
        point_of(run.run[0], level, 1, run) for (level, _), run in zip(runs, cut, strict=True)
    ]

    assert [point.cut_s for point in points] == [1.0, 1.0, 4.0, 4.0, 0.0, 0.0]
    assert [run.run for run in cut] == ["a-1", "b-1", "b-2", "a-2", "a-4", "b-4"]
    at_one = [point.value("ttft_s_p90") for point in points[:4]]
    assert at_one == pytest.approx([0.010] * 4)
    assert runs[2][1].value("ttft_s_p90").value == pytest.approx(0.040)
    # Each load says its own cut: one of them would be taken for that of all.
    assert Code.BEGINNING_LEFT_OUT not in {c.code for c in cautions_of_sweep(cut)}


def test_the_goodput_of_a_point_counts_every_request(settling: Any) -> None:
    run = attempt(settling, "a-1", 30, slos=parse_slos(("ttft=20ms",)))
    (cut,) = with_cuts([(1.0, run)])

    assert point_of("a", 1.0, 1, cut).cut_s == 3.0
    assert point_of("a", 1.0, 1, cut).value("goodput_frac") == pytest.approx(90 / 120)
