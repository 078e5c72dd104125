from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyzer import dialect_measures as measured
from harness.analyzer.dialects import DIALECTS, read_dialects
from harness.analyzer.estimators import percentile
from harness.analyzer.frame import frame_of
from harness.analyzer.metrics import METRICS, find_metric
from harness.analyzer.number_dialect import QUANTITIES, our_metric
from harness.core.record import Outcome, TokenSource
from harness.core.units import ms_to_ns
from harness.core.workload import Load, LoadKind

POISSON = Load(LoadKind.POISSON, rate_rps=10.0)
TOOLS = ("vLLM bench", "SGLang", "GuideLLM", "AIPerf", "MLPerf")

finite = st.floats(0.001, 1000, allow_nan=False)


def late_with_chunks(build: Any) -> Any:
    """Due 0, sent 10. Chunks of 1, 2 and 2 tokens; usage of 5 and the end at 160. 6 were asked."""
    return build.record(
        0, (110, 130, 150), sent_ms=10, tokens=(1, 2, 2), asked=6, closed_ns=ms_to_ns(160)
    )


def one_token(build: Any) -> Any:
    return build.record(1, (200,), due_ms=100, closed_ns=ms_to_ns(205))


def failed(build: Any) -> Any:
    return build.failed(2, due_ns=ms_to_ns(200), sent_ns=ms_to_ns(200), closed_ns=ms_to_ns(220))


def plain(build: Any) -> Any:
    return build.record(3, (420, 435, 460), due_ms=300, closed_ns=ms_to_ns(470))


def numbers(run: Any, tool: str) -> dict[str, float | None]:
    """The tool's numbers for `run`; latencies in ms."""
    return {
        r.quantity: r.value if r.value is None or r.unit != "s" else r.value * 1000
        for r in read_dialects(run)
        if r.tool == tool
    }


def reason(run: Any, tool: str, quantity: str) -> str:
    (found,) = (r for r in read_dialects(run) if (r.tool, r.quantity) == (tool, quantity))
    assert found.value is None
    return found.reason or ""


# Sent 10, 100, 300; first tokens 110, 200, 420; last tokens 150, 200, 460; closed 160, 205, 470;
# 5, 1 and 3 tokens, 10 prompt tokens each. The failed one closed at 220.
BY_HAND = [
    (
        "vLLM bench",
        {
            # 100, 100, 120; p99 lies 0.98 of the way from the 2nd to the 3rd
            "TTFT mean": 320 / 3,
            "TTFT p50": 100,
            "TTFT p99": 119.6,
            # 40 / 4 and 40 / 2; the answer of one token has none
            "TPOT mean": 15,
            "TPOT p50": 15,
            "TPOT p99": 19.9,
            # 20, 20, 15, 25
            "ITL mean": 20,
            "ITL p50": 20,
            "ITL p99": 24.85,
            # 140, 100, 160
            "E2E mean": 400 / 3,
            "E2E p50": 140,
            "E2E p99": 159.6,
            # from 0 to 470
            "output tok/s": 9 / 0.470,
            "total tok/s": 39 / 0.470,
            "requests/s": 3 / 0.470,
        },
    ),
    (
        "SGLang",
        {
            "TTFT mean": 320 / 3,
            # to the close, over the length asked for: 50 / 5 and 50 / 2
            "TPOT mean": 17.5,
            "ITL mean": 20,
            # 150, 105, 170
            "E2E mean": 425 / 3,
            "E2E p50": 150,
            "output tok/s": 10 / 0.470,
            "total tok/s": 40 / 0.470,
            "requests/s": 3 / 0.470,
        },
    ),
    (
        "GuideLLM",
        {
            "TTFT p50": 100,
            "TTFT p99": 120,
            # 140 / 5, 100 / 1 and 160 / 3, weighing 5, 1 and 3
            "TPOT mean": 400 / 9,
            "TPOT p50": 28,
            "TPOT p99": 100,
            # 40 / 4 and 40 / 2, weighing 4 and 2
            "ITL mean": 80 / 6,
            "ITL p50": 10,
            "ITL p99": 20,
            "E2E mean": 425 / 3,
            # from the first token of all, 110, to the last, 460; the failed one has its prompt
            "output tok/s": 9 / 0.350,
            "total tok/s": 49 / 0.350,
            # all four that ended
            "requests/s": 4 / 0.470,
        },
    ),
    (
        "AIPerf",
        {
            "TTFT mean": 320 / 3,
            "TTFT p99": 119.6,
            "ITL mean": 15,
            "ITL p50": 15,
            "E2E mean": 400 / 3,
            # from the first sending, 10, to the last content, 460
            "output tok/s": 9 / 0.450,
            "total tok/s": 39 / 0.450,
            "requests/s": 3 / 0.450,
        },
    ),
]


@pytest.mark.parametrize(("tool", "expected"), BY_HAND)
def test_each_tool_gives_the_numbers_worked_out_by_hand(
    build: Any, tool: str, expected: dict[str, float]
) -> None:
    records = [late_with_chunks(build), one_token(build), failed(build), plain(build)]
    found = numbers(build.run(records, load=POISSON), tool)
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_mlperf_counts_from_due_to_the_close_and_takes_the_next_higher_rank(build: Any) -> None:
    run = build.run([late_with_chunks(build), one_token(build), plain(build)], load=POISSON)
    found = numbers(run, "MLPerf")
    expected = {
        # 110, 100, 120
        "TTFT mean": 110,
        "TTFT p50": 110,
        "TTFT p99": 120,
        # 160, 105, 170
        "E2E mean": 145,
        # until the request issued last has ended, at 470
        "output tok/s": 9 / 0.470,
        "requests/s": 2 / 0.470,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_mlperf_divides_what_follows_the_first_token_by_the_tokens_less_one(build: Any) -> None:
    run = build.run([late_with_chunks(build), plain(build)], load=POISSON)
    assert numbers(run, "MLPerf")["TPOT mean"] == pytest.approx((50 / 4 + 50 / 2) / 2)


def test_mlperf_rejects_a_run_with_a_failed_request_or_an_answer_of_one_token(build: Any) -> None:
    run = build.run([plain(build), failed(build)], load=POISSON)
    assert "1 of 2 requests did not end well" in reason(run, "MLPerf", "TTFT mean")
    assert "INVALID" in reason(run, "MLPerf", "output tok/s")
    run = build.run([plain(build), one_token(build)], load=POISSON)
    assert "fewer than 2 tokens" in reason(run, "MLPerf", "TPOT mean")


def test_mlperf_divides_a_backlog_by_its_longest_latency(build: Any) -> None:
    # Both are due at 0; the one of the higher index ends first.
    records = [build.record(0, (100, 400)), build.record(1, (100, 200))]
    found = numbers(build.run(records), "MLPerf")
    assert found["output tok/s"] == pytest.approx(4 / 0.400)
    assert found["requests/s"] == pytest.approx(2 / 0.400)


def test_mlperf_has_no_rates_for_a_closed_loop(build: Any) -> None:
    run = build.run([plain(build)], load=Load(LoadKind.CLOSED, concurrency=4))
    assert "closed loop" in reason(run, "MLPerf", "requests/s")
    assert numbers(run, "MLPerf")["TTFT mean"] == pytest.approx(120)


def test_a_count_of_chunks_is_taken_for_usage_by_nobody(build: Any) -> None:
    record = build.record(0, (100, 110, 120), asked=8, output_tokens_source=TokenSource.CHUNKS)
    run = build.run([record], load=POISSON)
    assert "tokenise" in reason(run, "vLLM bench", "TPOT mean")
    assert "tokenise" in reason(run, "AIPerf", "output tok/s")
    assert "length asked for or the number of chunks" in reason(run, "GuideLLM", "ITL mean")
    assert "token ids" in reason(run, "MLPerf", "TPOT mean")
    assert numbers(run, "SGLang")["TPOT mean"] == pytest.approx(20 / 7)
    assert numbers(run, "vLLM bench")["TTFT mean"] == pytest.approx(100)


def test_sglang_takes_the_usage_when_it_runs_along(build: Any) -> None:
    record = build.record(
        0, (100, 110, 120), asked=8, output_tokens_source=TokenSource.RUNNING_USAGE
    )
    assert numbers(build.run([record]), "SGLang")["TPOT mean"] == pytest.approx(10)


def test_what_a_failed_request_made_counts_in_the_rates_of_guidellm_only(build: Any) -> None:
    broken = replace(
        build.record(1, (50, 60)),
        outcome=Outcome.FAILED,
        output_tokens=None,
        closed_ns=ms_to_ns(70),
    )
    run = build.run([build.record(0, (100, 150)), broken])
    assert numbers(run, "GuideLLM")["output tok/s"] == pytest.approx(4 / 0.100)
    assert numbers(run, "vLLM bench")["output tok/s"] == pytest.approx(2 / 0.150)
    assert numbers(run, "AIPerf")["output tok/s"] == pytest.approx(2 / 0.150)


def test_a_cancelled_request_has_no_latency_anywhere(build: Any) -> None:
    cancelled = build.record(1, (50, 60), outcome=Outcome.CANCELLED)
    run = build.run([build.record(0, (100, 150)), cancelled])
    for tool in TOOLS[:-1]:
        assert numbers(run, tool)["TTFT mean"] == pytest.approx(100)


def test_an_empty_run_has_a_reason_for_every_number(build: Any) -> None:
    for found in read_dialects(build.run([])):
        assert found.value is None
        assert found.reason


def test_a_run_in_which_all_failed_has_no_number_but_the_requests_of_guidellm(build: Any) -> None:
    run = build.run([failed(build)], load=POISSON)
    known = {(r.tool, r.quantity) for r in read_dialects(run) if r.value is not None}
    assert known == {("GuideLLM", "requests/s")}


@given(
    answers=st.lists(
        st.tuples(st.integers(1, 500), st.lists(st.integers(1, 100), min_size=1, max_size=8)),
        min_size=1,
        max_size=12,
    )
)
def test_without_lag_failures_coalescing_and_tail_all_agree_on_tpot_but_guidellm(
    build: Any, answers: list[tuple[int, list[int]]]
) -> None:
    records = [
        build.record(i, (first, *(first + sum(gaps[: j + 1]) for j in range(len(gaps)))))
        for i, (first, gaps) in enumerate(answers)
    ]
    run = build.run(records)
    ours = find_metric("tpot_s_mean").function(frame_of(run))
    assert isinstance(ours, float)
    for tool in ("vLLM bench", "SGLang", "MLPerf"):
        assert numbers(run, tool)["TPOT mean"] == pytest.approx(ours * 1000)
    assert numbers(run, "AIPerf")["ITL mean"] == pytest.approx(ours * 1000)
    tokens = sum(1 + len(gaps) for _, gaps in answers)
    spent_ms = sum(first + sum(gaps) for first, gaps in answers)
    assert numbers(run, "GuideLLM")["TPOT mean"] == pytest.approx(spent_ms / tokens)


@given(first=st.integers(1, 500), gaps=st.lists(st.integers(1, 100), min_size=1, max_size=8))
def test_a_single_plain_request_has_one_ttft_and_one_latency_in_all_dialects(
    build: Any, first: int, gaps: list[int]
) -> None:
    run = build.run(
        [build.record(0, (first, *(first + sum(gaps[: i + 1]) for i in range(len(gaps)))))]
    )
    for tool in TOOLS:
        found = numbers(run, tool)
        for statistic in ("mean", "p50", "p99"):
            assert found[f"TTFT {statistic}"] == pytest.approx(first)
            assert found[f"E2E {statistic}"] == pytest.approx(first + sum(gaps))


@given(values=st.lists(finite, min_size=1, max_size=50), percent=st.integers(1, 99))
def test_the_percentiles_are_those_of_numpy_of_ours_and_one_rank_up(
    values: list[float], percent: int
) -> None:
    weighted = [(value, 1.0) for value in values]
    linear = measured.interpolated(weighted, percent)
    assert linear == pytest.approx(float(np.percentile(values, percent)))
    assert measured.by_weight(weighted, percent) == percentile(values, percent)
    rank = -(-len(values) * percent // 100) - 1
    assert measured.next_higher(weighted, percent) in sorted(values)[rank : rank + 2]
    assert measured.next_higher(weighted, percent) >= measured.by_weight(weighted, percent)


@given(
    pairs=st.lists(st.tuples(finite, st.integers(1, 5)), min_size=1, max_size=20),
    percent=st.integers(1, 99),
)
def test_a_weight_counts_like_as_many_equal_values(
    pairs: list[tuple[float, int]], percent: int
) -> None:
    weighted = [(value, float(weight)) for value, weight in pairs]
    repeated = [value for value, weight in pairs for _ in range(weight)]
    assert measured.by_weight(weighted, percent) == percentile(repeated, percent)
    assert measured.mean(weighted) == pytest.approx(float(np.mean(repeated)))


def test_every_number_is_held_against_a_metric_that_exists_and_says_how_it_differs() -> None:
    names = {metric.name for metric in METRICS}
    for quantity in QUANTITIES:
        ours = our_metric(quantity.family, quantity.statistic)
        assert ours is None or ours in names
    for dialect in DIALECTS:
        for metric in dialect.metrics:
            assert metric.beside is None or metric.beside in names
            assert metric.quantity in QUANTITIES
            assert metric.differs
            assert "\n" not in metric.differs


def test_no_tool_has_a_number_twice() -> None:
    for dialect in DIALECTS:
        found = [metric.quantity for metric in dialect.metrics]
        assert len(set(found)) == len(found)


def test_a_number_with_another_meaning_is_held_against_what_it_is_with_us() -> None:
    beside = {(d.name, m.quantity.name): m.beside for d in DIALECTS for m in d.metrics}
    assert beside["AIPerf", "ITL mean"] == "tpot_s_mean"
    assert beside["GuideLLM", "ITL p99"] == "tpot_s_p99"
    assert beside["vLLM bench", "ITL p99"] == "inter_chunk_s_p99"
    assert beside["vLLM bench", "ITL mean"] is None
