from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analyzer.metrics import METRICS
from harness.analyzer.significance import benjamini_hochberg
from harness.analyzer.summary import Summary
from harness.core.errors import NotComparable, UsageError
from harness.core.jsonable import to_json
from harness.core.slo import parse_slos
from harness.gate.comparison import Comparison, ComparisonTable, compare, phrase


def timed(build: Any, makespan_ms: float, **changes: Any) -> Summary:
    """A run of ten tokens that took `makespan_ms`."""
    events = [makespan_ms * (i + 1) / 10 for i in range(10)]
    return build.summary([build.record(0, events)], **changes)


def sides(
    build: Any, base: Sequence[float], cand: Sequence[float], *, paired: bool = True
) -> ComparisonTable:
    continuous = replace(build.manifest().engine, name="inhouse-continuous", policy="continuous")
    return compare(
        "inhouse-static",
        [timed(build, ms) for ms in base],
        "inhouse-continuous",
        [timed(build, ms, engine=continuous) for ms in cand],
        paired=paired,
    )


def row(table: ComparisonTable, metric: str) -> Comparison:
    return next(row for row in table.rows if row.metric == metric)


def codes(table: ComparisonTable) -> list[str]:
    return [caution.code for caution in table.cautions]


def test_one_run_a_side_gives_a_ratio_without_an_interval(build: Any) -> None:
    table = sides(build, [1930], [1000])
    found = row(table, "output_tok_s")
    assert (found.baseline, found.candidate) == (pytest.approx(10 / 1.93), 10.0)
    assert found.ratio == pytest.approx(1.93)
    assert (found.lo, found.hi) == (None, None)
    assert found.reason == "1 run(s) on a side give no interval (3 needed)"
    assert codes(table) == ["TOO_FEW_RUNS"]
    assert (table.baseline_runs, table.candidate_runs) == (1, 1)
    assert table.factors == ("policy: static / continuous",)


def test_a_ratio_is_said_with_what_it_is_compared_to(build: Any) -> None:
    table = sides(build, [1930], [1000])
    assert phrase(table, row(table, "output_tok_s")) == (
        "1.93x output tok/s vs inhouse-static "
        "(SmolLM2-135M bf16, 2-core AMD EPYC, eight-agents x4 backlog)"
    )


def test_a_missing_ratio_is_said_with_its_reason(build: Any) -> None:
    table = sides(build, [1930], [1000])
    assert phrase(table, row(table, "ttft_s_p50")) == (
        "no ratio of TTFT p50 vs inhouse-static: "
        "baseline: 1 requests cannot support p50 (6 needed); "
        "candidate: 1 requests cannot support p50 (6 needed) "
        "(SmolLM2-135M bf16, 2-core AMD EPYC, eight-agents x4 backlog)"
    )


def test_three_pairs_have_an_interval_on_their_log_ratios(build: Any) -> None:
    base = [100.0, 104, 98, 110, 102, 96]
    cand = [103.0, 106, 101, 112, 106, 98]
    found = row(sides(build, base, cand), "makespan_s")
    assert found.baseline == pytest.approx(0.101667, abs=1e-6)
    assert found.ratio == pytest.approx(1.026318, abs=1e-6)
    assert (found.lo, found.hi) == pytest.approx((1.017654, 1.035056), abs=1e-6)
    assert found.reason is None


def test_without_pairs_the_interval_is_welchs_and_a_caution_says_so(build: Any) -> None:
    table = sides(build, [100, 102, 98, 101, 99], [95, 96, 94, 97, 93], paired=False)
    found = row(table, "makespan_s")
    assert (found.lo, found.hi) == pytest.approx((0.92775, 0.972762), abs=1e-6)
    assert codes(table) == ["UNPAIRED_RUNS"]


def test_sides_of_unequal_size_are_not_pairs(build: Any) -> None:
    table = sides(build, [100, 102, 98, 101], [95, 96, 94], paired=True)
    assert codes(table) == ["UNPAIRED_RUNS"]
    assert row(table, "makespan_s").lo is not None


def test_a_zero_has_no_ratio(build: Any) -> None:
    found = row(sides(build, [100], [100]), "failure_rate")
    assert (found.baseline, found.candidate, found.ratio) == (0.0, 0.0, None)
    assert found.reason == "a value is 0, so there is no ratio"


def test_one_run_without_a_value_leaves_its_side_without_one(build: Any) -> None:
    few, enough = (build.summary([build.record(i) for i in range(n)]) for n in (5, 6))
    table = compare("a", [enough, few], "b", [enough, enough], paired=True)
    found = row(table, "ttft_s_p50")
    assert (found.baseline, found.candidate, found.ratio) == (None, 0.1, None)
    assert found.reason == ("baseline: 5 requests cannot support p50 (6 needed) (in 1 of 2 runs)")


def test_every_metric_has_a_row_that_json_can_hold(build: Any) -> None:
    table = sides(build, [100, 101, 102], [90, 91, 92])
    assert [row.metric for row in table.rows] == [metric.name for metric in METRICS]
    json.dumps(to_json(table), allow_nan=False)
    for found in table.rows:
        is_whole = None not in (found.ratio, found.lo, found.hi)
        assert is_whole == (found.reason is None)


def test_an_invalid_side_is_a_caution(build: Any) -> None:
    failing = build.summary([build.record(0), build.failed(1)], run_id="run-9")
    table = compare("base", [build.summary([build.record(0)])], "cand", [failing], paired=True)
    doubt = next(c for c in table.cautions if c.code == "RUN_INVALID")
    assert doubt.message == (
        "run run-9 of cand is INVALID (V15 requests failed), so a ratio with it proves nothing"
    )


def test_unlike_amounts_of_output_are_a_caution(build: Any) -> None:
    tokens = {98: False, 97: True}
    for count, is_doubted in tokens.items():
        base = build.summary([build.record(0, tokens=[50, 50], asked=100)])
        cand = build.summary([build.record(0, tokens=[50, count - 50], asked=100)])
        table = compare("base", [base], "cand", [cand], paired=True)
        assert ("DIFFERENT_OUTPUT" in codes(table)) == is_doubted


def test_unlike_runs_are_refused(build: Any) -> None:
    other = build.summary([build.record(0)], machine=replace(build.manifest().machine, cores=64))
    with pytest.raises(NotComparable, match=r"cores: 2 \(baseline\) / 64 \(candidate\)"):
        compare("a", [build.summary([build.record(0)])], "b", [other], paired=True)


def test_unlike_repeats_of_one_side_are_refused(build: Any) -> None:
    plain = timed(build, 100)
    slots = timed(build, 100, engine=replace(build.manifest().engine, slots=2))
    with pytest.raises(NotComparable, match=r"of one side differ in slots: 8 / 2"):
        compare("a", [plain, plain], "b", [plain, slots], paired=True)


def test_repeats_with_a_seed_for_each_pair_are_no_doubt(build: Any) -> None:
    one, two = (
        timed(build, 100, workload=build.workload(seed=seed, digest=str(seed) * 64))
        for seed in (1, 2)
    )
    in_step = compare("a", [one, two], "b", [one, two], paired=True)
    crossed = compare("a", [one, two], "b", [one, one], paired=True)
    assert "DIFFERENT_PROMPTS" not in codes(in_step)
    assert "DIFFERENT_PROMPTS" in codes(crossed)


def test_simulated_runs_say_so_in_every_phrase(build: Any) -> None:
    run = timed(build, 100, clock="virtual")
    table = compare("a", [run], "b", [run], paired=True)
    assert table.context.endswith("eight-agents x4 backlog, simulated")
    assert "VIRTUAL_TIME" in codes(table)


def test_a_side_without_runs_is_refused(build: Any) -> None:
    run = timed(build, 100)
    with pytest.raises(UsageError, match="cand has no runs"):
        compare("base", [run], "cand", [], paired=True)
    with pytest.raises(UsageError, match="base has no runs"):
        compare("base", [], "cand", [run], paired=True)


makespans = st.lists(
    st.tuples(st.integers(10, 10_000), st.integers(10, 10_000)), min_size=1, max_size=5
)


@settings(max_examples=30)
@given(makespans, st.booleans())
def test_swapping_the_sides_inverts_every_ratio(
    build: Any, pairs: list[tuple[int, int]], paired: bool
) -> None:
    one, other = [timed(build, a) for a, _ in pairs], [timed(build, b) for _, b in pairs]
    there = compare("a", one, "b", other, paired=paired)
    back = compare("b", other, "a", one, paired=paired)
    for left, right in zip(there.rows, back.rows, strict=True):
        assert (left.baseline, left.candidate) == (right.candidate, right.baseline)
        assert (left.ratio is None) == (right.ratio is None)
        if left.ratio is not None and right.ratio is not None:
            assert left.ratio * right.ratio == pytest.approx(1)
        if left.lo is not None and right.hi is not None:
            assert left.lo * right.hi == pytest.approx(1, rel=1e-6)
            assert left.lo <= left.ratio <= left.hi


def test_sides_that_are_judged_by_different_limits_have_no_ratio_of_goodput(build: Any) -> None:
    limits = {text: parse_slos((text,)) for text in ("ttft=1s", "ttft=2s")}
    one, same, other = (
        build.summary([build.record(0)], slos=limits[text])
        for text in ("ttft=1s", "ttft=1s", "ttft=2s")
    )
    alike = compare("base", [one], "cand", [same], paired=True)
    unlike = compare("base", [one], "cand", [other], paired=True)
    for metric in ("goodput_frac", "goodput_req_s"):
        assert row(alike, metric).ratio == 1.0
        found = row(unlike, metric)
        assert (found.baseline, found.candidate, found.ratio) == (None, None, None)
        assert "different limits; name them with --slo" in (found.reason or "")
    assert row(unlike, "request_s").ratio == 1.0


def test_p_is_corrected_for_all_rows_of_the_table(build: Any) -> None:
    table = sides(build, [100, 103, 98, 101], [102, 104, 103, 105])
    rows = [row for row in table.rows if row.p is not None]

    assert [row.p_table for row in rows] == list(benjamini_hochberg([row.p for row in rows]))
    for row in table.rows:
        assert (row.p is None) == (row.p_table is None) == (row.lo is None)
        if row.p is not None:
            assert row.is_unclear == (row.p > 0.05)
