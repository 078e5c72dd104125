"""A duel of runs that had not settled: one beginning is left out of every run that counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.summarize import summarize
from harness.core.cautions import Code
from harness.gate.attempt import Attempt
from harness.gate.decision import Decision, decide
from harness.gate.duel import DuelSide, Place, metrics_of
from harness.gate.duel_judging import (
    PairRuns,
    cautions_of,
    compare_sides,
    counted_of,
    with_one_cut,
)
from harness.gate.rules import GateRules
from harness.gate.verdict import Verdict

NOISE = (1.0, 1.004, 0.997, 1.002, 0.999)


def attempt(settling: Any, name: str, requests: int = 120, **changes: Any) -> Attempt:
    run = settling(requests=requests, run_id=name, **changes)
    return Attempt(name, run, summarize(run))


def pairs(
    settling: Any, slow: tuple[int, int], requests: int = 120, *, count: int = 2
) -> list[PairRuns]:
    """An engine against itself, for whose two sides the first `slow` requests of a run are slow."""
    made = []
    for i, ratio in enumerate(NOISE[:count], 1):
        base = attempt(settling, f"pair-{i}-A", requests, slow=slow[0])
        cand = attempt(settling, f"pair-{i}-B", requests, slow=slow[1], speed=ratio)
        made.append(PairRuns(Place(i, 1), i, base, cand))
    return made


def decided(made: Sequence[PairRuns]) -> Decision:
    return decide(counted_of(made), GateRules(pairs=(5,)), is_last_look=True)


@pytest.mark.parametrize("slow", [(0, 20), (20, 0)])
def test_a_slow_beginning_of_one_side_is_left_out_of_both(
    settling: Any, slow: tuple[int, int]
) -> None:
    """Alone, it decides p99 and so the gate, one way or the other."""
    alone = pairs(settling, slow, 400, count=5)
    p99 = next(m for m in decided(alone).metrics if m.metric == "ttft_s_p99")
    assert p99.verdict is (Verdict.FAIL if slow[1] else Verdict.PASS)
    assert abs(p99.evidence.d) > 1

    cut = with_one_cut(alone)
    runs = [run.summary for pair in cut for run in (pair.baseline, pair.candidate)]
    assert {(run.cut_s, run.left_out) for run in runs} == {(2.0, 20)}
    found = decided(cut)
    assert found.verdict is Verdict.PASS
    assert all(m.evidence is None or abs(m.evidence.d) < 0.01 for m in found.metrics)
    assert [c.code for c in found.cautions].count(Code.BEGINNING_LEFT_OUT) == 1


def test_where_the_cut_leaves_too_few_for_p99_in_one_run_the_gate_leaves_it_out(
    settling: Any,
) -> None:
    """Its runs are of other schedules, so that the same span holds other numbers of requests."""
    made = pairs(settling, (0, 40), 400, count=5)
    longer = attempt(settling, "pair-1-B", 420, slow=40)
    found = decided(with_one_cut([replace(made[0], candidate=longer), *made[1:]]))

    p99 = next(m for m in found.metrics if m.metric == "ttft_s_p99")
    assert p99.verdict is None
    assert p99.said.startswith("not gated: baseline: 360 requests cannot support p99")
    assert "candidate: 360 requests cannot support p99 (368 needed) (in 4 of 5 runs)" in p99.said
    assert found.verdict is Verdict.PASS


def test_sides_that_had_settled_stay_as_they_are(settling: Any) -> None:
    made = pairs(settling, (0, 0))

    assert with_one_cut(made) == made


def test_a_later_pair_that_settles_later_moves_the_cut_of_all(settling: Any) -> None:
    first = with_one_cut(pairs(settling, (5, 10)))
    assert {pair.baseline.summary.cut_s for pair in first} == {1.0}

    later = PairRuns(
        Place(3, 1),
        3,
        attempt(settling, "pair-3-A", slow=30),
        attempt(settling, "pair-3-B"),
    )
    both = with_one_cut([*first, later])
    assert {run.summary.cut_s for p in both for run in (p.baseline, p.candidate)} == {3.0}


def test_a_pair_that_does_not_count_has_no_say(settling: Any) -> None:
    good = pairs(settling, (0, 10), count=1)[0]
    failed = attempt(settling, "pair-1-A", slow=50)
    lost = replace(good, baseline=replace(failed, failure="the engine was killed"))
    cut = with_one_cut([lost, replace(good, place=Place(1, 2))])

    assert cut[0] == lost
    assert cut[1].baseline.summary.cut_s == cut[1].candidate.summary.cut_s == 1.0


def test_the_duel_says_it_once_and_its_metrics_are_of_what_is_left(
    build: Any, settling: Any
) -> None:
    cut = with_one_cut(pairs(settling, (0, 20), count=5))
    engine = build.manifest().engine
    sides = (DuelSide("a", engine), DuelSide("b", engine))
    table = compare_sides(sides, cut, ())

    said = cautions_of(cut, table, decided(cut), is_locked=False)
    (doubt,) = [c for c in said if c.code == Code.BEGINNING_LEFT_OUT]
    assert doubt.message == "latencies and rates leave out 20 of 120 requests: the first 2.0 s"
    longest = next(m for m in metrics_of(counted_of(cut)) if m.metric == "ttft_s_max")
    assert longest.ratio == pytest.approx(1.0, abs=0.01)
