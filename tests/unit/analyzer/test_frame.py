from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.analyzer.columns import columns_of
from harness.analyzer.frame import REQUEST_COLUMNS, STEP_COLUMNS, event_tokens, frame_of
from harness.core.record import Outcome, TokenSource
from harness.core.units import ms_to_ns
from harness.core.workload import Load, LoadKind

CLOSED = Load(LoadKind.CLOSED, concurrency=2)


def test_an_open_loop_counts_latency_from_due(build: Any) -> None:
    record = build.record(0, (100, 150), due_ms=20, sent_ms=30)
    row = frame_of(build.run([record])).requests.iloc[0]
    assert row["ttft_s"] == 0.080
    assert row["ttft_from_sent_s"] == 0.070
    assert row["e2e_s"] == 0.130
    assert row["send_lag_s"] == 0.010


def test_a_closed_loop_counts_latency_from_sent(build: Any) -> None:
    record = build.record(0, (100, 150), due_ms=0, sent_ms=30)
    row = frame_of(build.run([record], load=CLOSED)).requests.iloc[0]
    assert row["ttft_s"] == 0.070
    assert row["e2e_s"] == 0.120
    assert math.isnan(row["send_lag_s"])


def test_a_failed_request_has_infinite_latencies_even_when_tokens_had_come(build: Any) -> None:
    record = build.record(0, (100, 150), outcome=Outcome.FAILED)
    row = frame_of(build.run([record])).requests.iloc[0]
    assert row[["ttft_s", "ttft_from_sent_s", "e2e_s", "tpot_s"]].tolist() == [math.inf] * 4


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.UNFINISHED])
def test_a_request_that_did_not_end_has_no_latency(build: Any, outcome: Outcome) -> None:
    row = frame_of(build.run([build.record(0, (100, 150), outcome=outcome)])).requests.iloc[0]
    assert row[["ttft_s", "e2e_s", "tpot_s"]].isna().all()


def test_a_failed_request_that_asked_for_one_token_does_not_rank_in_tpot(build: Any) -> None:
    row = frame_of(build.run([build.failed(0, output_tokens_asked=1)])).requests.iloc[0]
    assert math.isnan(row["tpot_s"])


def test_an_answer_in_one_event_has_no_time_per_token(build: Any) -> None:
    row = frame_of(build.run([build.record(0, (100,), tokens=[8])])).requests.iloc[0]
    assert math.isnan(row["tpot_s"])


def test_events_without_counts_share_the_usage_evenly(build: Any) -> None:
    record = build.record(0, (100, 110, 120, 130), tokens=[None] * 4, usage=10)
    assert event_tokens(columns_of([record])).tolist() == [2.5] * 4


def test_events_without_any_count_have_an_unknown_number_of_tokens(build: Any) -> None:
    record = build.record(0, (100, 110), tokens=[None, None], output_tokens=None)
    frame = frame_of(build.run([record]))
    assert np.isnan(event_tokens(frame.records)).all()
    assert math.isnan(frame.requests.iloc[0]["output_tokens"])


def test_counts_of_events_add_up_when_there_is_no_usage(build: Any) -> None:
    record = build.record(0, (100, 110), tokens=[3, 4], output_tokens=None)
    assert frame_of(build.run([record])).requests.iloc[0]["output_tokens"] == 7


def test_the_count_with_a_source_wins_over_the_events(build: Any) -> None:
    record = build.record(
        0, (100, 110), tokens=[3, 4], usage=9, output_tokens_source=TokenSource.FINAL_USAGE
    )
    assert frame_of(build.run([record])).requests.iloc[0]["output_tokens"] == 9


def test_gaps_are_one_fewer_than_events_and_only_of_requests_that_ended_well(build: Any) -> None:
    records = [
        build.record(0, (100, 110, 130)),
        build.record(1, (200, 290), outcome=Outcome.FAILED),
        build.record(2, (300,)),
    ]
    assert frame_of(build.run(records)).gaps_s.tolist() == [0.010, 0.020]


def test_steps_of_the_warm_up_are_left_out(build: Any) -> None:
    start_ns = ms_to_ns(1000)
    steps = [build.step(0, 985), build.step(1, 995), build.step(2, 1000), build.step(3, 1010)]
    found = frame_of(build.run([], steps, start_ns=start_ns)).steps
    assert found["started_s"].tolist() == [0.0, 0.010]
    assert found["decode_s"].tolist() == [0.008, 0.008]


def test_an_empty_run_has_empty_tables_with_their_columns(build: Any) -> None:
    frame = frame_of(build.run([]))
    assert frame.requests.empty
    assert tuple(frame.requests.columns) == REQUEST_COLUMNS
    assert tuple(frame.steps.columns) == STEP_COLUMNS


def test_rows_stand_in_the_order_of_the_index(build: Any) -> None:
    records = [build.record(index, (100 + index, 200)) for index in range(5)]
    there = frame_of(build.run(records))
    back = frame_of(build.run(records[::-1]))
    pd.testing.assert_frame_equal(there.requests, back.requests)
    assert there.records.events_ns.tolist() == back.records.events_ns.tolist()
