"""A stored baseline is the weaker one: its FAIL needs fresh runs that agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harness.analyzer.summary import Summary
from harness.core.errors import NotComparable, UsageError
from harness.gate.decision import Decision
from harness.gate.rules import GateRules
from harness.gate.unpaired_gate import decide_stored
from harness.gate.verdict import Verdict

STORED = (0.100, 0.102, 0.098, 0.101, 0.099)
SLOWER = (0.120, 0.121, 0.119, 0.120, 0.118)


def runs(gating: Any, values: Sequence[float], *, is_candidate: bool = False) -> list[Summary]:
    return [gating.run({"ttft_s_p50": value}, is_candidate=is_candidate) for value in values]


def decided(gating: Any, candidate: Sequence[float], reruns: Sequence[float] = ()) -> Decision:
    return decide_stored(
        runs(gating, STORED),
        runs(gating, candidate, is_candidate=True),
        runs(gating, reruns),
        GateRules(),
    )


def test_runs_like_the_stored_ones_pass(gating: Any) -> None:
    decision = decided(gating, STORED)
    assert decision.verdict is Verdict.PASS
    assert decision.design == "5 runs a side at least, unpaired, drift not controlled"


@pytest.mark.parametrize("reruns", [(), (0.1, 0.1)])
def test_a_failure_is_not_established_without_three_reruns(
    gating: Any, reruns: Sequence[float]
) -> None:
    decision = decided(gating, SLOWER, reruns)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.reasons == (
        "TTFT p50: a regression above 5.0 % is likely, but the baseline is stored; "
        "3 fresh runs of the baseline would say whether it is the machine",
    )
    assert Verdict.FAIL not in {metric.verdict for metric in decision.metrics}


def test_a_failure_stands_where_three_reruns_agree(gating: Any) -> None:
    decision = decided(gating, SLOWER, (0.102, 0.101, 0.103))
    assert decision.verdict is Verdict.FAIL
    assert decision.reasons[0].endswith("; 3 reruns of the baseline agree")


@pytest.mark.parametrize(("rerun", "verdict"), [(0.1023, Verdict.FAIL), (0.1026, Verdict.INCONCLUSIVE)])  # fmt: skip
def test_reruns_agree_within_half_the_margin(gating: Any, rerun: float, verdict: Verdict) -> None:
    assert decided(gating, SLOWER, (rerun,) * 3).verdict is verdict


def test_reruns_that_drifted_with_the_machine_say_so(gating: Any) -> None:
    decision = decided(gating, SLOWER, SLOWER[:3])
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert "are not like the stored ones: measure both in a duel" in decision.reasons[0]


def test_failing_requests_fail_where_the_reruns_have_none(gating: Any) -> None:
    stored, failing = runs(gating, STORED), [gating.run(is_candidate=True, failed=10, invalid=["V15"])] * 5  # fmt: skip
    found = [
        decide_stored(stored, failing, [gating.run(failed=n)] * 3, GateRules()) for n in (0, 1)
    ]
    assert [decision.verdict for decision in found] == [Verdict.FAIL, Verdict.INVALID]


def test_fewer_than_five_runs_a_side_are_no_verdict(gating: Any) -> None:
    assert decided(gating, SLOWER[:4]).verdict is Verdict.INVALID


def test_an_invalid_rerun_is_refused(gating: Any) -> None:
    reruns = [gating.run(invalid=["V03"], run_id="run-7")]
    with pytest.raises(UsageError, match="a rerun of the baseline is INVALID: run-7: V03"):
        decide_stored(
            runs(gating, STORED), runs(gating, SLOWER, is_candidate=True), reruns, GateRules()
        )


def test_reruns_of_another_engine_are_refused(gating: Any) -> None:
    other = gating.run(workload=gating.build.workload(name="other"))
    with pytest.raises(NotComparable):
        decide_stored(
            runs(gating, STORED), runs(gating, SLOWER, is_candidate=True), [other] * 3, GateRules()
        )
