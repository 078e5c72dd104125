"""Runs as rows, and as the files that spreadsheets and programs read."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyzer.metrics import METRICS
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import MetricValue, Within
from harness.core.engine import EngineSpec
from harness.core.record import RequestError
from harness.gate.comparison import compare
from harness.gate.tables import metric_table
from reports.page import ReportedRun
from reports.row_files import to_csv, to_parquet
from reports.rows import as_table, comparison_rows, metric_rows, request_rows

FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1+1", "'=1")
READABLE = st.text(st.characters(exclude_categories=("Cs", "Cc"), include_characters="\t\r\n"))


def reported(build: Any, records: list[Any], **changes: Any) -> ReportedRun:
    folder = build.run(records, **changes)
    return ReportedRun(folder, summarize(folder))


def mixed(build: Any) -> ReportedRun:
    """Two turns of a session, a request that failed, and one that stands alone."""
    error = RequestError("http_503", "=cmd|' /C calc'!A0")
    return reported(
        build,
        [
            build.record(0, session="s", turn=0),
            build.record(1, session="s", turn=1),
            replace(build.failed(2), error=error),
            build.record(3),
        ],
    )


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_every_metric_of_every_run_has_a_row(build: Any) -> None:
    runs = [reported(build, [build.record(i) for i in range(8)]).summary, build.summary([])]
    rows = metric_rows(runs)
    assert len(rows) == 2 * len(METRICS)
    assert set(rows["metric"]) == {metric.name for metric in METRICS}
    assert rows.loc[rows["value"].isna(), "reason"].notna().all()


def test_the_rows_hold_the_numbers_of_the_summary_and_the_words_of_the_table(build: Any) -> None:
    summary = reported(
        build, [build.record(i, (10 * i + 5, 10 * i + 30)) for i in range(40)]
    ).summary
    rows = metric_rows([summary]).set_index("metric")
    drawn = {row[0].term: row[1].text for row in metric_table([summary]).rows}
    assert {m: rows.loc[m, "value"] for m in ("ttft_s_p50", "output_tok_s")} == {
        m: summary.value(m) for m in ("ttft_s_p50", "output_tok_s")
    }
    for name, text in drawn.items():
        assert text.startswith(str(rows.loc[name, "shown"]))


def test_a_value_is_shown_as_far_as_its_interval_reaches(build: Any) -> None:
    summary = build.summary([build.record(i) for i in range(8)])
    value = MetricValue("output_tok_s", 86.5432, ci_within=Within(85.0, 88.0, 9, "m"))
    row = metric_rows([replace(summary, values=(value,))]).iloc[0]
    assert (row["value"], row["shown"], row["n_eff"]) == (86.5432, "86.5 tok/s", 9)


def test_turns_of_sessions_have_rows_of_their_own(build: Any) -> None:
    rows = metric_rows([mixed(build).summary])
    assert rows["turn"].dropna().unique().tolist() == [1, 2]
    assert rows.loc[rows["metric"] == "session_s_p50", "unit"].tolist() == ["s"]


def test_requests_come_with_what_they_were_and_how_they_ended(build: Any) -> None:
    rows = request_rows([mixed(build), reported(build, [build.record(0)], run_id="run-2")])
    assert rows["run"].tolist() == ["run-1"] * 4 + ["run-2"]
    assert rows["turn"].isna().tolist() == [False, False, True, True, True]
    assert rows["outcome"].tolist() == ["ok", "ok", "failed", "ok", "ok"]
    assert rows.loc[2, "ttft_s"] == math.inf
    assert rows["error_message"].notna().tolist() == [False, False, True, False, False]
    assert rows["output_tokens"].tolist() == [2, 2, 0, 2, 2]


def test_a_request_in_a_table_is_said_in_units_that_read_well(build: Any) -> None:
    table = as_table(request_rows([mixed(build)]), "Requests")
    rows = [dict(zip([c.title for c in table.columns], row, strict=True)) for row in table.rows]
    assert rows[0]["ttft_s"].text == "100 ms"
    assert rows[0]["output_tokens"].text == "2"
    assert (rows[2]["ttft_s"].text, rows[2]["error_kind"].text) == ("inf", "http_503")
    assert rows[3]["turn"].text == rows[3]["time_to_first_answer_s"].text == ""


def test_a_comparison_has_both_values_the_ratio_and_its_interval(build: Any) -> None:
    fast = EngineSpec("inhouse", "inhouse-continuous", "smollm2", policy="continuous")
    base = [build.summary([build.record(0, (100 + i, 200))]) for i in range(3)]
    cand = [build.summary([build.record(0, (50 + i, 200))], engine=fast) for i in range(3)]
    table = compare("inhouse-static", base, "inhouse-continuous", cand, paired=True)
    rows = comparison_rows([table]).set_index("metric")
    ttft = rows.loc["ttft_s_mean"]
    assert ttft["baseline_value"] == pytest.approx(0.101)
    assert ttft["ratio_lo"] < ttft["ratio"] < ttft["ratio_hi"]
    assert ttft["shown"] == next(r for r in table.rows if r.metric == "ttft_s_mean").ratio_text
    assert rows.loc["preemptions", "reason"]


def test_a_csv_is_read_back_by_a_strict_reader_and_ends_its_lines_as_the_rules_say(
    build: Any,
) -> None:
    text = to_csv(request_rows([mixed(build)]))
    rows = read_csv(text)
    assert len(rows) == 4
    assert len(re.findall("\r\n", text)) == text.count("\n") == 5
    assert float(rows[0]["ttft_s"]) == 0.1
    assert (rows[2]["ttft_s"], rows[2]["output_tokens"]) == ("inf", "0")
    assert rows[2]["tpot_s"] == "inf"
    assert rows[0]["time_to_first_answer_s"] == rows[0]["error_message"] == ""
    assert rows[2]["error_message"] == "'=cmd|' /C calc'!A0"


@pytest.mark.parametrize("text", FORMULAS)
def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe(text: str) -> None:
    assert read_csv(to_csv(pd.DataFrame({"a": [text]})))[0]["a"] == f"'{text}"


def test_a_number_stays_a_number_whatever_its_sign() -> None:
    rows = pd.DataFrame({"a": [-1.5, 2.0], "b": pd.array([-1, None], dtype="Int64")})
    assert to_csv(rows) == "a,b\r\n-1.5,-1\r\n2.0,\r\n"


@given(st.lists(READABLE, min_size=1))
def test_any_text_comes_back_from_csv_without_its_apostrophe(texts: list[str]) -> None:
    rows = read_csv(to_csv(pd.DataFrame({"a": texts, "b": 1.0})))
    assert [
        re.sub(r"^'('*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])", r"\1", row["a"]) for row in rows
    ] == texts


def test_no_file_holds_control_characters() -> None:
    assert to_csv(pd.DataFrame({"a": ["x\x00\x1b[31my"]})) == "a\r\nx��[31my\r\n"


def test_parquet_gives_back_rows_as_they_are(build: Any) -> None:
    pytest.importorskip("pyarrow")
    for rows in (request_rows([mixed(build)]), metric_rows([build.summary([])])):
        back = pd.read_parquet(io.BytesIO(to_parquet(rows)))
        pd.testing.assert_frame_equal(back, rows, check_dtype=False)
        kinds = [str(kind) for kind in back.dtypes]
        assert set(kinds) <= {"str", "float64", "Int64", "int64"}


def test_parquet_keeps_text_that_looks_like_a_formula() -> None:
    pytest.importorskip("pyarrow")
    rows = pd.DataFrame({"a": ["=1+1", None], "b": [None, None]})
    back = pd.read_parquet(io.BytesIO(to_parquet(rows)))
    assert back["a"].tolist()[0] == "=1+1"
    assert str(back["b"].dtype) == "str"
