"""The clock of a trace: order, origin, unit, and rows without a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import TraceError, UsageError
from workloads.importers import timeline
from workloads.importers.formats import Trace, open_trace

MS = 10**6
S = 10**9


def trace_of(
    folder: Path, times: list[Any], named_format: str = "mooncake", unit: Any = None, **row: Any
) -> Trace:
    path = folder / "trace.jsonl"
    rows = [{"input_length": i + 1, "output_length": 1, **row} for i in range(len(times))]
    rows = [r if t is None else {**r, "timestamp": t} for r, t in zip(rows, times, strict=True)]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return open_trace(path, named_format, unit)


def dues(trace: Trace) -> list[int | None]:
    return [s.due_ns for s in trace.shapes]


def test_rows_out_of_order_are_sorted_and_counted(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [100, 90, 100, 120, 110])
    found = [(s.due_ns, s.prompt_tokens) for s in trace.shapes]
    assert found == [(0, 2), (10 * MS, 1), (10 * MS, 3), (20 * MS, 5), (30 * MS, 4)]
    assert [str(loss) for loss in trace.losses.counted()] == [
        "2 rows repaired: out of order in time (first: row 2)"
    ]


def test_a_row_further_out_of_order_than_the_window_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "WINDOW", 3)
    assert dues(trace_of(tmp_path, [5, 6, 7, 1, 8])) == [0, 4 * MS, 5 * MS, 6 * MS, 7 * MS]
    trace = trace_of(tmp_path, [5, 6, 7, 8, 1])
    with pytest.raises(TraceError, match="row 5: its time is more than 3 rows out of order"):
        list(trace.shapes)


def test_a_row_without_a_time_is_due_with_the_one_before(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [None, 1000, None, 3000])
    assert dues(trace) == [0, 0, 0, 2 * S]
    assert [(loss.kind, loss.rows, loss.first_row) for loss in trace.losses.counted()] == [
        ("repaired", 2, 1)
    ]


def test_later_turns_need_no_time(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [1000, None, None], session_id="a")
    assert [(s.due_ns, s.turn) for s in trace.shapes] == [(0, 0), (0, 1), (0, 2)]
    assert trace.losses.counted() == ()


def test_turns_are_counted_in_order_of_time(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [2000, 1000], session_id="a")
    assert [(s.due_ns, s.turn) for s in trace.shapes] == [(0, 0), (S, 1)]


def test_a_time_after_a_window_of_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "_LEADING", 2)
    trace = trace_of(tmp_path, [None, None, 5])
    with pytest.raises(TraceError, match="row 3: it has a time, the 2 requests at the start none"):
        list(trace.shapes)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_unit_that_is_named_is_taken(tmp_path: Path, unit: str) -> None:
    trace = trace_of(tmp_path, [5, 8], unit=unit)
    assert dues(trace) == [0, 3 * {"s": S, "ms": MS, "us": 1000, "ns": 1}[unit]]
    assert trace.time == f"times in {unit}, as --time-unit says"


def test_delays_are_in_the_unit_of_the_times(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [5, None], unit="s", session_id="a", delay=2)
    assert [s.delay_ns for s in trace.shapes] == [2 * S, 2 * S]


def test_delays_without_times_have_a_unit_too(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [None, None], unit="s", session_id="a", delay=2)
    assert [(s.due_ns, s.delay_ns) for s in trace.shapes] == [(None, 2 * S), (None, 2 * S)]


def test_a_unit_for_dates_or_for_no_times_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    path.write_text("Who?\n")
    with pytest.raises(UsageError, match="has no times; leave out --time-unit"):
        open_trace(path, None, "s")
    path = tmp_path / "azure.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2030-01-01 00:00:00,1,1\n")
    with pytest.raises(
        UsageError, match="has dates, counted from the first; leave out --time-unit"
    ):
        open_trace(path, None, "s")


@pytest.mark.parametrize(
    ("time", "gap", "unit"),
    [(1_750_000_000, 2, "s"), (1_750_000_000_123, 2000, "ms"), (1.75e9, 2, "s"),
     (1_750_000_000_123_456, 2 * 10**6, "us"), (1_750_000_000_123_456_789, 2 * 10**9, "ns")],
)  # fmt: skip
@pytest.mark.parametrize("named", ["mooncake", "guidellm-trace"])
def test_times_since_1970_show_their_unit_and_the_guess_is_said(
    tmp_path: Path, time: float, gap: int, unit: str, named: str
) -> None:
    trace = trace_of(tmp_path, [time, time + gap], named)
    assert dues(trace) == [0, 2 * S]
    assert ("a guess" in trace.time) == (unit != {"mooncake": "ms", "guidellm-trace": "s"}[named])
    assert unit in trace.time


def test_an_instant_is_exact_to_the_last_digit_that_is_written(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [1750000000.001, 1750000000.011], "guidellm-trace")
    assert dues(trace) == [0, 10 * MS]


@given(
    times=st.lists(st.integers(0, 10**6), min_size=1, max_size=30),
    origin=st.sampled_from([0, 10**12]),
)
def test_every_row_is_kept_in_order_and_the_first_is_due_at_once(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], origin: int
) -> None:
    trace = trace_of(tmp_path_factory.mktemp("t"), [t + origin for t in times], unit="ms")
    shapes = list(trace.shapes)
    expected = sorted((t - min(times), i + 1) for i, t in enumerate(times))
    assert [(s.due_ns, s.prompt_tokens) for s in shapes] == [(t * MS, n) for t, n in expected]
    late = sum(t < max(times[:i], default=0) for i, t in enumerate(times))
    assert sum(loss.rows for loss in trace.losses.counted()) == late
