"""One metric: the reference values of non-inferiority, and everything that must not pass."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scipy import stats

from harness.analyzer.summary import Summary
from harness.gate.metric_decision import (
    Level,
    MetricDecision,
    judge_metrics,
    welch_noninferiority,
)
from harness.gate.rules import GateRules, MetricRule
from harness.gate.verdict import Verdict

TTFT = MetricRule("ttft_s_p50", 0.05)
RATE = MetricRule("output_tok_s", 0.05)
# One look at 5 %, as in the reference values.
ONE_LOOK = GateRules(metrics=(TTFT,), pairs=(5,))


def level(base: list[Summary], cand: list[Summary], *, is_paired: bool = True) -> Level:
    return Level("backlog", tuple(base), tuple(cand), is_paired)


def judged(
    gating: Any, logs: list[float], rule: MetricRule = TTFT, **changes: Any
) -> MetricDecision:
    """The rule over pairs that are worse by `logs`, with one look at 5 %."""
    sign = -1 if rule.metric == "output_tok_s" else 1
    pairs = gating.pairs(rule.metric, [math.exp(sign * log) for log in logs])
    (found,) = judge_metrics(
        [level([p.baseline for p in pairs], [p.candidate for p in pairs])],
        GateRules(metrics=(rule,), pairs=(5,), **changes),
    )
    return found


@pytest.mark.parametrize("rule", [TTFT, RATE])
@pytest.mark.parametrize(
    ("logs", "estimate", "lo", "hi", "verdict"),
    [
        ([0.002, -0.004, 0.006, 0.001, -0.003], 0.0004, -0.003443, 0.004258, Verdict.PASS),
        ([0.09, 0.11, 0.1, 0.085, 0.105], 0.102963, 0.092114, 0.11392, Verdict.FAIL),
        ([0.02, 0.07, 0.03, 0.06, 0.01], 0.038731, 0.013411, 0.064684, Verdict.INCONCLUSIVE),
        ([0.010, 0.012, 0.011, 0.009, 0.013], 0.011061, 0.009538, 0.012586, Verdict.PASS),
    ],
)  # fmt: skip
def test_non_inferiority_agrees_with_the_reference_whichever_side_is_better(
    gating: Any,
    rule: MetricRule,
    logs: list[float],
    estimate: float,
    lo: float,
    hi: float,
    verdict: Verdict,
) -> None:
    found = judged(gating, logs, rule)
    evidence = found.evidence
    assert evidence is not None
    ratios = [math.expm1(log) for log in (evidence.d, evidence.lo, evidence.hi)]
    assert ratios == pytest.approx([estimate, lo, hi], abs=1e-6)
    assert found.verdict is verdict


def test_what_is_said_is_one_of_three_sentences(gating: Any) -> None:
    assert judged(gating, [0.0, 0.001, 0.002, 0.001, 0.0]).said == (
        "a regression of 5.0 % or more was ruled out"
    )
    assert judged(gating, [0.1, 0.11, 0.1, 0.11, 0.1]).said == (
        "a regression above 5.0 % is established"
    )
    assert judged(gating, [0.02, 0.07, 0.03, 0.06, 0.01]).said == (
        "cannot tell; would need about 5 pairs (likely regression)"
    )


@pytest.mark.parametrize(
    ("logs", "leaning"),
    [
        ([0.04, 0.05, 0.045, 0.05, 0.06], "likely regression"),
        ([-0.3, 0.2, -0.3, 0.2, 0.1], "likely fine"),
        ([-0.3, 0.4, -0.3, 0.2, 0.1], "too noisy"),
    ],
)
def test_an_inconclusive_metric_says_which_way_it_leans(
    gating: Any, logs: list[float], leaning: str
) -> None:
    found = judged(gating, logs)
    assert (found.verdict, found.leaning) == (Verdict.INCONCLUSIVE, leaning)


@pytest.mark.parametrize(
    ("log", "verdict"),
    [(0.0, Verdict.PASS), (0.04, Verdict.PASS), (0.06, Verdict.FAIL), (math.log(1.05), Verdict.INCONCLUSIVE)],
)  # fmt: skip
def test_without_noise_the_difference_itself_decides(
    gating: Any, log: float, verdict: Verdict
) -> None:
    level_ = level([gating.run()] * 5, [gating.run({"ttft_s_p50": 0.1 * math.exp(log)}, is_candidate=True)] * 5)  # fmt: skip
    (found,) = judge_metrics([level_], ONE_LOOK)
    assert found.evidence is not None
    if verdict is not Verdict.INCONCLUSIVE:  # at the margin itself rounding decides what is below
        assert found.verdict is verdict


def test_a_difference_that_is_surely_small_passes_whatever_its_ratio(gating: Any) -> None:
    logs = [0.09, 0.11, 0.1, 0.085, 0.105]
    small = MetricRule("ttft_s_p50", 0.05, min_abs=0.012)
    found = judged(gating, logs, small)
    assert (found.verdict, found.is_small) == (Verdict.PASS, True)
    assert found.said == "it is worse by less than 12.0 ms"
    assert (
        judged(gating, logs, MetricRule("ttft_s_p50", 0.05, min_abs=0.011)).verdict is Verdict.FAIL
    )


def test_min_abs_of_a_rate_is_what_is_lost(gating: Any) -> None:
    logs = [0.09, 0.11, 0.1, 0.085, 0.105]
    assert judged(gating, logs, MetricRule("output_tok_s", 0.05, min_abs=10.5)).is_small
    assert not judged(gating, logs, MetricRule("output_tok_s", 0.05, min_abs=9.5)).is_small


@pytest.mark.parametrize(
    ("base", "cand", "verdict", "said"),
    [
        (None, 0.1, Verdict.INVALID, "baseline: not measured (in 5 of 5 runs)"),
        (0.1, None, Verdict.INVALID, "candidate: not measured (in 5 of 5 runs)"),
        (0.1, math.nan, Verdict.INVALID, "candidate: its value is not a number"),
        (0.1, math.inf, Verdict.FAIL, "5 of 5 candidate runs failed: inf"),
        (math.inf, 0.1, Verdict.INVALID, "a value of the baseline is 0 or infinite"),
        (math.inf, math.inf, Verdict.INVALID, "a value of the baseline is 0 or infinite"),
        (0.1, 0.0, Verdict.INVALID, "a value of the candidate is 0 or infinite"),
        (0.0, 0.1, Verdict.INVALID, "a value of the baseline is 0 or infinite"),
        (0.1, -0.1, Verdict.INVALID, "a value of the candidate is 0 or infinite"),
    ],
)  # fmt: skip
def test_a_latency_without_a_ratio_never_passes(
    gating: Any, base: float | None, cand: float | None, verdict: Verdict, said: str
) -> None:
    sides = level([gating.run({"ttft_s_p50": base})] * 5, [gating.run({"ttft_s_p50": cand}, is_candidate=True)] * 5)  # fmt: skip
    (found,) = judge_metrics([sides], ONE_LOOK)
    assert found.verdict is verdict
    assert found.said.startswith(said)


@pytest.mark.parametrize(
    ("base", "cand", "verdict"),
    [(100.0, 0.0, Verdict.FAIL), (0.0, 100.0, Verdict.INVALID), (0.0, 0.0, Verdict.INVALID), (100.0, math.inf, Verdict.INVALID)],
)  # fmt: skip
def test_a_rate_of_zero_fails_the_candidate_alone(
    gating: Any, base: float, cand: float, verdict: Verdict
) -> None:
    sides = level([gating.run({"output_tok_s": base})] * 5, [gating.run({"output_tok_s": cand}, is_candidate=True)] * 5)  # fmt: skip
    (found,) = judge_metrics([sides], GateRules(metrics=(RATE,), pairs=(5,)))
    assert found.verdict is verdict


def test_one_run_without_a_value_is_enough_not_to_pass(gating: Any) -> None:
    sides = level([gating.run()] * 5, [gating.run(is_candidate=True)] * 4 + [gating.run({"ttft_s_p50": None}, is_candidate=True)])  # fmt: skip
    (found,) = judge_metrics([sides], ONE_LOOK)
    assert found.verdict is Verdict.INVALID
    assert found.said == "candidate: not measured (in 1 of 5 runs)"


def test_an_optional_metric_is_left_out_only_where_no_run_has_it(gating: Any) -> None:
    rules = GateRules(metrics=(MetricRule("ttft_s_p99", 0.15, optional=True),), pairs=(5,))
    without = {"ttft_s_p99": None}
    base, cand = gating.run(without), gating.run(without, is_candidate=True)
    (found,) = judge_metrics([level([base] * 5, [cand] * 5)], rules)
    assert found.verdict is None
    assert found.said.startswith("not gated: ")
    (found,) = judge_metrics([level([gating.run()] * 5, [cand] * 5)], rules)
    assert found.verdict is Verdict.INVALID


def test_a_summary_that_does_not_know_the_metric_does_not_pass(gating: Any) -> None:
    run = gating.run()
    old = Summary(run.manifest, run.validity, run.checks, (), None, ())
    (found,) = judge_metrics([level([run] * 5, [old] * 5)], ONE_LOOK)
    assert found.verdict is Verdict.INVALID
    assert "summarised without this metric" in found.said


def test_sides_of_unlike_length_are_not_compared_in_what_depends_on_it(gating: Any) -> None:
    sides = Level("backlog", (gating.run(),) * 5, (gating.run(is_candidate=True),) * 5, is_paired=True, is_same_length=False)  # fmt: skip
    found = judge_metrics([sides], GateRules())
    assert {d.metric: d.verdict for d in found} == {
        "output_tok_s": Verdict.NOT_COMPARABLE,
        "ttft_s_p50": Verdict.PASS,
        "tpot_s_p50": Verdict.PASS,
        "ttft_s_p99": Verdict.PASS,
        "failure_rate": Verdict.PASS,
    }


@pytest.mark.parametrize(
    ("base", "cand", "verdict"),
    [(0, 0, Verdict.PASS), (0, 1, Verdict.PASS), (1, 0, Verdict.PASS), (0, 6, Verdict.PASS), (0, 10, Verdict.FAIL), (10, 10, Verdict.PASS)],
)  # fmt: skip
def test_more_failures_fail_where_chance_does_not_explain_them(
    gating: Any, base: int, cand: int, verdict: Verdict
) -> None:
    """Of five metrics one must be below 0.5 %: Holm's correction over all."""
    sides = level(
        [gating.run(failed=base if i == 0 else 0) for i in range(5)],
        [gating.run(failed=cand if i == 0 else 0, is_candidate=True) for i in range(5)],
    )
    found = {d.metric: d for d in judge_metrics([sides], GateRules())}["failure_rate"]
    assert found.verdict is verdict
    assert (found.baseline, found.candidate) == (base / 500, cand / 500)
    assert found.p_fail == pytest.approx(
        stats.fisher_exact([[cand, 500 - cand], [base, 500 - base]], alternative="greater").pvalue
    )


def test_failing_takes_holms_correction_over_all_metrics(gating: Any) -> None:
    """A p of FAIL between 0.025 / 5 and 0.025 fails alone, and not as one of five."""
    ratios = [1.10, 1.16, 1.06, 1.13, 1.07]
    pairs = gating.pairs("ttft_s_p50", ratios)
    sides = level([p.baseline for p in pairs], [p.candidate for p in pairs])
    (alone,) = judge_metrics([sides], GateRules(metrics=(TTFT,)))
    among = {d.metric: d for d in judge_metrics([sides], GateRules())}["ttft_s_p50"]
    assert alone.p_fail is not None
    assert 0.005 < alone.p_fail < 0.025
    assert (alone.verdict, among.verdict) == (Verdict.FAIL, Verdict.INCONCLUSIVE)
    assert among.p_fail_holm == pytest.approx(5 * alone.p_fail)


def test_welchs_test_agrees_with_scipy() -> None:
    base = [math.log(v) for v in (100.0, 102, 98, 101, 99)]
    cand = [math.log(v) for v in (95.0, 96, 94, 97, 93)]
    found = welch_noninferiority(base, cand, 0.05, 0.05)
    assert [math.exp(v) for v in (found.d, found.lo, found.hi)] == pytest.approx(
        [0.949990, 0.932017, 0.968309], abs=1e-6
    )
    shifted = [v - math.log1p(0.05) for v in cand]
    expected = stats.ttest_ind(shifted, base, equal_var=False, alternative="less")
    assert found.p_noninf == pytest.approx(expected.pvalue)
    assert found.p_noninf + found.p_fail == pytest.approx(1)


def test_welchs_test_of_equal_runs_has_no_noise() -> None:
    found = welch_noninferiority([0.0] * 5, [0.1] * 5, 0.05, 0.025)
    assert (found.p_noninf, found.p_fail, found.lo, found.hi) == (1.0, 0.0, 0.1, 0.1)


def test_signs_give_a_second_opinion_on_pairs_alone(gating: Any) -> None:
    assert judged(gating, [0.01, 0.02, 0.01, 0.02, 0.01]).sign_flip_p == pytest.approx(1 / 32)
    runs = [gating.run()] * 5
    (found,) = judge_metrics([level(runs, runs, is_paired=False)], ONE_LOOK)
    assert found.sign_flip_p is None
