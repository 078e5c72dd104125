"""The verdict of the whole: over metrics, loads, looks, and runs that cannot be judged."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.jsonable import from_json, to_json
from harness.core.workload import Load, LoadKind
from harness.gate.decision import Decision, Pair, decide
from harness.gate.metric_decision import MetricDecision
from harness.gate.rules import GateRules, MetricRule
from harness.gate.unpaired_gate import decide_unpaired
from harness.gate.verdict import Verdict

RULES = GateRules()


def metric(decision: Decision, name: str) -> MetricDecision:
    return next(found for found in decision.metrics if found.metric == name)


def codes(decision: Decision) -> list[str]:
    return [doubt.code for doubt in decision.cautions]


def two_looks(gating: Any, rng: Random, noise: float, slower: float = 0.0) -> Decision:
    """What a duel does: five pairs, and five more where those do not tell."""
    pairs = gating.noisy(rng, 5, noise, slower)
    first = decide(pairs, RULES, is_last_look=False)
    if not first.needs_more_pairs:
        return first
    return decide([*pairs, *gating.noisy(rng, 5, noise, slower)], RULES, is_last_look=True)


def test_pairs_without_a_difference_pass(gating: Any) -> None:
    decision = decide([gating.pair()] * 5, RULES, is_last_look=False)
    assert decision.verdict is Verdict.PASS
    assert decision.reasons[0] == "output tok/s: a regression of 5.0 % or more was ruled out"
    assert (decision.runs, decision.is_paired, decision.needs_more_pairs) == (5, True, False)
    assert (decision.baseline_name, decision.candidate_name) == (
        "inhouse-static",
        "inhouse-continuous",
    )
    assert decision.context == "SmolLM2-135M bf16, 2-core AMD EPYC, eight-agents x4 backlog"
    assert decision.factors == ("policy: static / continuous",)
    assert decision.rules_digest == RULES.digest


def test_one_metric_that_fails_fails_the_whole(gating: Any) -> None:
    pairs = gating.pairs("tpot_s_p50", [1.10, 1.11, 1.10, 1.11, 1.10])
    decision = decide(pairs, RULES, is_last_look=False)
    assert decision.verdict is Verdict.FAIL
    assert decision.reasons == ("TPOT p50: a regression above 5.0 % is established",)
    assert metric(decision, "ttft_s_p50").verdict is Verdict.PASS


def test_passing_needs_every_metric(gating: Any) -> None:
    pairs = gating.pairs("tpot_s_p50", [1.02, 1.07, 1.03, 1.06, 1.01])
    decision = decide(pairs, RULES, is_last_look=True)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.reasons == (
        "TPOT p50: cannot tell; would need about 6 pairs (likely regression)",
    )


def test_an_inconclusive_first_look_asks_for_more_pairs_once(gating: Any) -> None:
    pairs = gating.pairs("tpot_s_p50", [1.02, 1.07, 1.03, 1.06, 1.01])
    assert decide(pairs, RULES, is_last_look=False).needs_more_pairs
    assert not decide(pairs, RULES, is_last_look=True).needs_more_pairs


def test_hopeless_noise_gets_no_second_look_and_is_told_so(gating: Any) -> None:
    pairs = gating.pairs("tpot_s_p50", [1.3, 0.7, 1.4, 0.8, 1.2])
    decision = decide(pairs, RULES, is_last_look=False)
    assert (decision.verdict, decision.needs_more_pairs) == (Verdict.INCONCLUSIVE, False)
    assert decision.reasons[-1].startswith("no second look: TPOT p50 would need more than 20 pairs")


def test_nothing_to_gate_is_an_error_of_usage(gating: Any) -> None:
    with pytest.raises(UsageError, match="there is no pair to gate"):
        decide([], RULES, is_last_look=True)
    for sides in (([], [gating.run()]), ([gating.run()], [])):
        with pytest.raises(UsageError, match="has no run, so there is nothing to gate"):
            decide_unpaired(*sides, RULES)


@pytest.mark.parametrize("count", [1, 4])
def test_fewer_pairs_than_a_look_needs_are_no_verdict(gating: Any, count: int) -> None:
    decision = decide([gating.pair()] * count, RULES, is_last_look=True)
    assert decision.verdict is Verdict.INVALID
    assert decision.reasons == (
        f"eight-agents x4 backlog: {count} pairs can be judged, 5 are needed",
    )


def test_a_pair_with_an_invalid_run_is_left_out_and_counted(gating: Any) -> None:
    broken = gating.pair(candidate=gating.run(is_candidate=True, invalid=["V06"], run_id="run-9"))
    decision = decide([gating.pair()] * 5 + [broken], RULES, is_last_look=False)
    assert (decision.verdict, decision.runs) == (Verdict.PASS, 5)
    assert decision.left_out == ("run-9: V06 a check: 1",)


def test_too_many_invalid_runs_are_no_verdict(gating: Any) -> None:
    broken = gating.pair(baseline=gating.run(invalid=["V21"]))
    decision = decide([gating.pair()] * 10 + [broken] * 3, RULES, is_last_look=True)
    assert decision.verdict is Verdict.INVALID
    assert decision.reasons == ("3 pairs or runs are INVALID; 2 may be left out",)


def test_a_candidate_whose_requests_fail_is_judged_and_fails(gating: Any) -> None:
    """It is INVALID by its failures alone, and that is what a gate is for."""
    failing = gating.run({"ttft_s_p99": None}, is_candidate=True, failed=5, invalid=["V15"])
    decision = decide([gating.pair(candidate=failing)] * 5, RULES, is_last_look=True)
    assert decision.verdict is Verdict.FAIL
    assert decision.reasons == (
        "TTFT p99: 5 of 5 candidate runs failed: inf",
        "failure rate: the candidate does fail more requests than chance explains",
    )


def test_a_candidate_whose_requests_fail_never_passes(gating: Any) -> None:
    """Also where the baseline fails nearly as many, so that chance may explain the difference."""
    base, cand = gating.run(failed=1), gating.run(is_candidate=True, failed=2, invalid=["V15"])
    decision = decide([gating.pair(base, cand)] * 5, RULES, is_last_look=True)
    assert decision.verdict is Verdict.INVALID
    assert decision.reasons == (
        "runs of the candidate are INVALID: too many of their requests failed",
    )


def test_a_baseline_whose_requests_fail_is_no_baseline(gating: Any) -> None:
    failing = gating.run(failed=5, invalid=["V15"])
    decision = decide([gating.pair(baseline=failing)] * 5, RULES, is_last_look=True)
    assert decision.verdict is Verdict.INVALID


def test_a_missing_metric_is_invalid_and_not_skipped(gating: Any) -> None:
    pair = gating.pair(candidate=gating.run({"ttft_s_p50": None}, is_candidate=True))
    decision = decide([pair] * 5, RULES, is_last_look=True)
    assert decision.verdict is Verdict.INVALID
    assert decision.reasons == ("TTFT p50: candidate: not measured (in 5 of 5 runs)",)


def test_a_clear_failure_outranks_a_missing_metric(gating: Any) -> None:
    cand = gating.run({"ttft_s_p50": None, "tpot_s_p50": 0.02}, is_candidate=True)
    decision = decide([gating.pair(candidate=cand)] * 5, RULES, is_last_look=True)
    assert decision.verdict is Verdict.FAIL


def test_unlike_sides_are_not_comparable_and_say_why(gating: Any) -> None:
    other = gating.run(
        is_candidate=True, machine=replace(gating.build.manifest().machine, cores=64)
    )
    pairs = [gating.pair(candidate=other)] * 5
    decision = decide(pairs, RULES, is_last_look=True)
    assert decision.verdict is Verdict.NOT_COMPARABLE
    assert "cores: 2 (baseline) / 64 (candidate)" in decision.reasons[0]
    allowed = decide(pairs, RULES, is_last_look=True, allowed=["cores"])
    assert (allowed.verdict, len(allowed.allowed)) == (Verdict.PASS, 1)


def test_a_side_that_answers_less_did_other_work(gating: Any) -> None:
    short = gating.run({"output_tokens": 900.0}, is_candidate=True)
    decision = decide([gating.pair(candidate=short)] * 5, RULES, is_last_look=True)
    assert decision.verdict is Verdict.NOT_COMPARABLE
    assert decision.reasons[0].startswith("output tok/s: the sides answered with different numbers")
    assert "DIFFERENT_OUTPUT" in codes(decision)


def test_an_improvement_beyond_the_margin_is_doubted(gating: Any) -> None:
    pairs = gating.pairs("ttft_s_p50", [0.8, 0.81, 0.8, 0.81, 0.8])
    decision = decide(pairs, RULES, is_last_look=False)
    assert decision.verdict is Verdict.PASS
    assert codes(decision)[0] == "BETTER_THAN_MARGIN"


def test_an_engine_against_itself_has_two_names(gating: Any) -> None:
    pair = gating.pair(candidate=gating.run())
    decision = decide([pair] * 5, RULES, is_last_look=False)
    assert decision.baseline_name == "inhouse-static (baseline)"
    assert decision.candidate_name == "inhouse-static (candidate)"


def loads(gating: Any, rate: float) -> dict[str, Any]:
    return {"load": Load(LoadKind.POISSON, rate_rps=rate)}


def test_every_load_is_judged_and_named(gating: Any) -> None:
    pairs = [
        *gating.pairs("ttft_s_p50", [1.0] * 5, **loads(gating, 1.0)),
        *gating.pairs("ttft_s_p50", [1.2, 1.21, 1.2, 1.21, 1.2], **loads(gating, 4.0)),
    ]
    decision = decide(pairs, RULES, is_last_look=True)
    assert decision.verdict is Verdict.FAIL
    assert decision.reasons == (
        "TTFT p50 at eight-agents x4 poisson 4/s: a regression above 5.0 % is established",
    )
    assert len(decision.metrics) == 2 * len(RULES.metrics)


def test_a_load_that_one_side_lacks_is_no_verdict(gating: Any) -> None:
    one, four = loads(gating, 1.0), loads(gating, 4.0)
    base = [gating.run(**one)] * 5 + [gating.run(**four)] * 5
    cand = [gating.run(is_candidate=True, **one)] * 5
    decision = decide_unpaired(base, cand, RULES)
    assert decision.verdict is Verdict.INVALID
    assert decision.reasons == (
        "eight-agents x4 poisson 4/s: 0 runs of the candidate can be judged, 5 are needed",
    )


def test_runs_that_are_no_pairs_are_judged_by_welch_and_say_so(gating: Any) -> None:
    rng = Random(1)
    pairs = gating.noisy(rng, 5, 0.005)
    decision = decide_unpaired([p.baseline for p in pairs], [p.candidate for p in pairs], RULES)
    assert not decision.is_paired
    assert decision.design == "5 runs a side at least, unpaired, drift not controlled"
    assert "UNPAIRED_RUNS" in codes(decision)
    # The mood of the machine, 20 % from pair to pair, cancels out of pairs alone.
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decide(pairs, RULES, is_last_look=False).verdict is Verdict.PASS


def test_unpaired_runs_with_a_clear_difference_fail(gating: Any) -> None:
    base = [gating.run({"ttft_s_p50": v}) for v in (0.100, 0.102, 0.098, 0.101, 0.099)]
    cand = [
        gating.run({"ttft_s_p50": v}, is_candidate=True) for v in (0.12, 0.121, 0.119, 0.12, 0.118)
    ]
    decision = decide_unpaired(base, cand, RULES)
    assert decision.verdict is Verdict.FAIL


def test_a_decision_survives_json(gating: Any) -> None:
    failing = gating.run({"ttft_s_p99": None}, is_candidate=True, failed=5, invalid=["V15"])
    for pairs in ([gating.pair()] * 5, [gating.pair(candidate=failing)] * 5, [gating.pair()]):
        decision = decide(pairs, RULES, is_last_look=True)
        text = json.dumps(to_json(decision), allow_nan=False)
        assert from_json(Decision, json.loads(text)) == decision


def scaled(pair: Pair, factor: float) -> Pair:
    """The candidate's latencies times `factor`, and its rate by it."""
    values = tuple(
        replace(v, value=v.value * (1 / factor if v.metric == "output_tok_s" else factor))
        if v.value is not None and v.metric in {r.metric for r in RULES.metrics} - {"failure_rate"}
        else v
        for v in pair.candidate.values
    )
    return replace(pair, candidate=replace(pair.candidate, values=values))


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), factor=st.floats(0.2, 5))
def test_scaling_the_candidate_moves_every_estimate_by_the_logarithm(
    gating: Any, seed: int, factor: float
) -> None:
    pairs = gating.noisy(Random(seed), 5, 0.03)
    before = decide(pairs, RULES, is_last_look=True)
    after = decide([scaled(pair, factor) for pair in pairs], RULES, is_last_look=True)
    for one, other in zip(before.metrics, after.metrics, strict=True):
        if one.evidence is not None and other.evidence is not None:
            assert other.evidence.d - one.evidence.d == pytest.approx(math.log(factor), abs=1e-9)
            assert other.evidence.sd == pytest.approx(one.evidence.sd, rel=1e-6)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), slower=st.floats(-0.2, 0.2))
def test_swapping_the_sides_turns_every_estimate_round(
    gating: Any, seed: int, slower: float
) -> None:
    pairs = gating.noisy(Random(seed), 5, 0.03, slower)
    swapped = [replace(p, baseline=p.candidate, candidate=p.baseline) for p in pairs]
    one, other = (decide(side, RULES, is_last_look=True) for side in (pairs, swapped))
    for before, after in zip(one.metrics, other.metrics, strict=True):
        if before.evidence is not None and after.evidence is not None:
            assert after.evidence.d == pytest.approx(-before.evidence.d, abs=1e-12)
            assert after.evidence.lo == pytest.approx(-before.evidence.hi, abs=1e-12)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), order=st.permutations(range(5)))
def test_the_order_of_pairs_changes_nothing(gating: Any, seed: int, order: list[int]) -> None:
    pairs = gating.noisy(Random(seed), 5, 0.03)
    one, other = (decide(p, RULES, is_last_look=True) for p in (pairs, [pairs[i] for i in order]))
    assert other.verdict is one.verdict
    for before, after in zip(one.metrics, other.metrics, strict=True):
        if before.evidence is not None and after.evidence is not None:
            assert after.evidence.d == pytest.approx(before.evidence.d, abs=1e-12)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), unit=st.sampled_from([1e-3, 1e3, 1e6]))
def test_the_unit_of_a_metric_changes_nothing(gating: Any, seed: int, unit: float) -> None:
    rules = GateRules(metrics=(MetricRule("ttft_s_p50", 0.05),))
    pairs = gating.noisy(Random(seed), 5, 0.03)
    others = [
        gating.pair(*(
            gating.run({"ttft_s_p50": (run.value("ttft_s_p50") or 0) * unit}, is_candidate=is_candidate)
            for is_candidate, run in ((False, pair.baseline), (True, pair.candidate))
        ))
        for pair in pairs
    ]  # fmt: skip
    one, other = (
        decide(side, rules, is_last_look=True).metrics[0].evidence for side in (pairs, others)
    )
    assert one is not None
    assert other is not None
    assert other.d == pytest.approx(one.d, abs=1e-9)


def test_h05_two_hundred_gates_of_an_engine_with_itself_fail_once_at_most(gating: Any) -> None:
    """lionagi#1707: gates on one run went red on changes of documents."""
    rng = Random(20300101)
    found = Counter(two_looks(gating, rng, 0.03).verdict for _ in range(200))
    assert found[Verdict.FAIL] <= 1
    assert found[Verdict.PASS] >= 190


def test_h05_an_engine_slowed_by_ten_percent_fails_95_times_in_100(gating: Any) -> None:
    rng = Random(20300102)
    found = Counter(two_looks(gating, rng, 0.03, slower=0.10).verdict for _ in range(100))
    assert found[Verdict.FAIL] >= 95
    assert found[Verdict.PASS] == 0
