"""A faster side that did other work is named, with what it did; unlike lengths have no ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.summarize import summarize
from harness.core.cautions import Code
from harness.core.marks import marks_of_ids, marks_of_text
from harness.core.record import RequestRecord
from harness.core.rundir import RunFolder
from harness.gate.agreement import Agreement, Answers, agreement
from harness.gate.comparison import Comparison, ComparisonTable, compare, with_agreement
from harness.gate.decision import decide, with_answers
from harness.gate.duel import metrics_of
from harness.gate.lengths import UNLIKE_WORK
from harness.gate.other_work import agreement_cautions
from harness.gate.rules import GateRules, MetricRule
from harness.gate.verdict import Verdict

PLAIN = Answers(200, 128, 128, 0, 128.0, 128, 128, 10.0)
ALIKE = Agreement(PLAIN, PLAIN, "token", 200, 200, None, (0,) * 6, 0, lengths_p=1.0)


def row(metric: str, base: float, cand: float, *, is_unclear: bool = False) -> Comparison:
    lo, hi = (0.5, 2.0) if is_unclear else (cand / base * 0.99, cand / base * 1.01)
    return Comparison(metric, base, cand, cand / base, lo, hi)


def said(found: Agreement, *rows: Comparison) -> list[str]:
    doubts = agreement_cautions(("static", "continuous"), found, rows)
    return [d.message for d in doubts if d.code == Code.FASTER_DID_OTHER_WORK]


def candidate(found: Agreement = ALIKE, **changes: Any) -> Agreement:
    return replace(found, candidate=replace(PLAIN, **changes))


def test_a_faster_side_that_did_the_same_work_is_not_doubted() -> None:
    assert said(ALIKE, row("request_s", 1.0, 2.0)) == []


def test_a_faster_side_whose_answers_are_shorter_is_named_with_both_lengths() -> None:
    assert said(candidate(tokens_mean=112.0), row("request_s", 10.0, 11.1)) == [
        "continuous is the faster side (1.11x requests/s) and did other work than static: "
        "its answers are shorter, 112.0 tokens on average and not 128.0"
    ]


def test_it_is_the_baseline_where_that_is_the_faster_one_by_a_latency() -> None:
    found = replace(ALIKE, baseline=replace(PLAIN, empty=12))
    latency = row("e2e_s_p50", 1.0, 2.0)

    assert said(found, row("request_s", 1.0, 1.0), latency) == [
        "static is the faster side (0.50x end-to-end latency p50) and did other work than "
        "continuous: 6.0 % are empty and not 0.0 %"
    ]
    assert said(candidate(empty=12), latency) == []  # the slower side's


def test_other_tokens_are_other_work_of_whichever_side_is_faster() -> None:
    found = replace(ALIKE, same=120, first_difference_p50=4, first_differences=(0, 80, 0, 0, 0, 0))

    assert said(found, row("output_tok_s", 10.0, 5.0)) == [
        "static is the faster side (2.00x output tok/s) and did other work than continuous: "
        "40.0 % have other tokens"
    ]


def test_all_that_it_did_otherwise_is_one_sentence() -> None:
    found = replace(candidate(tokens_mean=200.0, empty=100), same=0, lengths_p=1e-9)

    (message,) = said(found, row("request_s", 1.0, 2.0))
    assert message.endswith(
        "its answers are longer, 200.0 tokens on average and not 128.0, "
        "50.0 % are empty and not 0.0 %, 100.0 % have other tokens"
    )


@pytest.mark.parametrize(
    "changes",
    [{"tokens_mean": 126.0}, {"empty": 2}, {"tokens_p50": 64}],
    ids=["a length within 2 %", "1 % empty", "a quantile alone"],
)
def test_what_is_within_tolerance_is_no_other_work(changes: dict[str, Any]) -> None:
    assert said(candidate(**changes), row("request_s", 1.0, 2.0)) == []


@pytest.mark.parametrize(
    "speed",
    [
        row("request_s", 1.0, 1.02),
        row("request_s", 1.0, 1.5, is_unclear=True),
        Comparison("request_s", 1.0, None, None, None, None, "not measured"),
        Comparison("request_s", 0.0, 1.0, None, None, None, "a value is 0"),
        row("failure_rate", 1.0, 2.0),
    ],
    ids=["within 2 %", "unclear", "not measured", "zero", "no speed"],
)
def test_no_side_is_called_faster_where_none_is_shown_to_be(speed: Comparison) -> None:
    assert said(candidate(tokens_mean=64.0), speed) == []


def answered(build: Any, lengths: Sequence[int], **changes: Any) -> RunFolder:
    """A run whose answers have these lengths, as asked, one token a millisecond."""
    records: list[RequestRecord] = [
        build.record(
            i,
            [100.0 + k for k in range(length)],
            ids_marks=marks_of_ids(range(length)),
            text_marks=marks_of_text("word"),
        )
        for i, length in enumerate(lengths)
    ]
    return build.run(records, **changes)  # type: ignore[no-any-return]


# As long on average, and one side all alike.
EVEN, SPREAD = [50] * 60, [20, 80] * 30


def table(build: Any, base: Sequence[int], cand: Sequence[int]) -> ComparisonTable:
    runs = [answered(build, base), answered(build, cand)]
    found = compare("a", [summarize(runs[0])], "b", [summarize(runs[1])], paired=True)
    return with_agreement(found, runs[:1], runs[1:])


def ratios(found: ComparisonTable) -> dict[str, float | None]:
    return {row.metric: row.ratio for row in found.rows}


BOUND = ("output_tok_s", "request_s", "makespan_s", "e2e_s_p50", "e2e_s_mean")
FREE = ("ttft_s_p50", "tpot_s_p50", "output_tokens")


@pytest.mark.parametrize("lengths", [[40] * 60, SPREAD], ids=["shorter", "otherwise distributed"])
def test_what_follows_the_length_of_answers_has_no_ratio_where_they_are_unlike(
    build: Any, lengths: list[int]
) -> None:
    found = table(build, EVEN, lengths)

    for name in BOUND:
        of_metric = next(row for row in found.rows if row.metric == name)
        assert (of_metric.ratio, of_metric.lo, of_metric.reason) == (None, None, UNLIKE_WORK)
        assert None not in (of_metric.baseline, of_metric.candidate)
    assert all(ratios(found)[name] is not None for name in FREE)
    assert not found.is_like_work


def test_equal_lengths_have_all_ratios(build: Any) -> None:
    found = table(build, SPREAD, SPREAD[::-1])

    assert None not in {ratios(found)[name] for name in (*BOUND, *FREE)}
    assert found.is_like_work
    assert found.agreement is not None
    assert found.agreement.lengths_p == 1.0


def test_lengths_of_another_distribution_are_a_caution_by_name(build: Any) -> None:
    codes = {doubt.code for doubt in table(build, EVEN, SPREAD).cautions}

    assert Code.OTHER_LENGTHS in codes
    assert Code.DIFFERENT_OUTPUT not in codes
    assert Code.DIFFERENT_OUTPUT in {d.code for d in table(build, EVEN, [40] * 60).cautions}


def test_lengths_are_held_against_each_other_only_where_they_were_asked_for_alike(
    build: Any,
) -> None:
    def p(**work: Any) -> float | None:
        other = build.workload(digest="e" * 64, **work)
        return agreement([answered(build, EVEN)], [answered(build, SPREAD, workload=other)]).lengths_p  # fmt: skip

    assert p() is not None
    assert p(shape_digest="6" * 64) is None
    assert agreement([build.run([build.failed(0)])], [answered(build, EVEN)]).lengths_p is None


def test_quantiles_and_means_of_both_sides_are_kept(build: Any) -> None:
    lengths = list(range(1, 101))
    found = agreement([answered(build, lengths)], [answered(build, [5] * 100)])

    base = found.baseline
    assert (base.tokens_p10, base.tokens_p50, base.tokens_p90, base.tokens_p99) == (10, 50, 90, 99)
    assert (base.tokens_mean, base.prompt_tokens_mean) == (50.5, 10.0)
    assert (found.candidate.tokens_p10, found.candidate.tokens_mean) == (5, 5.0)


RULES = GateRules(metrics=(MetricRule("output_tok_s", 0.05), MetricRule("ttft_s_p50", 0.05)))
UNLIKE = replace(candidate(tokens_mean=128.5), lengths_p=0.001)


def test_a_gate_gives_no_verdict_on_what_follows_lengths_that_are_unlike(gating: Any) -> None:
    faster = decide(gating.pairs("output_tok_s", [1.3] * 5), RULES, is_last_look=True)
    assert faster.verdict is Verdict.PASS
    assert with_answers(faster, ALIKE) == faster

    found = with_answers(faster, UNLIKE)
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reasons == (f"output tok/s: {UNLIKE_WORK}",)
    of_rate, of_latency = found.metrics[:2]
    assert (of_rate.verdict, of_rate.evidence) == (Verdict.NOT_COMPARABLE, None)
    assert of_rate.candidate == pytest.approx(130.0)
    assert of_latency.verdict is Verdict.PASS
    codes = [doubt.code for doubt in found.cautions]
    assert Code.OTHER_LENGTHS in codes
    assert Code.FASTER_DID_OTHER_WORK in codes


def test_a_latency_that_fails_fails_whatever_the_lengths(gating: Any) -> None:
    slower = decide(gating.pairs("ttft_s_p50", [1.2] * 5), RULES, is_last_look=True)

    assert with_answers(slower, UNLIKE).verdict is Verdict.FAIL


def test_more_pairs_tell_nothing_of_unlike_work(gating: Any) -> None:
    ratios = [1.1, 0.9, 1.08, 0.92, 1.0]
    wavering = decide(gating.pairs("output_tok_s", ratios), RULES, is_last_look=False)
    assert wavering.verdict is Verdict.INCONCLUSIVE

    assert not with_answers(wavering, UNLIKE).needs_more_pairs


def test_a_duel_has_no_ratio_of_unlike_work_either(gating: Any) -> None:
    pairs = gating.pairs("output_tok_s", [1.3] * 5)
    alike, unlike = ({m.metric: m for m in metrics_of(pairs, is_like_work=is_like)} for is_like in (True, False))  # fmt: skip

    assert alike["output_tok_s"].ratio == pytest.approx(1.3)
    assert (unlike["output_tok_s"].ratio, unlike["output_tok_s"].p) == (None, None)
    assert unlike["output_tok_s"].reason == UNLIKE_WORK
    assert unlike["ttft_s_p50"] == alike["ttft_s_p50"]
