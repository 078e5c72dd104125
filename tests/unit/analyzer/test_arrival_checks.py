"""Did the load come as meant, for long enough, and did the engine keep up? Both sides of each."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.analyzer import flow
from harness.analyzer.summary import Check, CheckVerdict, Summary
from harness.core.record import Outcome
from harness.core.workload import Load, LoadKind

PASS, WARN, INVALID, SKIPPED = (
    CheckVerdict.PASS,
    CheckVerdict.WARN,
    CheckVerdict.INVALID,
    CheckVerdict.SKIPPED,
)
POISSON = Load(LoadKind.POISSON, rate_rps=10.0)
CONSTANT = Load(LoadKind.CONSTANT, rate_rps=10.0)
CLOSED = Load(LoadKind.CLOSED, concurrency=2)
# Ten gaps, with the statistics that scipy and numpy give for them.
GAPS = [0.12, 0.05, 0.31, 0.02, 0.18, 0.07, 0.22, 0.09, 0.01, 0.13]
GAPS_A2, GAPS_LIMIT, GAPS_CV = 0.232525, 1.848, 0.786656


def check(summary: Summary, check_id: str) -> Check:
    return next(check for check in summary.checks if check.id == check_id)


def arrivals(build: Any, due_ms: list[float], e2e_ms: float = 100, lag_ms: float = 0) -> list[Any]:
    return [
        build.record(i, (due + e2e_ms / 2, due + e2e_ms), due_ms=due, sent_ms=due + lag_ms)
        for i, due in enumerate(due_ms)
    ]


def poisson_ms(requests: int, mean_ms: float = 100, seed: int = 3) -> list[float]:
    generator = random.Random(seed)
    instants = [0.0]
    for _ in range(requests - 1):
        instants.append(instants[-1] + generator.expovariate(1 / mean_ms))
    return instants


def test_the_statistics_of_gaps_are_those_of_the_reference() -> None:
    gaps = np.array(GAPS)
    assert flow.anderson_darling_exponential(gaps) == pytest.approx(GAPS_A2, abs=1e-6)
    assert flow.exponential_limit(10) == pytest.approx(GAPS_LIMIT, abs=5e-4)
    assert flow.variation(gaps) == pytest.approx(GAPS_CV, abs=1e-6)


def test_the_statistic_does_not_depend_on_unit_or_order() -> None:
    gaps = np.array(GAPS)
    there = flow.anderson_darling_exponential(gaps)
    assert flow.anderson_darling_exponential(gaps[::-1] * 1e9) == pytest.approx(there)


def test_requests_in_flight_are_time_in_system_over_time() -> None:
    starts, ends = np.array([0, 10, 30]), np.array([20, 20, 99])
    assert flow.mean_in_flight(starts, ends, (0, 10, 20, 40)).tolist() == [1.0, 2.0, 0.5]


@pytest.mark.parametrize("load", [Load(LoadKind.BACKLOG), CLOSED])
@pytest.mark.parametrize(("makespan_ms", "expected"), [(20_000, PASS), (19_999, WARN), (1, WARN)])
def test_v04_a_short_run_warns_and_stays_usable(
    build: Any, load: Load, makespan_ms: float, expected: CheckVerdict
) -> None:
    summary = build.summary([build.record(0, (0.5, makespan_ms))], load=load)
    assert check(summary, "V04").verdict is expected


@pytest.mark.parametrize(
    ("e2e_ms", "window_ms", "expected"),
    [
        (1_000, 20_000, PASS),
        (999, 19_999, WARN),
        (1_001, 20_000, WARN),
        (4_000, 20_000, WARN),
        (4_001, 20_000, INVALID),
    ],
)
def test_v04_a_window_of_arrivals_is_counted_in_latencies(
    build: Any, e2e_ms: float, window_ms: float, expected: CheckVerdict
) -> None:
    due_ms = [window_ms * i / 40 for i in range(41)]
    summary = build.summary(arrivals(build, due_ms, e2e_ms), load=POISSON)
    assert check(summary, "V04").verdict is expected


def test_v04_has_nothing_to_say_of_virtual_time_and_of_silence(build: Any) -> None:
    virtual = build.summary([build.record(0)], clock="virtual")
    assert check(virtual, "V04").verdict is SKIPPED
    for load in (POISSON, CLOSED):
        silent = build.summary([build.failed(0), build.failed(1)], load=load)
        assert check(silent, "V04").verdict is SKIPPED


def test_v11_poisson_arrivals_pass_and_say_their_statistics(build: Any) -> None:
    due_ms = [0.0, *(1000 * np.cumsum(GAPS))]
    found = check(build.summary(arrivals(build, due_ms), load=POISSON), "V11")
    assert found.value == "A2 0.23 of 1.85, CV 0.79"
    assert found.verdict is PASS


def test_v11_looks_at_when_requests_were_sent_not_at_when_they_were_due(build: Any) -> None:
    due_ms = poisson_ms(200)
    records = arrivals(build, due_ms)
    held = [
        replace(r, sent_ns=max(r.sent_ns, -(-r.sent_ns // 10**9) * 10**9), events_ns=(), events_tokens=(), closed_ns=None)
        for r in records
    ]  # fmt: skip
    assert check(build.summary(records, load=POISSON), "V11").verdict is PASS
    assert check(build.summary(held, load=POISSON), "V11").verdict is INVALID


@pytest.mark.parametrize(
    ("blend", "expected"), [(0.0, PASS), (0.07, PASS), (0.08, WARN), (0.11, WARN), (0.13, INVALID)]
)
def test_v11_gaps_that_are_too_even_are_no_poisson_process(
    build: Any, blend: float, expected: CheckVerdict
) -> None:
    """Exponential quantiles, drawn towards their mean by `blend`."""
    quantiles = [-np.log(1 - (i + 0.5) / 200) for i in range(200)]
    gaps_ms = [100 * ((1 - blend) * q + blend) for q in quantiles]
    random.Random(1).shuffle(gaps_ms)
    summary = build.summary(arrivals(build, [0.0, *np.cumsum(gaps_ms)]), load=POISSON)
    assert check(summary, "V11").verdict is expected


@pytest.mark.parametrize(
    ("jitter_ms", "expected"),
    [(0.9, PASS), (4.9, PASS), (5.1, WARN), (19.9, WARN), (20.1, INVALID)],
)
def test_v11_other_arrivals_are_held_against_their_due_instants(
    build: Any, jitter_ms: float, expected: CheckVerdict
) -> None:
    """Every second request is late by `jitter_ms`, so each gap of 100 ms is off by that."""
    records = [
        build.record(i, (100 * i + 60,), due_ms=100 * i, sent_ms=100 * i + jitter_ms * (i % 2))
        for i in range(50)
    ]
    assert check(build.summary(records, load=CONSTANT), "V11").verdict is expected


def test_v11_a_small_shift_of_small_gaps_does_not_matter(build: Any) -> None:
    records = [
        build.record(i, (i + 5,), due_ms=i, sent_ms=i + 0.9 * (i % 2)) for i in range(50)
    ]  # fmt: skip
    assert check(build.summary(records, load=CONSTANT), "V11").verdict is PASS


def test_v11_a_steady_lag_moves_no_gap(build: Any) -> None:
    records = arrivals(build, [100.0 * i for i in range(50)], lag_ms=40)
    assert check(build.summary(records, load=CONSTANT), "V11").verdict is PASS


def test_v11_needs_arrivals_over_time_and_enough_of_them(build: Any) -> None:
    records = arrivals(build, poisson_ms(11))
    assert check(build.summary(records, load=POISSON), "V11").verdict is not SKIPPED
    assert check(build.summary(records[:10], load=POISSON), "V11").verdict is SKIPPED
    assert check(build.summary(records), "V11").verdict is SKIPPED
    assert check(build.summary(records, load=CLOSED), "V11").verdict is SKIPPED
    virtual = build.summary(records, load=POISSON, clock="virtual")
    assert check(virtual, "V11").verdict is SKIPPED


def served(build: Any, requests: int, gap_ms: float, service_ms: float) -> list[Any]:
    """A request each `gap_ms`, taken one after another by a server that needs `service_ms`."""
    records, free_ms = [], 0.0
    for i in range(requests):
        started_ms = max(free_ms, gap_ms * i)
        free_ms = started_ms + service_ms
        records.append(
            build.record(i, (started_ms + service_ms / 2, free_ms), due_ms=gap_ms * i)
        )  # fmt: skip
    return records


@pytest.mark.parametrize(("service_ms", "expected"), [(99, PASS), (101, PASS), (105, WARN)])
def test_v13_an_engine_that_falls_behind_is_saturated(
    build: Any, service_ms: float, expected: CheckVerdict
) -> None:
    found = check(build.summary(served(build, 400, 100, service_ms), load=CONSTANT), "V13")
    assert found.verdict is expected
    assert ("overloaded" in found.value) == (expected is WARN)


def test_v13_long_answers_alone_are_no_saturation(build: Any) -> None:
    """Many are still in flight when the last one is due, but their number has settled."""
    records = arrivals(build, [100.0 * i for i in range(400)], e2e_ms=10_000)
    found = check(build.summary(records, load=CONSTANT), "V13")
    assert found.value == "74.9% completed, 100.0 then 100.0 in flight"
    assert found.verdict is PASS


def test_v13_requests_that_never_ended_stay_in_flight(build: Any) -> None:
    hung = [
        build.record(i, (), due_ms=100 * i, outcome=Outcome.CANCELLED, closed_ns=None)
        for i in range(100)
    ]
    found = check(build.summary(hung, load=CONSTANT), "V13")
    assert found.value.startswith("0.0% completed")
    assert found.verdict is WARN


def test_v13_needs_arrivals_over_time_and_enough_of_them(build: Any) -> None:
    records = served(build, 20, 100, 150)
    assert check(build.summary(records, load=CONSTANT), "V13").verdict is not SKIPPED
    assert check(build.summary(records[:19], load=CONSTANT), "V13").verdict is SKIPPED
    assert check(build.summary(records), "V13").verdict is SKIPPED
    assert check(build.summary(records, load=CLOSED), "V13").verdict is SKIPPED
