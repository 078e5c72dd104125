from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.analyzer.metrics import METRICS
from harness.core.cautions import Code, caution
from harness.core.engine import EngineSpec
from harness.core.record import Outcome, RequestError
from harness.core.slo import parse_slos
from harness.core.workload import Load, LoadKind
from harness.gate import tables
from harness.gate.cells import Table, Tone
from harness.gate.comparison import Comparison, ComparisonTable
from harness.gate.comparison_table import comparison_table

INHOUSE = EngineSpec("inhouse", "inhouse-continuous", "smollm2", policy="continuous")


def row_of(table: Table, name: str) -> tuple[str, ...]:
    return next(tuple(c.text for c in row) for row in table.rows if row[0].text == name)


def compared(*rows: Comparison, runs: int = 1) -> ComparisonTable:
    return ComparisonTable(
        "inhouse-static", "inhouse-continuous", "m, h, w", ("policy",), runs, runs, rows, ()
    )


def test_runs_of_one_engine_are_numbered_and_others_keep_their_name(build: Any) -> None:
    one, other = build.manifest(), build.manifest(engine=INHOUSE)
    assert tables.run_labels([one, other, one]) == (
        "inhouse-static #1",
        "inhouse-continuous",
        "inhouse-static #2",
    )


def test_the_metric_table_has_a_row_for_every_metric_of_requests_and_a_column_for_every_run(
    build: Any,
) -> None:
    table = tables.metric_table([build.summary([build.record()]), build.summary([])])
    own = [
        m.title for m in METRICS if m.refines is None and not m.is_of_steps and not m.is_optional
    ]
    assert [row[0].text for row in table.rows] == own
    assert {len(row) for row in table.rows} == {len(table.columns)} == {3}


def test_a_refinement_is_shown_where_it_says_more_than_what_it_refines(build: Any) -> None:
    same = build.record(0, (100, 110), first_event_ns=100_000_000)
    earlier = build.record(0, (100, 110), first_event_ns=1_000_000)
    for records, rows in (
        ([[same]], 0),
        ([[build.record()]], 0),
        ([[earlier]], 2),
        ([[same], [earlier]], 2),
    ):
        table = tables.metric_table([build.summary(of_run) for of_run in records])
        shown = [row[0].text for row in table.rows if "time to first" in row[0].text]
        assert shown == ["mean time to first event", "longest time to first event"][:rows]


def test_a_comparison_shows_a_refinement_where_one_side_says_more() -> None:
    ttft = Comparison("ttft_s_mean", 0.1, 0.1, 1.0, None, None)
    same = Comparison("time_to_first_event_s_mean", 0.1, 0.1, 1.0, None, None)
    unknown = Comparison("time_to_first_event_s_mean", 0.1, None, None, None, None, "not said")
    other = Comparison("time_to_first_event_s_mean", 0.1, 0.001, 0.01, None, None)
    for row, shown in ((same, 1), (unknown, 1), (other, 2)):
        assert len(comparison_table(compared(ttft, row)).rows) == shown


def test_a_metric_that_was_not_measured_points_to_its_reason(build: Any) -> None:
    table = tables.metric_table([build.summary([build.record()])])
    shown = row_of(table, "TTFT p99")[1]
    assert shown.startswith("not measured")
    number = shown.removeprefix("not measured")
    (reason,) = (note for note in table.notes if note.startswith(number))
    assert "368" in reason


def test_each_reason_is_written_once_however_many_cells_need_it(build: Any) -> None:
    table = tables.metric_table([build.summary([]), build.summary([])])
    assert len(set(table.notes)) == len(table.notes)


def test_a_ratio_carries_its_whole_phrase() -> None:
    table = comparison_table(compared(Comparison("output_tok_s", 10, 19.3, 1.93, None, None)))
    ratio = table.rows[0][3]
    assert ratio.text == "1.93x"
    assert ratio.note == "1.93x output tok/s vs inhouse-static (m, h, w)"


def test_a_higher_latency_reads_as_worse_and_a_higher_rate_as_better() -> None:
    table = comparison_table(
        compared(
            Comparison("output_tok_s", 10, 20, 2.0, 1.8, 2.2),
            Comparison("ttft_s_p50", 1, 2, 2.0, 1.8, 2.2),
            Comparison("output_tokens", 1, 2, 2.0, 1.8, 2.2),
            runs=3,
        )
    )
    assert [row[-1].text for row in table.rows] == ["better", "worse", ""]


def test_without_an_interval_better_and_worse_are_questions() -> None:
    table = comparison_table(
        compared(
            Comparison("output_tok_s", 10, 20, 2.0, None, None),
            Comparison("ttft_s_p50", 1, 2, 2.0, None, None),
        )
    )
    assert [row[-1].text for row in table.rows] == ["better?", "worse?"]


def test_an_interval_that_contains_one_reads_as_unclear() -> None:
    row = Comparison("output_tok_s", 10, 11, 1.1, 0.98, 1.23, p=0.12, p_table=0.25)
    table = comparison_table(compared(row, runs=3))
    assert [cell.text for cell in table.rows[0][3:]] == [
        "~ 1.10x", "0.98x to 1.23x", "0.250", "unclear"
    ]  # fmt: skip
    assert table.rows[0][5].note == "for this row by itself 0.120"


def test_without_repeats_there_is_no_interval_column_but_a_note_that_says_why() -> None:
    reason = "1 run(s) on a side give no interval (3 needed)"
    row = Comparison("output_tok_s", 10, 11, 1.1, None, None, reason)
    table = comparison_table(compared(row))
    assert "95 % interval" not in [column.title for column in table.columns]
    assert table.notes == (reason,)


def test_a_missing_ratio_shows_both_values_and_the_reason() -> None:
    row = Comparison("failure_rate", 0.0, 0.5, None, None, None, "a value is 0")
    table = comparison_table(compared(row))
    assert [cell.text for cell in table.rows[0]] == ["failure rate", "0.0 %", "50.0 %", "none¹", ""]
    assert table.notes == ("¹ a value is 0",)


def test_checks_that_pass_are_left_out_unless_asked_for(build: Any) -> None:
    summary = build.summary([build.record(), build.failed(1)])
    shown = tables.check_table([summary])
    assert {row[1].text for row in shown.rows} <= {"warn", "invalid"}
    assert len(tables.check_table([summary], everything=True).rows) == len(summary.checks)


def test_the_same_check_of_all_runs_is_one_row(build: Any) -> None:
    summaries = [build.summary([build.record()]), build.summary([build.record()])]
    table = tables.check_table(summaries)
    assert {row[-1].text for row in table.rows} == {"all 2 runs"}


def test_validity_says_how_every_request_came_out(build: Any) -> None:
    (row,) = tables.validity_table([build.summary([build.record(), build.failed(1)])]).rows
    assert row[2].text == "1 of 2 ok, 1 failed"


def test_errors_are_counted_by_kind_with_the_first_message_on_one_line(build: Any) -> None:
    records = [
        build.record(0),
        replace(build.failed(1), error=RequestError("http_503", "busy\nnow")),
        replace(build.failed(2), error=RequestError("http_503", "later")),
        replace(build.failed(3), error=RequestError("truncated", "cut")),
    ]
    table = tables.error_table([("static", records)])
    assert [tuple(cell.text for cell in row) for row in table.rows] == [
        ("static", "http_503", "2", "busy now"),
        ("static", "truncated", "1", "cut"),
    ]


def test_a_caution_of_every_run_is_listed_once_and_said_to_be_of_all() -> None:
    doubt = caution(Code.NO_STEP_LOG)
    table = tables.caution_table([("a", [doubt]), ("b", [doubt, doubt])], runs=2)
    assert [row[3].text for row in table.rows] == ["all 2 runs"]
    assert table.rows[0][0].tone is Tone.WARN


def test_an_interrupted_run_says_how_many_were_not_sent(build: Any) -> None:
    counts = replace(
        build.run([build.record(outcome=Outcome.CANCELLED)]).manifest.counts, planned=5
    )
    summary = build.summary([build.record(outcome=Outcome.CANCELLED)], counts=counts)
    (row,) = tables.validity_table([summary]).rows
    assert row[2].text == "0 of 5 ok, 1 cancelled, 4 not sent"


def test_a_value_that_its_run_bounds_is_shown_with_its_bounds(build: Any) -> None:
    load = Load(LoadKind.POISSON, rate_rps=10)
    # Two latencies that take turns: no request says anything of the next.
    records = [
        build.record(i, (100 * i + 50 + i % 2 * 10, 100 * i + 90), due_ms=100 * i)
        for i in range(800)
    ]
    table = tables.metric_table([build.summary(records, load=load)])
    assert row_of(table, "TTFT p50")[1] == "50.0 ms (50.0 to 60.0 ms)"
    (cell,) = (row[1] for row in table.rows if row[0].text == "TTFT p50")
    assert "n_eff 800" in cell.note
    assert "MLPerf-style estimate 60.0 ms" in cell.note
    assert row_of(table, "failure rate")[1] == "0.0 % (0.0 to 0.46 %)"


def test_a_value_that_its_run_does_not_bound_says_so_once_for_all(build: Any) -> None:
    records = [build.record(i, (10 * (i + 1), 5000 + i)) for i in range(60)]
    table = tables.metric_table([build.summary(records)])
    shown = row_of(table, "TTFT p90")[1]
    assert shown.startswith("540 ms")
    number = shown.removeprefix("540 ms")
    (note,) = (note for note in table.notes if note.startswith(number + " "))
    assert "not bounded by this run" in note
    assert sum("not bounded" in note for note in table.notes) == 1


def test_goodput_has_rows_only_where_limits_were_named(build: Any) -> None:
    records = [build.record(i) for i in range(3)]
    plain, judged = build.summary(records), build.summary(records, slos=parse_slos(("ttft=1s",)))
    for summaries, rows in (([plain], 0), ([judged], 2), ([plain, judged], 2)):
        table = tables.metric_table(summaries)
        assert sum("goodput" in row[0].text for row in table.rows) == rows
