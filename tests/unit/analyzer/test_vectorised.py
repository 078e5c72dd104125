"""Whole columns at once must come to what one record after the other comes to."""

from __future__ import annotations

import math
from collections import Counter
from functools import partialmethod
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analyzer import answer_checks, strings
from harness.analyzer.columns import RecordColumns, columns_of
from harness.analyzer.frame import REQUEST_COLUMNS, event_tokens, frame_of
from harness.analyzer.metrics import find_metric
from harness.analyzer.summarize import summarize
from harness.analyzer.validity import check_order
from harness.core.record import Outcome, RequestError, RequestRecord, TokenSource
from harness.core.workload import Load, LoadKind

BACKLOG, CLOSED = Load(LoadKind.BACKLOG), Load(LoadKind.CLOSED, concurrency=2)
POISSON = Load(LoadKind.POISSON, rate_rps=1.0)
LOADS = [BACKLOG, CLOSED, POISSON]

# Few instants, so that events share a read, stand still, and fall out of order.
instants = st.integers(0, 30).map(lambda ms: ms * 1_000_000)
counts = st.none() | st.integers(0, 4)
records = st.lists(st.tuples(instants, st.none() | st.integers(0, 2)), max_size=20).flatmap(
    lambda events: st.builds(
        RequestRecord,
        index=st.integers(0, 9),
        label=st.sampled_from("AB"),
        due_ns=instants,
        sent_ns=instants,
        first_byte_ns=st.none() | instants,
        events_ns=st.sampled_from(
            [tuple(e for e, _ in events), tuple(sorted(e for e, _ in events))]
        ),
        events_tokens=st.sampled_from([tuple(t for _, t in events), (1,) * len(events)]),
        closed_ns=st.none() | instants,
        prompt_tokens_asked=st.just(3),
        output_tokens_asked=st.integers(0, 4),
        prompt_tokens=counts,
        output_tokens=counts | st.just(sum(t or 0 for _, t in events)),
        output_tokens_source=st.none() | st.sampled_from(TokenSource),
        finish_reason=st.none(),
        outcome=st.sampled_from(Outcome),
        error=st.none() | st.just(RequestError("cut", "")),
        http_status=st.just(200),
        bytes_received=st.just(1),
        retries=st.integers(0, 1),
        first_event_ns=st.none() | instants,
        first_answer_ns=st.none() | instants,
        usage_tokens=counts,
        cached_tokens=counts,
    )
)
runs = st.lists(records, max_size=6)


def streamed(record: RequestRecord) -> int | None:
    return None if None in record.events_tokens else sum(t or 0 for t in record.events_tokens)


def output_tokens(record: RequestRecord) -> int | None:
    return streamed(record) if record.output_tokens is None else record.output_tokens


def seconds(instant_ns: int | None, zero_ns: int = 0) -> float:
    return math.nan if instant_ns is None else (instant_ns - zero_ns) / 1e9


def number(count: int | None) -> float:
    return math.nan if count is None else float(count)


def latency(record: RequestRecord, measured_s: float) -> float:
    if record.outcome is Outcome.FAILED:
        return math.inf
    return measured_s if record.outcome is Outcome.OK else math.nan


def tpot(record: RequestRecord) -> float:
    if record.outcome is Outcome.FAILED:
        return math.inf if record.output_tokens_asked >= 2 else math.nan
    tokens = output_tokens(record) or 0
    if record.outcome is not Outcome.OK or min(tokens, len(record.events_ns)) < 2:
        return math.nan
    return seconds(record.events_ns[-1], record.events_ns[0]) / (tokens - 1)


def normalized(record: RequestRecord, e2e_s: float) -> float:
    tokens = output_tokens(record) or 0
    return latency(record, e2e_s / tokens if tokens else math.nan)


def tpot_after_first_event(record: RequestRecord) -> float:
    if record.outcome is Outcome.FAILED:
        return math.inf if record.output_tokens_asked >= 2 else math.nan
    if record.outcome is not Outcome.OK or None in record.events_tokens:
        return math.nan
    tokens = sum(record.events_tokens[1:])  # type: ignore[arg-type]
    return seconds(record.events_ns[-1], record.events_ns[0]) / tokens if tokens else math.nan


def request_row(record: RequestRecord, *, is_open_loop: bool) -> list[object]:
    first, last = (record.events_ns[0], record.events_ns[-1]) if record.events_ns else (None, None)
    zero = record.due_ns if is_open_loop else record.sent_ns
    return [
        record.index,
        record.label,
        record.outcome.value,
        record.error.kind if record.error else "",
        seconds(record.due_ns),
        seconds(record.sent_ns),
        seconds(record.sent_ns, record.due_ns) if is_open_loop else math.nan,
        seconds(first),
        seconds(last),
        seconds(record.closed_ns),
        len(record.events_ns),
        number(record.prompt_tokens),
        record.output_tokens_asked,
        number(output_tokens(record)),
        latency(record, seconds(first, zero)),
        latency(record, seconds(first, record.sent_ns)),
        latency(record, seconds(last, zero)),
        tpot(record),
        normalized(record, seconds(last, zero)),
        latency(record, seconds(record.first_event_ns, zero)),
        latency(record, seconds(record.first_answer_ns, zero)),
        tpot_after_first_event(record),
    ]


def carried_by(record: RequestRecord) -> list[float]:
    events = len(record.events_ns)
    if streamed(record) is None:
        return [number(record.output_tokens) / events] * events
    return list(map(number, record.events_tokens))


def is_in_order(record: RequestRecord, *, is_open_loop: bool) -> bool:
    due = (record.due_ns,) if is_open_loop else ()
    line = (*due, record.sent_ns, record.first_byte_ns, *record.events_ns, record.closed_ns)
    return all(before <= after for before, after in pairwise(ns for ns in line if ns is not None))


def is_counted(record: RequestRecord) -> bool:
    is_known = record.output_tokens is not None or not record.events_ns
    source = record.output_tokens_source
    return record.outcome is Outcome.OK and is_known and source is not TokenSource.CHUNKS


def is_buffered(record: RequestRecord) -> bool:
    first, last = record.events_ns[0], record.events_ns[-1]
    wide = sum(after - before >= 1_000_000 for before, after in pairwise(record.events_ns))
    is_late = first - record.sent_ns > 0.9 * (last - record.sent_ns)
    return is_late and 2 * wide < len(record.events_ns)


def assert_same(table: pd.DataFrame, rows: list[list[object]], columns: tuple[str, ...]) -> None:
    expected = pd.DataFrame(rows, columns=list(columns))
    found = table.astype({"outcome": object})
    assert found.columns.tolist() == expected.columns.tolist()
    for column in columns:
        a, b = found[column].to_numpy(), expected[column].to_numpy()
        if column in {"label", "outcome", "error_kind"}:
            assert a.tolist() == b.tolist()
        else:
            np.testing.assert_array_equal(a.astype(float), b.astype(float), strict=True)


@settings(max_examples=60)
@given(several=runs, load=st.sampled_from(LOADS))
def test_tables_are_what_each_record_comes_to(
    build: Any, several: list[RequestRecord], load: Load
) -> None:
    frame = frame_of(build.run(several, load=load))
    ordered = sorted(several, key=lambda record: record.index)
    rows = [request_row(record, is_open_loop=load.is_open_loop) for record in ordered]
    assert_same(frame.requests, rows, REQUEST_COLUMNS)
    carried = [tokens for record in ordered for tokens in carried_by(record)]
    np.testing.assert_array_equal(event_tokens(frame.records), np.array(carried, dtype=float))
    well = [record for record in ordered if record.outcome is Outcome.OK]
    gaps = [seconds(b, a) for record in well for a, b in pairwise(record.events_ns)]
    assert frame.gaps_s.tolist() == sorted(gaps)


@settings(max_examples=60)
@given(several=runs, load=st.sampled_from(LOADS))
def test_records_out_of_order_are_found_one_by_one(
    build: Any, several: list[RequestRecord], load: Load
) -> None:
    wrong = sum(not is_in_order(record, is_open_loop=load.is_open_loop) for record in several)
    check = check_order(frame_of(build.run(several, load=load)))
    assert check.value.startswith(f"{wrong} record(s) out of order")


@settings(max_examples=60)
@given(several=runs)
def test_what_is_said_of_answers_is_the_sum_over_records(several: list[RequestRecord]) -> None:
    columns = columns_of(several)
    counted = [record for record in several if is_counted(record)]
    differ = [
        r for r in counted
        if {streamed(r), r.usage_tokens} - {None, r.output_tokens or 0}
    ]  # fmt: skip
    other = [r for r in counted if (r.output_tokens or 0) != r.output_tokens_asked]
    assert answer_checks.stream_differs(columns).sum() == len(differ)
    assert answer_checks.length_differs(columns).sum() == len(other)
    timed = [r for r in several if not math.isnan(tpot(r)) and r.outcome is Outcome.OK]
    bundled = [r for r in timed if (r.events_tokens[0] or 0) > 1]
    assumed = [
        r for r in timed
        if r.events_tokens[0] is None
        and not (is_counted(r) and r.output_tokens == len(r.events_ns))
    ]  # fmt: skip
    assert answer_checks.first_event_bundled(columns).sum() == len(bundled)
    assert answer_checks.first_event_assumed(columns).sum() == len(assumed)
    long = [
        r for r in several
        if r.outcome is Outcome.OK and r.events_ns and (output_tokens(r) or 0) >= 16
    ]  # fmt: skip
    expected = sum(map(is_buffered, long)) / len(long) if long else 0.0
    assert answer_checks.buffered_share(columns) == pytest.approx(expected)


@settings(max_examples=60)
@given(several=runs)
def test_reads_are_grouped_by_request_and_instant(several: list[RequestRecord]) -> None:
    reads: Counter[tuple[int, int]] = Counter()
    for place, record in enumerate(several):
        read, before_ns = 0, None
        for received_ns, tokens in zip(record.events_ns, record.events_tokens, strict=True):
            read += received_ns != before_ns
            before_ns = received_ns
            reads[place, read] += 1 if tokens is None else tokens
    expected = sum(tokens > 1 for tokens in reads.values()) / len(reads) if reads else 0.0
    assert answer_checks.coalesced_share(columns_of(several)) == pytest.approx(expected)


@settings(max_examples=60)
@given(several=st.lists(records, min_size=2, max_size=6))
def test_rates_of_arrivals_count_the_events_inside_the_window(
    build: Any, several: list[RequestRecord]
) -> None:
    start, end = min(r.due_ns for r in several), max(r.due_ns for r in several)
    frame = frame_of(build.run(several, load=POISSON))
    found = find_metric("output_tok_s").function(frame)
    inside = [
        tokens
        for record in several
        if record.outcome is not Outcome.FAILED
        for event_ns, tokens in zip(record.events_ns, carried_by(record), strict=True)
        if seconds(start) <= seconds(event_ns) < seconds(end)
    ]
    total = math.fsum(inside)
    if start == end or math.isnan(total):
        assert not isinstance(found, float)
    else:
        assert found == pytest.approx(total / seconds(end, start))


def test_a_run_too_large_to_be_taken_at_once_has_the_same_numbers(
    build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [
        build.record(i, [100 * i + 7 * k * (1 + i % 3) for k in range(1, 2 + i % 5)], due_ms=90 * i)
        for i in range(40)
    ]
    run = build.run(many[::2] + many[1::2][::-1], load=POISSON)
    whole = summarize(run)
    monkeypatch.setattr(strings, "_AT_ONCE", 3)
    monkeypatch.setattr(RecordColumns, "pieces", partialmethod(RecordColumns.pieces, 3))
    assert len(list(columns_of(run.requests).pieces())) >= 10
    assert summarize(run) == whole
    assert list(columns_of(run.requests)) == many
