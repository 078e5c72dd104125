"""Cuts and drifts whose answers are known, and V12 on either side of its limits."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from harness.analyzer.steady import Cut, drift, mser5
from harness.analyzer.summary import Check, CheckVerdict, Summary
from harness.core.record import Outcome
from harness.core.stages import parse_stages
from harness.core.workload import Load, LoadKind

PASS, WARN, INVALID, SKIPPED = (
    CheckVerdict.PASS,
    CheckVerdict.WARN,
    CheckVerdict.INVALID,
    CheckVerdict.SKIPPED,
)
CONSTANT = Load(LoadKind.CONSTANT, rate_rps=10.0)
POISSON = Load(LoadKind.POISSON, rate_rps=10.0)


def series(*values: float) -> Any:
    return np.array(values, dtype=np.float64)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([100 + 10 * 0.8**i + (-1) ** i for i in range(100)], Cut(15, is_at_limit=False)),
        ([50.0] * 10 + [100.0 + i % 5 for i in range(90)], Cut(10, is_at_limit=False)),
        ([float(i) for i in range(100)], Cut(50, is_at_limit=True)),
        ([7.0] * 100, Cut(0, is_at_limit=False)),
    ],
)
def test_mser5_cuts_where_the_reference_does(values: list[float], expected: Cut) -> None:
    assert mser5(series(*values)) == expected


def test_mser5_depends_on_neither_scale_nor_origin() -> None:
    values = series(*(100 + 10 * 0.8**i + (-1) ** i for i in range(100)))
    assert mser5(values) == mser5(1e-3 * values) == mser5(values + 1e6)


@pytest.mark.parametrize("values", [9, 0])
def test_mser5_needs_two_batches(values: int) -> None:
    with pytest.raises(ValueError, match="fewer than two batches of 5"):
        mser5(np.zeros(values))


def test_a_straight_line_drifts_by_its_own_rise_without_any_doubt() -> None:
    found = drift(series(*(1000.0 + i for i in range(100))))
    assert found.share == pytest.approx(100 / 1049.5)
    assert found.lo == found.hi == pytest.approx(found.share)


def test_a_series_backwards_drifts_the_other_way() -> None:
    values = np.array([10 + math.sin(i * i) + i / 200 for i in range(400)])
    there, back = drift(values), drift(values[::-1])
    assert back.share == pytest.approx(-there.share)
    assert (back.lo, back.hi) == pytest.approx((-there.hi, -there.lo))


def test_the_interval_is_sens() -> None:
    """Of 190 slopes, those at the places 65 from each end: 95 - 1.96 * sqrt(950) / 2 = 64.8."""
    values = np.array([50 + 9 * math.sin(i * i) + i for i in range(20)])
    slopes = sorted((values[b] - values[a]) / (b - a) for a in range(20) for b in range(a + 1, 20))
    scale = 20 / float(np.median(values))
    found = drift(values)
    assert (found.lo, found.hi) == pytest.approx((slopes[64] * scale, slopes[125] * scale))


def test_the_wide_interval_is_wider_where_neighbours_are_alike() -> None:
    alike = drift(np.array([10 + math.sin(i / 40) for i in range(400)]))
    apart = drift(np.array([10 + (-1) ** (i // 20) for i in range(400)]))
    assert alike.wide_lo < alike.lo
    assert alike.hi < alike.wide_hi
    assert (apart.wide_lo, apart.wide_hi) == (apart.lo, apart.hi)


def test_outliers_do_not_make_a_drift() -> None:
    values = np.array([10 + (i * 7919 % 13) / 13 for i in range(400)])
    values[390:] = 500.0
    assert abs(drift(values).share) < 0.05


def queue_s(generator: random.Random, requests: int, load: float) -> Any:
    """Times in an M/M/1 queue that has run for a while."""
    before, free, now, found = 1000, 0.0, 0.0, []
    for _ in range(before + requests):
        now += generator.expovariate(load)
        free = max(free, now) + generator.expovariate(1.0)
        found.append(free - now)
    return np.array(found[before:])


@pytest.mark.parametrize(("requests", "most"), [(100, 0.12), (500, 0.07)])
def test_a_steady_queue_is_seldom_found_to_drift_beyond_doubt(requests: int, most: float) -> None:
    generator = random.Random(7)
    found = [drift(queue_s(generator, requests, load=0.8)) for _ in range(200)]
    beyond = sum(one.wide_lo > 0.10 or one.wide_hi < -0.10 for one in found) / len(found)
    by_plain = sum(one.lo > 0.10 or one.hi < -0.10 for one in found) / len(found)
    assert beyond <= most
    assert by_plain > beyond


def arrivals(build: Any, e2e_ms: list[float]) -> list[Any]:
    """A request each 100 ms, with these latencies."""
    return [
        build.record(i, (100 * i + 1, 100 * i + e2e), due_ms=100 * i)
        for i, e2e in enumerate(e2e_ms)
    ]


def check(summary: Summary) -> Check:
    return next(check for check in summary.checks if check.id == "V12")


def level(requests: int = 200, rise: float = 0.0) -> list[float]:
    """Latencies about 50 ms that rise by that share from first to last."""
    return [50 * (1 + rise * i / requests) + (i * 7919 % 13) / 13 for i in range(requests)]


@pytest.mark.parametrize(
    ("rise", "expected"),
    [(0.0, PASS), (0.004, PASS), (0.08, WARN), (-0.08, WARN), (0.13, INVALID), (-0.12, INVALID)],
)
def test_v12_a_drift_warns_and_one_beyond_doubt_invalidates(
    build: Any, rise: float, expected: CheckVerdict
) -> None:
    found = check(build.summary(arrivals(build, level(rise=rise)), load=CONSTANT))
    assert found.verdict is expected


def test_v12_a_series_that_never_settles_warns(build: Any) -> None:
    latencies = [50 + 0.005 * i for i in range(200)]
    found = check(build.summary(arrivals(build, latencies), load=CONSTANT))
    assert found.value.startswith("not settled in 200 requests, E2E drifts +2.0%")
    assert found.verdict is WARN


def test_v12_a_beginning_that_settles_is_cut_and_passes(build: Any) -> None:
    latencies = [95.0] * 20 + level(200)
    found = check(build.summary(arrivals(build, latencies), load=CONSTANT))
    assert found.value.startswith("settled after 25 of 220 requests, E2E drifts -0.1%")
    assert found.verdict is PASS


def test_v12_waves_are_no_proof_of_a_drift(build: Any) -> None:
    """A load in waves whose length is that of the run rises by much in one half of it."""
    latencies = [50 + 20 * math.sin(i / 25) + (i * 7919 % 13) for i in range(200)]
    found = check(build.summary(arrivals(build, latencies), load=CONSTANT))
    assert found.verdict is not INVALID


def test_v12_the_number_in_flight_is_looked_at_too(build: Any) -> None:
    """The latencies of the requests that end well are level, while more and more others hang."""
    hung = [
        build.record(
            200 + i, (), due_ms=5000 * i + 50, closed_ns=None, outcome=Outcome.CANCELLED, asked=2
        )
        for i in range(4)
    ]
    alone = check(build.summary(arrivals(build, level()), load=CONSTANT))
    both = check(build.summary([*arrivals(build, level()), *hung], load=POISSON))
    assert alone.value.startswith("settled after 5 of 200 requests")
    assert both.value.startswith("not settled in 200 requests")


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (Load(LoadKind.BACKLOG), "only arrivals at one rate"),
        (Load(LoadKind.CLOSED, concurrency=2), "only arrivals at one rate"),
        (Load(LoadKind.STAGES, stages=parse_stages("1:10")), "only arrivals at one rate"),
        (Load(LoadKind.REPLAY, speed=2.0), "only arrivals at one rate"),
    ],
)
def test_v12_says_why_a_load_has_no_steady_state(build: Any, load: Load, reason: str) -> None:
    found = check(build.summary(arrivals(build, level(rise=0.5)), load=load))
    assert found.verdict is SKIPPED
    assert found.value.startswith(reason)


def test_v12_needs_a_hundred_requests_that_ended_well(build: Any) -> None:
    enough = arrivals(build, level(100))
    assert check(build.summary(enough, load=POISSON)).verdict is not SKIPPED
    short = [*enough[:99], build.failed(99, due_ns=9_900_000_000, sent_ns=9_900_000_000)]
    found = check(build.summary(short, load=POISSON))
    assert found.value == "99 requests that ended well are too few (100 needed)"
    assert found.verdict is SKIPPED


def test_v12_leaves_virtual_time_alone(build: Any) -> None:
    found = check(build.summary(arrivals(build, level()), load=CONSTANT, clock="virtual"))
    assert found.verdict is SKIPPED


def test_v12_an_overloaded_engine_is_v13s_matter(build: Any) -> None:
    """Its throughput may still be quoted, which an INVALID run's may not."""
    records = [
        build.record(i, (120 * i + 60, 120 * (i + 1)), due_ms=100 * i) for i in range(400)
    ]  # fmt: skip
    summary = build.summary(records, load=CONSTANT)
    assert "V13" in check(summary).value
    assert check(summary).verdict is SKIPPED
    assert next(c.verdict for c in summary.checks if c.id == "V13") is WARN
