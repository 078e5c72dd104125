"""Intervals cover as often as they say, and the analyzer finds the truths of queueing theory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from harness.analyzer.estimators import paired_ratio
from harness.analyzer.order_statistics import order_statistic_ranks, percentile_interval
from harness.core.workload import Load, LoadKind

RATE, SERVICE_RATE = 8.0, 10.0
Floats = np.ndarray[Any, np.dtype[np.float64]]


def sojourns(gaps: Floats, services: Floats) -> Floats:
    """How long each request is in a queue with one server, by Lindley's recursion."""
    wait, found = 0.0, np.empty(len(gaps))
    for i, service in enumerate(services):
        found[i] = wait + service
        if i + 1 < len(gaps):
            wait = max(found[i] - gaps[i + 1], 0.0)
    return found


def queue(build: Any, services: Floats, rng: np.random.Generator) -> Any:
    """The summary of Poisson arrivals at a queue with these times of service."""
    gaps = rng.exponential(1 / RATE, len(services))
    due_ms = 1e3 * np.cumsum(gaps)
    ended_ms = due_ms + 1e3 * sojourns(gaps, services)
    records = [
        build.record(i, (end,), due_ms=due)
        for i, (due, end) in enumerate(zip(due_ms, ended_ms, strict=True))
    ]
    return build.summary(records, load=Load(LoadKind.POISSON, rate_rps=RATE))


def steady(rho: float, n: int, rng: np.random.Generator) -> Floats:
    """Sojourn times of an M/M/1 queue of service rate 1, begun empty and cut."""
    gaps, services = rng.exponential(1 / rho, n + 2000), rng.exponential(1.0, n + 2000)
    return sojourns(gaps, services)[2000:]


@pytest.mark.slow
def test_random_service_has_the_latency_of_theory(build: Any) -> None:
    rng = np.random.default_rng(1)
    summary = queue(build, rng.exponential(1 / SERVICE_RATE, 100_000), rng)
    assert summary.value("e2e_s_mean") == pytest.approx(0.5, rel=0.07)
    assert summary.value("e2e_s_p50") == pytest.approx(0.346574, rel=0.07)
    assert summary.value("e2e_s_p99") == pytest.approx(2.302585, rel=0.10)
    assert summary.value("request_s") == pytest.approx(RATE, rel=0.02)


@pytest.mark.slow
def test_equal_service_has_the_latency_of_theory(build: Any) -> None:
    rng = np.random.default_rng(2)
    summary = queue(build, np.full(100_000, 1 / SERVICE_RATE), rng)
    assert summary.value("e2e_s_mean") == pytest.approx(0.3, rel=0.05)


def test_a_closed_loop_has_the_rate_and_the_latency_of_theory(build: Any) -> None:
    """8 in flight on 4 servers of 0.1 s: 40 a second, each 0.2 s."""
    records = []
    for i in range(400):
        sent_ms = 0.0 if i < 8 else 100.0 * (i // 4 - 1)
        records.append(build.record(i, (100.0 * (i // 4 + 1),), sent_ms=sent_ms))
    summary = build.summary(records, load=Load(LoadKind.CLOSED, concurrency=8))
    assert summary.value("request_s") == pytest.approx(40.0)
    assert summary.value("e2e_s_p50") == pytest.approx(0.2)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.5, 0.7, 0.8])
def test_the_interval_of_a_median_covers_the_truth_in_a_queue(rho: float) -> None:
    """Where one that takes requests for independent ones does not."""
    rng = np.random.default_rng(3)
    truth, covered, plainly = math.log(2) / (1 - rho), 0, 0
    trials, n = 200, 4000
    plain = order_statistic_ranks(n, 0.5)
    for _ in range(trials):
        values = steady(rho, n, rng)
        found = percentile_interval(values, 50)
        covered += found.lo <= truth and (found.hi is None or truth <= found.hi)
        ordered = np.sort(values)
        plainly += ordered[plain.lower - 1] <= truth <= ordered[plain.upper - 1]
    assert covered / trials >= 0.90
    assert plainly / trials < 0.85


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_interval_of_a_ratio_covers_as_often_as_it_says(n: int) -> None:
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(4000):
        candidate = np.exp(rng.normal(0.02, 0.03, n)).tolist()
        found = paired_ratio([1.0] * n, candidate, 0.90)
        covered += found.lo <= math.exp(0.02) <= found.hi
    assert covered / 4000 == pytest.approx(0.90, abs=0.02)
