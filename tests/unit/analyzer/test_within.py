"""How well a run bounds its own values, in its summary."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.analyzer.metrics import METRICS
from harness.core.jsonable import to_json
from harness.core.units import ms_to_ns
from harness.core.workload import Load, LoadKind

POISSON = Load(LoadKind.POISSON, rate_rps=10.0)


def value(summary: Any, metric: str) -> Any:
    return next(v for v in summary.values if v.metric == metric)


def random_run(build: Any, count: int, factor: float = 1.0, seed: int = 1) -> list[Any]:
    """Answers that do not depend on each other."""
    rng = np.random.default_rng(seed)
    return [
        build.record(
            i, (100 * i + factor * (50 + ms), 100 * i + factor * (60 + 2 * ms)), due_ms=100 * i
        )
        for i, ms in enumerate(rng.exponential(20, count))
    ]


def test_a_percentile_is_bounded_where_requests_are_independent(build: Any) -> None:
    summary = build.summary(random_run(build, 2000), load=POISSON)
    for percent in (50, 90, 99):
        found = value(summary, f"ttft_s_p{percent}")
        within = found.ci_within
        assert within.lo < found.value < within.hi
        assert within.n_eff == int(2000 / within.tau)
        assert found.value < found.mlperf_estimate
        assert found.unbounded is None


def test_a_backlog_says_that_it_does_not_bound_its_percentiles(build: Any) -> None:
    found = value(
        build.summary([build.record(i, (10 * (i + 1), 5000)) for i in range(400)]), "ttft_s_p90"
    )
    assert found.value == 3.6
    assert found.ci_within is None
    assert found.unbounded.startswith("not bounded by this run: 400 requests in waves are worth ")
    assert "(36 needed)" in found.unbounded


def test_too_few_requests_for_mlperf_say_how_many_it_needs(build: Any) -> None:
    found = value(build.summary(random_run(build, 50), load=POISSON), "ttft_s_p90")
    assert found.mlperf_estimate is None
    assert "50 requests give no MLPerf estimate (64 needed)" in found.unbounded


def test_failures_are_where_an_upper_bound_may_lie(build: Any) -> None:
    records = [
        r if i % 12 else build.failed(i, due_ns=r.due_ns, sent_ns=r.due_ns)
        for i, r in enumerate(random_run(build, 1200))
    ]
    summary = build.summary(records, load=POISSON)
    found = value(summary, "ttft_s_p90")
    assert found.value is not None
    assert found.ci_within is None
    assert "among failed requests" in found.unbounded
    assert "NaN" not in json.dumps(to_json(summary), allow_nan=False)


def test_only_what_has_a_value_has_bounds(build: Any) -> None:
    summary = build.summary(random_run(build, 20), load=POISSON)
    for found in summary.values:
        if found.value is None:
            assert (found.ci_within, found.mlperf_estimate, found.unbounded) == (None, None, None)
    bounded = {metric.name for metric in METRICS if metric.bounded}
    assert {v.metric for v in summary.values if v.ci_within} <= bounded


def test_the_order_that_counts_is_that_in_which_requests_were_due(build: Any) -> None:
    records = random_run(build, 500)
    shuffled = list(records)
    np.random.default_rng(2).shuffle(shuffled)
    renumbered = [replace(record, index=i) for i, record in enumerate(shuffled)]
    one = build.summary(records, load=POISSON)
    other = build.summary(renumbered, load=POISSON)
    assert value(one, "ttft_s_p50") == value(other, "ttft_s_p50")


@pytest.mark.parametrize("factor", [2.0, 10.0])
def test_slower_answers_move_value_and_bounds_by_that_factor(build: Any, factor: float) -> None:
    plain = build.summary(random_run(build, 800), load=POISSON)
    slower = build.summary(random_run(build, 800, factor), load=POISSON)
    for metric in ("ttft_s_p50", "e2e_s_p90", "normalized_latency_s_p50"):
        one, two = value(plain, metric), value(slower, metric)
        assert two.value == pytest.approx(factor * one.value, rel=1e-6)
        assert two.ci_within.lo == pytest.approx(factor * one.ci_within.lo, rel=1e-6)
        assert two.ci_within.hi == pytest.approx(factor * one.ci_within.hi, rel=1e-6)


def test_another_failure_lowers_no_percentile(build: Any) -> None:
    records = random_run(build, 400)
    plain = build.summary(records, load=POISSON)
    end_ns = ms_to_ns(40_000)
    worse = build.summary(
        [*records, build.failed(400, due_ns=end_ns, sent_ns=end_ns)], load=POISSON
    )
    for metric in (m.name for m in METRICS if "_s_p" in m.name):
        one, two = plain.value(metric), worse.value(metric)
        if one is not None and not metric.startswith(("inter_chunk", "send_lag")):
            assert two is None or two >= one


def test_normalized_latency_is_the_whole_of_it_for_each_token(build: Any) -> None:
    records = [build.record(i, (100, 200, 300, 400)) for i in range(6)]
    summary = build.summary([*records, build.record(6, (900,))])
    assert summary.value("normalized_latency_s_p50") == 0.1
    assert summary.value("normalized_latency_s_mean") == pytest.approx((6 * 0.1 + 0.9) / 7)


def test_a_user_receives_one_over_the_median_time_per_token(build: Any) -> None:
    summary = build.summary([build.record(i, (100, 150, 200)) for i in range(6)])
    assert summary.value("user_tok_s") == 20.0
    at_once = build.summary([build.record(i, (100, 100)) for i in range(6)])
    assert at_once.value("user_tok_s") is None
