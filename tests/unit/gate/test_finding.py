"""What one run shows of an objective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from harness.analyzer.frame import RunFrame, frame_of
from harness.analyzer.intervals import wilson
from harness.core.manifest import Counts
from harness.core.objectives import parse_objectives
from harness.core.record import Outcome
from harness.core.workload import Load, LoadKind
from harness.gate.capacity import Answer
from harness.gate.finding import Finding, find

RATE = Load(LoadKind.POISSON, rate_rps=10.0)


def frame(build: Any, ttfts_ms: Sequence[float | None], **changes: Any) -> RunFrame:
    """Requests due every 100 ms with those TTFTs and three tokens 10 ms apart; None failed."""
    records = [
        build.failed(i, due_ns=100_000_000 * i, sent_ns=100_000_000 * i)
        if ttft is None
        else build.record(i, [100 * i + ttft + 10 * k for k in range(3)], due_ms=100 * i)
        for i, ttft in enumerate(ttfts_ms)
    ]
    return frame_of(build.run(records, load=RATE, **changes))


def found(build: Any, word: str, ttfts_ms: Sequence[float | None], **changes: Any) -> Finding:
    (objective,) = parse_objectives([word], None)
    return find(objective, frame(build, ttfts_ms, **changes))


def shuffled(late: int, of: int) -> list[float]:
    values = [900.0] * late + [100.0] * (of - late)
    return [float(value) for value in np.random.default_rng(7).permutation(values)]


def test_enough_requests_in_time_meet_it(build: Any) -> None:
    finding = found(build, "ttft_p99=500ms", [100.0] * 381)

    assert finding.answer is Answer.MET
    assert (finding.met, finding.due, finding.tau) == (381, 381, 1.0)
    assert finding.lo == pytest.approx(wilson(381, 381).lo)


def test_one_request_fewer_leaves_it_open(build: Any) -> None:
    assert found(build, "ttft_p99=500ms", [100.0] * 380).answer is Answer.UNRESOLVED


def test_a_latency_at_the_limit_is_within_it(build: Any) -> None:
    assert found(build, "ttft_p50=100ms", [100.0] * 20).met == 20


def test_an_interval_below_the_share_needed_does_not_meet_it(build: Any) -> None:
    finding = found(build, "ttft_p90=500ms", shuffled(60, 200))

    assert finding.answer is Answer.NOT_MET
    assert finding.met == 140
    assert finding.reached_s == pytest.approx(0.9)


def test_an_interval_that_holds_the_share_is_unresolved(build: Any) -> None:
    assert found(build, "ttft_p90=500ms", shuffled(18, 200)).answer is Answer.UNRESOLVED


def test_a_failed_request_did_not_meet_it(build: Any) -> None:
    finding = found(build, "ttft_p90=500ms", [100.0, None] * 100)

    assert finding.met == 100
    assert finding.answer is Answer.NOT_MET
    assert finding.reached_s is None, "one in ten never came"


def test_failures_alone_can_be_bounded(build: Any) -> None:
    finding = found(build, "failure_rate=5%", [9000.0] * 200)

    assert finding.answer is Answer.MET
    assert finding.reached_s is None


def test_requests_that_were_late_together_are_worth_fewer(build: Any) -> None:
    together = [100.0] * 90 + [900.0] * 20 + [100.0] * 90

    spread, wave = (found(build, "ttft_p90=500ms", v) for v in (shuffled(20, 200), together))

    assert spread.met == wave.met
    assert wave.tau > 5 > spread.tau
    assert wave.lo < spread.lo <= spread.hi < wave.hi


def test_requests_that_never_came_out_leave_it_open_on_both_sides(build: Any) -> None:
    counts = Counts(planned=200, sent=100, ok=100)
    finding = found(build, "ttft_p50=500ms", [100.0] * 100, counts=counts)

    assert (finding.met, finding.due) == (100, 200)
    assert finding.lo == pytest.approx(wilson(100, 200).lo)
    assert finding.hi == 1.0
    assert finding.answer is Answer.UNRESOLVED


def test_a_run_that_was_cut_short_can_still_miss(build: Any) -> None:
    counts = Counts(planned=110, sent=100, ok=100)

    assert found(build, "ttft_p90=500ms", [900.0] * 100, counts=counts).answer is Answer.NOT_MET


def test_a_cancelled_request_is_not_known_to_have_missed(build: Any) -> None:
    records = [build.record(i, [100 * i + 100, 100 * i + 110], due_ms=100 * i) for i in range(50)]
    records[3] = build.record(3, [], due_ms=300, outcome=Outcome.CANCELLED)
    (objective,) = parse_objectives(["ttft_p50=1s"], None)

    finding = find(objective, frame_of(build.run(records, load=RATE)))

    assert finding.met == 49
    assert finding.hi == 1.0


def test_limits_of_single_requests_are_met_by_those_that_meet_all(build: Any) -> None:
    (objective,) = parse_objectives(["ttft=500ms", "tpot=20ms"], 0.5)
    fast = [build.record(i, [100, 110, 120]) for i in range(10)]
    slow_tokens = [build.record(10 + i, [100, 400, 700]) for i in range(10)]
    late = [build.record(20 + i, [900, 910, 920]) for i in range(10)]

    finding = find(objective, frame_of(build.run([*fast, *slow_tokens, *late])))

    assert finding.met == 10
    assert finding.reached_s is None, "two limits have no common latency"


def test_an_answer_of_one_token_breaks_no_limit_on_tpot(build: Any) -> None:
    (objective,) = parse_objectives(["tpot_p50=20ms"], None)

    assert find(objective, frame_of(build.run([build.record(i, [100]) for i in range(9)]))).met == 9


def test_a_run_without_a_request_shows_nothing(build: Any) -> None:
    (objective,) = parse_objectives(["ttft_p50=1s"], None)

    assert find(objective, frame_of(build.run([]))).answer is Answer.UNRESOLVED
