"""Faults that users of other tools reported of comparisons, kind H, and of labels that promise
other lengths, E16, with the answers that are right here. See test_import_cases for results of other
tools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import console
from harness.analyzer.metric import Better
from harness.analyzer.metrics import METRICS, find_metric
from harness.core.errors import NotComparable, UsageError
from harness.gate.comparison import compare


def test_h01_runs_of_different_models_are_not_paired(build: Any) -> None:
    """vllm#23047: the comparison paired by order whatever was measured."""
    other = replace(build.manifest().facts, model="Qwen3-0.6B", model_digest="b" * 64)
    one, two = build.summary([build.record(0)]), build.summary([build.record(0)], facts=other)
    with pytest.raises(NotComparable, match=r"model: SmolLM2-135M \(baseline\) / Qwen3-0.6B"):
        compare("base", [one], "cand", [two], paired=True)


def test_h04_runs_of_different_machines_are_refused(build: Any) -> None:
    """larql#370: the baseline came from another machine."""
    other = replace(build.manifest().machine, cpu_model="Intel Xeon")
    one, two = build.summary([build.record(0)]), build.summary([build.record(0)], machine=other)
    with pytest.raises(NotComparable, match=r"CPU: AMD EPYC \(baseline\) / Intel Xeon \(cand"):
        compare("base", [one], "cand", [two], paired=True)


def test_h07_every_metric_knows_which_way_is_better() -> None:
    """torchrec#4280: a tail of throughput is its low end. Unknown metrics are refused."""
    ways = {metric.name: metric.better for metric in METRICS}
    assert ways["output_tok_s"] is ways["request_s"] is Better.HIGHER
    assert ways["ttft_s_p99"] is ways["failure_rate"] is Better.LOWER
    with pytest.raises(UsageError, match="no metric 'p99_intvty'"):
        find_metric("p99_intvty")


@pytest.mark.parametrize("requests", [1, 2, 6, 7, 36, 37, 368, 401])
def test_h15_no_percentile_exceeds_the_maximum(build: Any, requests: int) -> None:
    """locust#331: rounded percentiles above the largest value."""
    times = [100 + (i * 7919) % 1009 / 7 for i in range(requests)]
    summary = build.summary([build.record(i, (ms, ms + 1)) for i, ms in enumerate(times)])
    line = [summary.value(f"ttft_s_{end}") for end in ("p50", "p90", "p99", "max")]
    known = [value for value in line if value is not None]
    assert known == sorted(known)
    assert known[-1] == round(max(times) * 1e6) / 1e9
    assert known[0] >= min(times) / 1e3


def test_h17_a_p99_is_of_all_requests_not_a_mean_of_p99s(build: Any) -> None:
    """k8s-netperf#148: shards of 10 ms and 100 ms have a p99 of 100, not of 55."""
    times = [10] * 200 + [100] * 200
    summary = build.summary([build.record(i, (ms, ms)) for i, ms in enumerate(times)])
    assert summary.value("ttft_s_p99") == 0.1


def test_h19_unlike_lengths_of_answers_are_pointed_out(build: Any) -> None:
    """sglang#4245: engines compared with answers of different lengths."""
    one = build.summary([build.record(0, range(100, 200))])
    two = build.summary([build.record(0, range(100, 190), asked=100)])
    table = compare("base", [one], "cand", [two], paired=True)
    codes = {caution.code for caution in table.cautions}
    assert {"DIFFERENT_OUTPUT", "RUN_INVALID"} <= codes


def test_h19_e16_what_follows_the_length_of_answers_has_no_ratio_then(build: Any) -> None:
    """InferenceX#356: 7,373 tokens under the label of 8k; a mean that differs by 2 % is too much."""
    sides = [[build.record(i, range(100, 100 + n)) for i in range(10)] for n in (100, 98, 97)]
    runs = [build.summary(records) for records in sides]
    for cand, is_compared in ((runs[1], True), (runs[2], False)):
        rows = {row.metric: row for row in compare("a", [runs[0]], "b", [cand], paired=True).rows}
        assert (rows["output_tok_s"].ratio is not None) == is_compared
        assert rows["ttft_s_p50"].ratio == 1


def test_e16_prompts_whose_actual_means_differ_are_not_compared(build: Any) -> None:
    """One name of a workload, and engines that read 100 and 106 tokens of it."""
    plain, templated = (
        build.summary([build.record(i, prompt_tokens=n, prompt_tokens_asked=n) for i in range(10)])
        for n in (100, 106)
    )
    with pytest.raises(NotComparable, match="prompt lengths: 100.0 tokens on average.*106.0"):
        compare("a", [plain], "b", [templated], paired=True)
    allowed = compare("a", [plain], "b", [templated], paired=True, allowed=("prompt_lengths",))
    assert len(allowed.allowed) == 1
    near = build.summary(
        [build.record(i, prompt_tokens=101, prompt_tokens_asked=101) for i in range(10)]
    )
    assert compare("a", [plain], "b", [near], paired=True).allowed == ()


def test_e16_a_summary_says_actual_lengths_beside_its_label(
    build: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    console.print_summaries([build.summary([build.record(i, range(9)) for i in range(4)])])
    said = "eight-agents x4 backlog; on average 10.0 prompt tokens and 9.0 output tokens\n"
    assert said in capsys.readouterr().out
