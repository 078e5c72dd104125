"""Judging levels, which to try next, and one short run against the real paced server."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.paced import MODEL, Timetable
from engines.paced_server import PacedProcess
from harness.core.clock import MonotonicClock
from harness.core.record import Outcome
from harness.core.units import NS_PER_MS, NS_PER_S
from harness.loadgen.calibration import Limits, Truth, calibrate, workloads
from harness.loadgen.levels import (
    FIRST_STREAMS,
    TRIES,
    Errors,
    Lateness,
    Level,
    LevelVerdict,
    Pace,
    ceiling_of,
    judge,
    next_streams,
    note,
    percentile,
)
from harness.loadgen.session import Link

MS = NS_PER_MS
ON_TIME = Lateness(0, 0, 0)
CLEAN, CLIENT, SERVER = LevelVerdict.CLEAN, LevelVerdict.CLIENT_LATE, LevelVerdict.SERVER_LATE


@pytest.mark.parametrize(
    ("ttft_ms", "gap_ms", "server", "expected"),
    [
        (0.2, 0.5, ON_TIME, CLEAN),
        (1.0, 3.0, ON_TIME, CLEAN),
        (1.1, 0.5, ON_TIME, CLIENT),
        (0.2, 3.1, ON_TIME, CLIENT),
        (5.0, 0.5, Lateness(2 * MS, 2 * MS, 0), SERVER),
        (5.0, 0.5, Lateness(MS // 2, MS, 6 * MS // 10), SERVER),
        (0.5, 9.0, Lateness(0, 4 * MS, 0), SERVER),
        (0.5, 9.0, Lateness(0, 3 * MS, 0), CLIENT),
        # A server that was late now and then, and stamps that are right all the same.
        (0.5, 2.0, Lateness(0, 4 * MS, 0), CLEAN),
    ],
)
def test_a_late_client_is_told_from_a_late_server(
    ttft_ms: float, gap_ms: float, server: Lateness, expected: LevelVerdict
) -> None:
    errors = Errors([round(ttft_ms * MS)] * 9, [round(gap_ms * MS)] * 9, [0] * 9)

    assert judge(errors, server, client_cpu_share=0.9) is expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.14, LevelVerdict.DISTURBED), (0.49, LevelVerdict.DISTURBED), (0.5, CLIENT)],
)
def test_a_client_that_was_late_with_time_to_spare_was_kept_from_the_processor(
    share: float, expected: LevelVerdict
) -> None:
    assert judge(Errors([9 * MS], [9 * MS], [0]), ON_TIME, share) is expected


def test_a_ceiling_that_the_client_did_not_set_is_a_lower_bound() -> None:
    for verdict in LevelVerdict:
        found = ceiling_of([level(64, CLEAN), level(128, verdict)])
        assert found is not None
        assert found.is_lower_bound is (verdict is not CLIENT)


def test_a_level_with_a_failed_request_or_without_any_proves_nothing() -> None:
    assert judge(Errors([0], [0], [0], broken=1), ON_TIME, 0.1) is LevelVerdict.FAILED
    assert judge(Errors(), ON_TIME, 0.1) is LevelVerdict.FAILED


def level(streams: int, verdict: LevelVerdict) -> Level:
    return Level(streams, streams * 94.0, streams * 1.5, 0, 0, 0, streams, 0.5, ON_TIME, verdict)


def climb(limit: int, verdict: LevelVerdict = CLIENT, first: int = FIRST_STREAMS) -> list[Level]:
    """The levels tried against a client that is clean up to `limit` streams."""
    levels: list[Level] = []
    while (streams := next_streams(levels, first)) is not None:
        assert len(levels) <= 20
        levels.append(level(streams, CLEAN if streams <= limit else verdict))
    return levels


def test_streams_are_doubled_then_tried_again_then_halved_once() -> None:
    assert [lv.streams for lv in climb(300)] == [64, 128, 256, 512, 512, 384, 384]
    assert [lv.streams for lv in climb(400)] == [64, 128, 256, 512, 512, 384]
    assert [lv.streams for lv in climb(10)] == [64] * TRIES


def test_a_level_that_was_disturbed_once_does_not_end_the_climb() -> None:
    levels = [level(64, SERVER), level(64, CLEAN)]

    assert next_streams(levels) == 128


@given(st.integers(1, 40_000), st.sampled_from([1, 8, 64]))
def test_the_climb_ends_below_the_limit_and_within_a_step_and_a_half(
    limit: int, first: int
) -> None:
    levels = climb(limit, first=first)
    ceiling = ceiling_of(levels)

    if limit < first:
        assert ceiling is None
        return
    assert ceiling is not None
    assert ceiling.streams <= limit
    assert limit < 2 * ceiling.streams or ceiling.limit == "not reached"


def test_a_ceiling_says_what_limited_it() -> None:
    assert ceiling_of([level(64, SERVER)]) is None
    assert [
        found.limit
        for levels in (
            [level(64, CLEAN)],
            [level(64, CLEAN), level(128, SERVER)],
            [level(64, CLEAN), level(128, SERVER), level(128, CLIENT)],
        )
        if (found := ceiling_of(levels)) is not None
    ] == ["not reached", "server late", "client late"]


def test_a_ceiling_is_that_of_the_highest_clean_level() -> None:
    found = ceiling_of([level(64, CLEAN), level(128, CLEAN), level(256, CLIENT)])

    assert found is not None
    assert (found.streams, found.events_s, found.send_lag_ns_p99) == (128, 128 * 94.0, 128)


PACE = Pace(ttft_ns=50 * MS, gap_ns=10 * MS, tokens=3, sending_ns=200 * MS)


def test_only_the_steady_part_is_judged(build: Any) -> None:
    """Answers take 70 ms, so the steady part is from 70 to 200 ms."""
    early = build.record(0, (51, 62, 73), due_ms=0, sent_ms=0)
    inside = build.record(1, (151.5, 161.5, 174.5), due_ms=100, sent_ms=101)
    late = build.record(2, (245, 255, 265), due_ms=195)
    errors = Errors()
    for record in (early, inside, late):
        note(errors, record, PACE)

    assert errors.ttft_ns == [round(0.5 * MS), 0]
    assert errors.lag_ns == [1 * MS, 0]
    assert errors.gap_ns == [0, 3 * MS]
    assert (errors.events, errors.ended, errors.broken) == (4, 2, 0)


def test_a_failed_or_short_answer_breaks_a_level_wherever_it_is(build: Any) -> None:
    errors = Errors()
    note(errors, build.failed(0), PACE)
    note(errors, build.record(1, (50, 60)), PACE)
    note(errors, replace(build.record(2, (50, 60, 70)), outcome=Outcome.CANCELLED), PACE)

    assert errors.broken == 3


@pytest.mark.parametrize("shares", [1, 2, 3])
def test_requests_are_due_evenly_and_dealt_out_once(shares: int) -> None:
    pace = Pace()
    dealt = workloads(64, pace, shares)
    dues = sorted(a.due_ns for work in dealt for a in work.arrivals)
    indices = sorted(a.request.index for work in dealt for a in work.arrivals)

    assert len(dealt) == shares
    assert indices == list(range(round(pace.sending_ns / pace.answer_ns * 64)))
    assert {b - a for a, b in pairwise(dues)} <= {10_625_000}
    assert sum(work.load.rate_rps or 0 for work in dealt) == pytest.approx(64 / 0.68)


def test_percentiles_are_values() -> None:
    assert [percentile(list(range(1, 101)), p) for p in (50, 99, 100)] == [50, 99, 100]
    assert percentile([7], 99) == 7


@pytest.mark.parametrize("workers", [1, 2])
def test_a_few_streams_against_the_real_server(tmp_path: Path, workers: int) -> None:
    pace = Pace(ttft_ns=20 * MS, gap_ns=5 * MS, tokens=5, sending_ns=300 * MS)
    clock = MonotonicClock()
    seen: list[Level] = []

    async def main() -> tuple[Level, ...]:
        timetable = Timetable(pace.ttft_ns, pace.gap_ns)
        processes = []
        for i in range(workers):
            (tmp_path / f"server-{i}").mkdir()
            processes.append(PacedProcess(timetable, tmp_path / f"server-{i}", clock))
        try:
            for process in processes:
                await process.start()
            truths = [truth(process) for process in processes]
            return await calibrate(truths, pace, tmp_path, seen.append, Limits(4, 0.0))
        finally:
            for process in processes:
                await process.stop()

    def truth(process: PacedProcess) -> Truth:
        async def lateness() -> Lateness:
            stats = await process.stats()
            return Lateness(stats.late_ns_p50, stats.late_ns_p99, stats.arrival_ns_p50)

        dialect = OpenAICompletionsDialect()
        return Truth(Link(process.url, MODEL, dialect, clock, lambda: None), lateness)

    (found,) = asyncio.run(main())

    assert seen == [found]
    assert found.streams == 4
    assert found.verdict is not LevelVerdict.FAILED
    assert found.ttft_error_ns_p50 >= 0  # no token is early
    steady_s = (300 - 40) / 1000
    assert found.events_s * steady_s == pytest.approx(4 * 5 * steady_s * NS_PER_S / 40e6, rel=0.5)
    assert found.server.token_ns_p99 is not None
