from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analyzer.metric import Better
from harness.analyzer.metrics import METRICS, find_metric
from harness.core.errors import UsageError
from harness.core.jsonable import to_json
from harness.core.record import Outcome
from harness.core.units import ms_to_ns
from harness.core.workload import Load, LoadKind

CLOSED = Load(LoadKind.CLOSED, concurrency=2)
POISSON = Load(LoadKind.POISSON, rate_rps=1.0)
UNITS = {"s", "tok/s", "req/s", "share", "tokens", "requests", "preemptions"}
LATENCIES = [f"{name}_s_p{p}" for name in ("ttft", "e2e", "tpot") for p in (50, 90, 99)]


def reason(summary: Any, metric: str) -> str | None:
    return next(v.reason for v in summary.values if v.metric == metric)


def test_every_metric_has_one_name_and_says_what_it_is() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert metric.definition.endswith(".")
        assert metric.definition.count(". ") == 0, "one sentence"
        assert metric.unit in UNITS
        assert ("_s_p" in metric.name) <= (metric.better is Better.LOWER)


def test_an_unknown_metric_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no metric 'ttft'; the metrics are .*ttft_s_p99"):
        find_metric("ttft")


def test_percentiles_are_ranks_of_what_was_observed(build: Any) -> None:
    summary = build.summary([build.record(i, (10 * (i + 1), 1000)) for i in range(40)])
    assert summary.value("ttft_s_p50") == 0.200
    assert summary.value("ttft_s_p90") == 0.360
    assert summary.value("ttft_s_max") == 0.400
    assert summary.value("ttft_s_mean") == pytest.approx(0.205)


@pytest.mark.parametrize(("percent", "needed"), [(50, 6), (90, 36), (99, 368)])
def test_a_percentile_needs_its_number_of_requests(build: Any, percent: int, needed: int) -> None:
    short = build.summary([build.record(i) for i in range(needed - 1)])
    enough = build.summary([build.record(i) for i in range(needed)])
    assert short.value(f"ttft_s_p{percent}") is None
    expected = f"{needed - 1} requests cannot support p{percent} ({needed} needed)"
    assert reason(short, f"ttft_s_p{percent}") == expected
    assert enough.value(f"ttft_s_p{percent}") == 0.100


def test_a_percentile_that_falls_on_a_failure_has_no_value(build: Any) -> None:
    records = [build.record(i) for i in range(35)] + [build.failed(35 + i) for i in range(5)]
    summary = build.summary(records)
    assert summary.value("e2e_s_p50") == 0.110
    assert summary.value("e2e_s_p90") is None
    assert reason(summary, "e2e_s_p90") == "more than 10 % of the requests failed"


def test_a_tenth_that_failed_leaves_p90_on_the_slowest_that_did_not(build: Any) -> None:
    records = [build.record(i, (i + 1, 100)) for i in range(36)]
    summary = build.summary([*records, *(build.failed(36 + i) for i in range(4))])
    assert summary.value("ttft_s_p90") == 0.036


def test_cancelled_requests_are_not_failures(build: Any) -> None:
    records = [build.record(i) for i in range(6)]
    cancelled = [build.record(6 + i, (900,), outcome=Outcome.CANCELLED) for i in range(6)]
    summary = build.summary([*records, *cancelled])
    assert summary.value("ttft_s_p50") == 0.100
    assert summary.value("failure_rate") == 0


def test_a_backlog_is_rated_over_its_makespan(build: Any) -> None:
    records = [
        build.record(0, (100, 1000), due_ms=0, sent_ms=5),
        build.record(1, (200, 500, 2000), due_ms=0, sent_ms=5),
    ]
    summary = build.summary(records)
    assert summary.value("makespan_s") == 2.0
    assert summary.value("output_tokens") == 5
    assert summary.value("output_tok_s") == 2.5
    assert summary.value("request_s") == 1.0


def test_a_closed_loop_is_rated_from_its_first_send(build: Any) -> None:
    records = [
        build.record(0, (600, 1000), sent_ms=500),
        build.record(1, (1200, 2500), sent_ms=1000),
    ]
    summary = build.summary(records, load=CLOSED)
    assert summary.value("makespan_s") == 2.0
    assert summary.value("output_tok_s") == 2.0


def test_poisson_arrivals_are_rated_over_the_window_of_arrivals(build: Any) -> None:
    # Tokens stamped at (.5 s, 5), (1.5, 10), (2.5, 10), (3.5, 10), (4.5, 10), (5.5, 4), (9.5, 1);
    # the window is [1, 5).
    first = build.record(
        0,
        (1500, 2500, 3500, 4500, 5500, 9500),
        due_ms=1000,
        tokens=[10, 10, 10, 10, 4, 1],
    )
    early = build.record(1, (5001, 5002), due_ms=5000, tokens=[3, 3])
    summary = build.summary([first, early], load=POISSON)
    assert summary.value("output_tok_s") == 10.0
    assert summary.value("request_s") == 0.0
    assert summary.value("makespan_s") == 8.5


def test_the_last_due_instant_is_outside_the_window(build: Any) -> None:
    records = [
        build.record(0, (1000, 1500), due_ms=1000),
        build.record(1, (2000, 2500), due_ms=2000),
    ]
    summary = build.summary(records, load=POISSON)
    assert summary.value("output_tok_s") == 2.0
    assert summary.value("request_s") == 1.0


def test_one_arrival_spans_no_window(build: Any) -> None:
    summary = build.summary([build.record(0)], load=POISSON)
    assert summary.value("output_tok_s") is None
    assert reason(summary, "output_tok_s") == ("1 request(s) span no window of arrivals (2 needed)")


def test_tokens_of_failed_requests_do_not_count_but_their_time_does(build: Any) -> None:
    records = [
        build.record(0, (100, 1000)),
        build.record(1, (100, 2000), outcome=Outcome.FAILED),
    ]
    summary = build.summary(records)
    assert summary.value("output_tokens") == 2
    assert summary.value("output_tok_s") == 1.0
    assert summary.value("request_s") == 0.5
    assert summary.value("failure_rate") == 0.5


def test_an_unknown_count_makes_the_sum_unknown(build: Any) -> None:
    unknown = build.record(1, tokens=[None, None], output_tokens=None, prompt_tokens=None)
    summary = build.summary([build.record(0), unknown])
    expected = "the engine does not say how many tokens 1 request(s) had"
    for metric in ("output_tokens", "output_tok_s", "prompt_tokens"):
        assert summary.value(metric) is None
        assert reason(summary, metric) == expected
    assert summary.value("request_s") is not None


def test_the_first_event_and_the_first_answer_have_times_of_their_own(build: Any) -> None:
    ms = ms_to_ns
    records = [
        build.record(0, (100, 110), first_event_ns=ms(5), first_answer_ns=ms(110)),
        build.record(1, (100, 110), first_event_ns=ms(7), first_answer_ns=None),
        build.failed(2),
    ]
    summary = build.summary(records)
    assert summary.value("ttft_s_mean") == 0.100
    assert summary.value("time_to_first_event_s_mean") == 0.006
    assert summary.value("time_to_first_event_s_max") == 0.007
    assert summary.value("time_to_first_answer_s_mean") == 0.110


def test_what_no_engine_says_has_a_reason_and_failures_do_not_hide_it(build: Any) -> None:
    summary = build.summary([build.record(i) for i in range(6)] + [build.failed(6)])
    for metric, said in (
        ("time_to_first_event_s_p50", "no record says when its first event came"),
        ("time_to_first_answer_s_p50", "no event says whether it is of the answer or of reasoning"),
    ):
        assert summary.value(metric) is None
        assert reason(summary, metric) == f"n/a (0 samples): {said}"


def test_first_events_are_timed_from_due_or_in_a_closed_loop_from_sent(build: Any) -> None:
    record = build.record(0, due_ms=10, sent_ms=30, first_event_ns=ms_to_ns(50))
    assert build.summary([record]).value("time_to_first_event_s_max") == 0.040
    assert build.summary([record], load=CLOSED).value("time_to_first_event_s_max") == 0.020


@pytest.mark.parametrize(
    ("tokens", "usage", "tpot_ms", "after_ms"),
    [
        ((4, 1, 1, 1, 1), 8, 40 / 7, 10.0),
        ((1, 1, 1, 1, 1), 5, 10.0, 10.0),
        ((None,) * 5, 8, 40 / 7, None),
        ((4, 0, 0, 0, 0), 4, 40 / 3, None),
    ],
)
def test_tpot_leaves_out_one_token_and_another_metric_the_whole_first_event(
    build: Any, tokens: tuple[int | None, ...], usage: int, tpot_ms: float, after_ms: float | None
) -> None:
    record = build.record(0, (100, 110, 120, 130, 140), tokens=tokens, usage=usage)
    summary = build.summary([record])
    after_s = None if after_ms is None else pytest.approx(after_ms / 1e3)
    assert summary.value("tpot_s_mean") == pytest.approx(tpot_ms / 1e3)
    assert summary.value("tpot_after_first_event_s_mean") == after_s


def test_cached_prompt_tokens_are_a_share_of_those_of_requests_that_say_so(build: Any) -> None:
    records = [
        build.record(0, cached_tokens=4),
        build.record(1, cached_tokens=0),
        build.record(2),
        build.failed(3, cached_tokens=10),
    ]
    assert build.summary(records).value("cached_prompt_share") == 4 / 20


def test_a_refinement_refines_a_metric_that_exists() -> None:
    refined = {metric.refines for metric in METRICS} - {None}
    assert refined <= {metric.name for metric in METRICS}
    assert "ttft_s_p99" in refined


def test_send_lag_is_of_the_open_loop_only(build: Any) -> None:
    records = [build.record(i, due_ms=0, sent_ms=i / 10) for i in range(368)]
    there = build.summary(records)
    assert there.value("send_lag_s_p99") == 0.0364
    assert there.value("send_lag_s_max") == 0.0367
    closed = build.summary(records, load=CLOSED)
    assert closed.value("send_lag_s_p99") is None
    assert reason(closed, "send_lag_s_max") == (
        "in a closed loop no request is due, so none is late"
    )


def test_the_step_log_says_where_time_and_slots_went(build: Any) -> None:
    steps = [
        build.step(0, 0, running=4, padded=0, prefill_ns=ms_to_ns(2), prefill_tokens=40),
        build.step(1, 10, running=1, padded=2, decode_tokens=1, prefill_padding_tokens=3),
    ]
    summary = build.summary([build.record(0)], steps)
    assert summary.value("busy_share") == 5 / 8
    assert summary.value("padding_share") == 2 / 8
    assert summary.steps.empty_share == 1 / 8
    assert summary.value("prefill_s") == 0.002
    assert summary.value("decode_s") == 0.016
    assert summary.steps.other_s == pytest.approx(0.002)
    assert summary.value("decode_output_tok_s") == 5 / 0.016
    assert (summary.steps.steps, summary.steps.slots) == (2, 4)
    assert (summary.steps.prefill_tokens, summary.steps.prefill_padding_tokens) == (40, 3)


def test_without_a_step_log_its_metrics_say_so(build: Any) -> None:
    summary = build.summary([build.record(0)])
    assert summary.steps is None
    for metric in ("busy_share", "padding_share", "prefill_s", "decode_s", "decode_output_tok_s"):
        assert summary.value(metric) is None
        assert reason(summary, metric) == "the engine wrote no step log"


def test_steps_that_did_not_decode_have_no_decode_rate(build: Any) -> None:
    summary = build.summary([build.record(0)], [build.step(0, decode_ns=0, decode_tokens=0)])
    assert summary.value("decode_output_tok_s") is None
    assert summary.value("decode_s") == 0


def test_an_empty_run_has_a_reason_for_everything(build: Any) -> None:
    for load in (CLOSED, POISSON, Load(LoadKind.BACKLOG)):
        summary = build.summary([], load=load)
        assert [v.metric for v in summary.values] == [metric.name for metric in METRICS]
        assert all(v.value is None and v.reason for v in summary.values)


outcomes = st.sampled_from(list(Outcome))
instants = st.lists(st.integers(1, 5000), max_size=4)
requests = st.lists(st.tuples(outcomes, instants), max_size=60)


def records_of(build: Any, rows: list[tuple[Outcome, list[int]]]) -> list[Any]:
    return [
        build.record(i, sorted(events), outcome=outcome) for i, (outcome, events) in enumerate(rows)
    ]


@settings(max_examples=50)
@given(requests, st.sampled_from(list(LoadKind)))
def test_no_run_yields_a_number_that_json_cannot_hold(
    build: Any, rows: list[tuple[Outcome, list[int]]], kind: LoadKind
) -> None:
    summary = build.summary(records_of(build, rows), load=Load(kind, 2, 1.0, cv=1.0, speed=2.0))
    json.dumps(to_json(summary), allow_nan=False)
    for value in summary.values:
        assert (value.value is None) == (value.reason is not None)


@settings(max_examples=50)
@given(st.lists(st.tuples(outcomes, instants), min_size=6, max_size=80))
def test_percentiles_never_exceed_the_maximum(
    build: Any, rows: list[tuple[Outcome, list[int]]]
) -> None:
    summary = build.summary(records_of(build, rows))
    for name in ("ttft_s", "e2e_s", "tpot_s"):
        line = [summary.value(f"{name}_{end}") for end in ("p50", "p90", "p99", "max")]
        known = [value for value in line if value is not None]
        assert known == sorted(known)


@settings(max_examples=50)
@given(st.lists(st.tuples(outcomes, instants), min_size=6, max_size=80))
def test_one_more_failed_request_lowers_no_latency_percentile(
    build: Any, rows: list[tuple[Outcome, list[int]]]
) -> None:
    records = records_of(build, rows)
    before = build.summary(records)
    after = build.summary([*records, build.failed(len(records))])
    for metric in LATENCIES:
        old, new = before.value(metric), after.value(metric)
        if old is None and "failed" in str(reason(before, metric)):
            assert new is None
        elif old is not None:
            assert (math.inf if new is None else new) >= old


@settings(max_examples=50)
@given(st.lists(st.tuples(outcomes, instants), max_size=40), st.randoms(use_true_random=False))
def test_the_order_of_lines_changes_nothing(
    build: Any, rows: list[tuple[Outcome, list[int]]], shuffler: random.Random
) -> None:
    records = records_of(build, rows)
    shuffled = shuffler.sample(records, len(records))
    assert build.summary(records) == build.summary(shuffled)
