"""Was the client the bottleneck? Each check has a run that trips it, and one that just does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.summary import Check, CheckVerdict, Summary
from harness.core.manifest import ClientFacts
from harness.core.record import RequestError
from harness.core.workload import Load, LoadKind

PASS, WARN, INVALID, SKIPPED = (
    CheckVerdict.PASS,
    CheckVerdict.WARN,
    CheckVerdict.INVALID,
    CheckVerdict.SKIPPED,
)
IDLE = ClientFacts(
    workers=1, cpu_share_max=0.2, blocked_share_max=0.0, reads=0, cpu_s=1.0, recorder_cpu_s=1.0
)


def check(summary: Summary, check_id: str) -> Check:
    return next(check for check in summary.checks if check.id == check_id)


@pytest.mark.parametrize(
    ("blocked", "cpu", "expected"),
    [
        (0.005, 0.70, PASS),
        (0.0051, 0.20, WARN),
        (0.0, 0.71, WARN),
        (0.02, 0.90, WARN),
        (0.021, 0.20, INVALID),
        (0.0, 0.91, INVALID),
        (0.006, 0.95, INVALID),
    ],
)
def test_v08_a_busy_client_is_found_by_its_loop_or_its_processor(
    build: Any, blocked: float, cpu: float, expected: CheckVerdict
) -> None:
    client = replace(IDLE, blocked_share_max=blocked, cpu_share_max=cpu)
    summary = build.summary([build.record(0, (10, 20_000))], client=client)
    assert check(summary, "V08").verdict is expected


def test_v08_says_what_it_saw(build: Any) -> None:
    """A block of 50 ms each second counts 45 ms of it: 4.5 %."""
    client = replace(IDLE, workers=2, blocked_share_max=0.045, cpu_share_max=0.355)
    found = check(build.summary([build.record(0, (10, 30_000))], client=client), "V08")
    assert found.value == (
        "loop blocked 4.50% of the time, busiest of 2 process(es) at 36% CPU"
    )  # fmt: skip
    assert found.verdict is INVALID


@pytest.mark.parametrize(
    ("length_ms", "expected"), [(100, PASS), (2_000, PASS), (2_600, WARN), (10_100, INVALID)]
)
def test_v08_one_hiccup_does_not_decide_over_a_short_run(
    build: Any, length_ms: float, expected: CheckVerdict
) -> None:
    """A loop that was blocked for 4 % of the time: 4 ms of 100 ms, and 0.4 s of 10 s."""
    client = replace(IDLE, blocked_share_max=0.04)
    summary = build.summary([build.record(0, (10, length_ms))], client=client)
    assert check(summary, "V08").verdict is expected


def test_v08_does_not_guess_when_the_client_did_not_say(build: Any) -> None:
    assert check(build.summary([build.record(0)]), "V08").verdict is SKIPPED


@pytest.mark.parametrize(
    ("ceiling", "expected"), [(200.0, PASS), (199.0, WARN), (125.0, WARN), (124.0, INVALID)]
)
def test_v09_the_run_is_held_against_what_the_client_can_take(
    build: Any, ceiling: float, expected: CheckVerdict
) -> None:
    records = [build.record(i, range(10, 1001, 10)) for i in range(1)]  # 100 events in 1 s
    client = replace(IDLE, ceiling_events_s=ceiling)
    found = check(build.summary(records, client=client), "V09")
    assert found.verdict is expected
    assert found.value == f"100 events/s, {100 / ceiling:.1%} of the client's {ceiling:,.0f}"


def test_v09_is_skipped_without_a_ceiling_or_without_events(build: Any) -> None:
    without = build.summary([build.record(0)], client=IDLE)
    silent = build.summary([build.failed(0)], client=replace(IDLE, ceiling_events_s=1e5))
    assert check(without, "V09").verdict is SKIPPED
    assert check(build.summary([build.record(0)]), "V09").verdict is SKIPPED
    assert check(silent, "V09").verdict is SKIPPED


@pytest.mark.parametrize(
    ("kind", "faults", "expected"),
    [
        ("client_files_exhausted", 0, PASS),
        ("client_files_exhausted", 1, WARN),
        ("client_ports_exhausted", 1, WARN),
        ("client_ports_exhausted", 2, INVALID),
        ("connect", 50, PASS),
    ],
)
def test_v10_requests_that_found_no_file_or_port_are_the_client_s_fault(
    build: Any, kind: str, faults: int, expected: CheckVerdict
) -> None:
    good = [build.record(i) for i in range(100 - faults)]
    bad = [
        replace(build.failed(100 - i), error=RequestError(kind, "none left"))
        for i in range(1, faults + 1)
    ]
    assert check(build.summary([*good, *bad]), "V10").verdict is expected


def test_v10_needs_a_request(build: Any) -> None:
    assert check(build.summary([]), "V10").verdict is SKIPPED


def rounds(build: Any, gap_ms: float, slots: int = 2, each: int = 20) -> list[Any]:
    """`slots` users who each send `each` requests of 100 ms, `gap_ms` after the last one's end."""
    cycle_ms = 100 + gap_ms
    return [
        build.record(
            slot + slots * turn,
            (turn * cycle_ms + 50, turn * cycle_ms + 100),
            sent_ms=turn * cycle_ms,
        )
        for turn in range(each)
        for slot in range(slots)
    ]


@pytest.mark.parametrize(
    ("gap_ms", "expected"), [(0, PASS), (2.0, PASS), (2.1, WARN), (5.2, WARN), (5.4, INVALID)]
)
def test_v14_slots_that_the_client_left_empty_are_counted(
    build: Any, gap_ms: float, expected: CheckVerdict
) -> None:
    load = Load(LoadKind.CLOSED, concurrency=2)
    assert check(build.summary(rounds(build, gap_ms), load=load), "V14").verdict is expected


def test_v14_is_little_s_law(build: Any) -> None:
    """N = 16, X = 4 requests/s and R = 3.8 s leave Z = 0.2 s: 5 % of the cycle of 4 s."""
    load = Load(LoadKind.CLOSED, concurrency=16)
    sent_ms = [4000 * turn + 250 * slot for turn in range(101) for slot in range(16)]
    records = [
        build.record(i, (sent + 100, sent + 3800), sent_ms=sent) for i, sent in enumerate(sent_ms)
    ]
    found = check(build.summary(records, load=load), "V14")
    # To the last sending: 100 whole cycles of each slot, and 30 s of the slots' last requests.
    share = 1 - (16 * 100 * 3.8 + 30) / (16 * 403.75)
    assert found.value.startswith(f"empty {share:.2%} of slot time")
    assert share == pytest.approx(0.05, rel=0.1)


def test_v14_does_not_count_the_drain(build: Any) -> None:
    load = Load(LoadKind.CLOSED, concurrency=2)
    records = rounds(build, 0)
    slow = replace(records[-1], events_ns=(10**10, 10**12), closed_ns=10**12)
    assert check(build.summary([*records[:-1], slow], load=load), "V14").verdict is PASS


def test_v14_a_request_that_never_ended_holds_its_slot(build: Any) -> None:
    load = Load(LoadKind.CLOSED, concurrency=2)
    held = replace(build.record(0, (50,)), closed_ns=None)
    records = [held, *(replace(r, index=r.index + 1) for r in rounds(build, 0, slots=1, each=20))]
    assert check(build.summary(records, load=load), "V14").verdict is PASS


def test_v14_needs_ten_rounds_of_a_closed_loop(build: Any) -> None:
    load = Load(LoadKind.CLOSED, concurrency=2)
    records = rounds(build, 50)
    assert check(build.summary(records[:20], load=load), "V14").verdict is INVALID
    assert check(build.summary(records[:19], load=load), "V14").verdict is SKIPPED
    assert check(build.summary(records), "V14").verdict is SKIPPED
