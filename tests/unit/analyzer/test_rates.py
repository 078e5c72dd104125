"""Rates over the steady part of a run, and goodput."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.frame import frame_of
from harness.analyzer.measures import Unmeasured
from harness.analyzer.rates import Window, steady_window
from harness.core.record import Outcome
from harness.core.slo import parse_slos
from harness.core.workload import Load, LoadKind

CLOSED = Load(LoadKind.CLOSED, concurrency=2)
POISSON = Load(LoadKind.POISSON, rate_rps=1.0)


def value(summary: Any, metric: str) -> Any:
    return next(v for v in summary.values if v.metric == metric)


def in_turn(build: Any, count: int, last_ms: float = 100) -> list[Any]:
    """A closed loop of 2 in flight, each answer of one token after 100 ms; the last takes longer."""
    return [
        build.record(
            i, (100 * (i // 2) + (last_ms if i == count - 1 else 100),), sent_ms=100 * (i // 2)
        )
        for i in range(count)
    ]


def test_a_closed_loop_is_rated_between_its_first_end_and_its_last_send(build: Any) -> None:
    records = in_turn(build, 20, last_ms=10_000)
    run = build.run(records, load=CLOSED)
    assert steady_window(frame_of(run)) == Window(0.1, 0.9)
    summary = build.summary(records, load=CLOSED)
    assert summary.value("request_s") == summary.value("output_tok_s") == 20.0
    assert summary.value("makespan_s") == 10.9


def test_its_tail_changes_no_rate(build: Any) -> None:
    short, long = (build.summary(in_turn(build, 20, ms), load=CLOSED) for ms in (100, 10_000))
    for metric in ("request_s", "output_tok_s"):
        assert short.value(metric) == long.value(metric)


@pytest.mark.parametrize(("count", "has_window"), [(3, False), (4, True)])
def test_a_closed_loop_needs_two_turns_of_each_slot(
    build: Any, count: int, has_window: bool
) -> None:
    records = in_turn(build, count)
    records = [replace(r, sent_ns=r.sent_ns + 1000) for r in records]  # after the slot was free
    window = steady_window(frame_of(build.run(records, load=CLOSED)))
    assert isinstance(window, Window) is has_window


def test_sends_that_all_came_before_the_first_end_leave_the_makespan(build: Any) -> None:
    records = [build.record(i, (1000,), sent_ms=i) for i in range(6)]
    assert steady_window(frame_of(build.run(records, load=CLOSED))) is None
    assert build.summary(records, load=CLOSED).value("request_s") == 6.0


def test_a_backlog_has_no_part_without_a_drain(build: Any) -> None:
    assert steady_window(frame_of(build.run([build.record(0)] * 1))) is None


def test_one_due_instant_spans_no_window(build: Any) -> None:
    window = steady_window(frame_of(build.run([build.record(0)], load=POISSON)))
    assert isinstance(window, Unmeasured)


def judged(build: Any, records: list[Any], *slos: str, load: Load = POISSON) -> Any:
    return build.summary(records, load=load, slos=parse_slos(slos))


def mixed(build: Any) -> list[Any]:
    """TTFT 100 to 1000 ms, a token after 10 ms; one failed, one was cancelled."""
    records = [
        build.record(i, (2000 * i + 100 * (i + 1), 2000 * i + 100 * (i + 1) + 10), due_ms=2000 * i)
        for i in range(10)
    ]
    failed = build.failed(10, due_ns=20_000_000_000, sent_ns=20_000_000_000)
    cancelled = build.record(11, (), due_ms=22_000, outcome=Outcome.CANCELLED)
    return [*records, failed, cancelled]


@pytest.mark.parametrize(
    ("slos", "good"),
    [
        (("ttft=500ms",), 5),
        (("ttft=499ms",), 4),
        (("ttft=500ms", "tpot=10ms"), 5),
        (("ttft=500ms", "tpot=9ms"), 0),
        (("e2e=1010ms",), 10),
        (("normalized_latency=505ms",), 10),
        (("normalized_latency=100ms",), 1),
    ],
)
def test_goodput_is_of_all_requests_and_of_all_limits(
    build: Any, slos: tuple[str, ...], good: int
) -> None:
    summary = judged(build, mixed(build), *slos)
    assert summary.value("goodput_frac") == good / 12
    bounds = value(summary, "goodput_frac").ci_within
    assert bounds.method == "Wilson"
    assert bounds.lo <= good / 12 <= bounds.hi


def test_goodput_a_second_is_over_the_window_of_all_rates(build: Any) -> None:
    summary = judged(build, mixed(build), "ttft=500ms")
    assert summary.value("goodput_req_s") == 5 / 22
    assert summary.value("request_s") == 10 / 22


def test_an_answer_of_one_token_keeps_to_any_limit_on_the_time_between(build: Any) -> None:
    records = [build.record(i, (100,)) for i in range(4)]
    assert (
        judged(build, records, "tpot=1us", load=Load(LoadKind.BACKLOG)).value("goodput_frac") == 1
    )


def test_without_a_limit_there_is_no_goodput(build: Any) -> None:
    for metric in ("goodput_frac", "goodput_req_s"):
        found = value(build.summary(mixed(build), load=POISSON), metric)
        assert found.value is None
        assert "--slo" in found.reason


def test_no_requests_have_no_goodput(build: Any) -> None:
    assert value(judged(build, [], "ttft=1s"), "goodput_frac").reason == "no request was sent"


def test_a_failure_more_never_raises_goodput(build: Any) -> None:
    records = mixed(build)
    more = [*records, build.failed(12, due_ns=22_000_000_000, sent_ns=22_000_000_000)]
    for metric in ("goodput_frac", "goodput_req_s"):
        one, two = (judged(build, r, "ttft=500ms").value(metric) for r in (records, more))
        assert two <= one


def test_no_failure_still_has_an_upper_bound(build: Any) -> None:
    summary = build.summary([build.record(i) for i in range(300)])
    found = value(summary, "failure_rate")
    assert (found.value, found.ci_within.lo) == (0.0, 0.0)
    assert found.ci_within.hi == pytest.approx(0.012221, abs=1e-6)
