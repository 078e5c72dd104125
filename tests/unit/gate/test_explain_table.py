from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness import console
from harness.analyzer.dialects import DIALECTS
from harness.analyzer.number_dialect import QUANTITIES
from harness.commands.explain import explain_run
from harness.core.errors import ExitCode
from harness.core.units import ms_to_ns
from harness.core.workload import Load, LoadKind
from harness.gate.cells import Table
from harness.gate.explain_table import explain

TOOLS = [dialect.name for dialect in DIALECTS]


def plain_run(build: Any, requests: int = 10) -> Any:
    """One token a chunk, sent when due, nothing failed, closed with the last token."""
    return build.run([build.record(i, (100 + i, 120 + i, 140 + i)) for i in range(requests)])


def row_of(table: Table, name: str) -> list[str]:
    return next([c.text for c in row] for row in table.rows if row[0].text.startswith(name))


def whys(table: Table) -> dict[tuple[str, str], str]:
    """The deviation, by number and tool."""
    return {
        (row[0].text, tool): row[2].text for row in table.rows for tool in row[1].text.split(", ")
    }


def test_there_is_a_row_for_every_number_and_a_column_for_every_tool(build: Any) -> None:
    numbers, _, _ = explain(plain_run(build))
    assert [column.title for column in numbers.columns] == ["Number", "batchmark", *TOOLS]
    assert len(numbers.rows) == len(QUANTITIES)
    assert {len(row) for row in numbers.rows} == {len(numbers.columns)}


def test_a_row_has_one_unit_which_fits_its_largest_value(build: Any) -> None:
    numbers, _, _ = explain(build.run([build.record(0, (0.5, 20_000.5))]))
    assert row_of(numbers, "TTFT mean")[:2] == ["TTFT mean, µs", "500.0"]
    assert row_of(numbers, "E2E mean")[:2] == ["E2E mean, s", "20.00"]


def test_where_nothing_sets_them_apart_the_tools_agree(build: Any) -> None:
    numbers, _, _ = explain(plain_run(build))
    assert row_of(numbers, "TTFT mean")[1:] == ["104.5"] * 6
    assert row_of(numbers, "TPOT mean")[1:] == ["20.00", "20.00", "20.00", "48.17", "-", "20.00"]


def test_a_percentile_that_we_withhold_is_shown_as_others_print_it_and_marked(build: Any) -> None:
    numbers, _, _ = explain(plain_run(build))
    row = row_of(numbers, "TTFT p99")
    assert row[1].startswith("withheld")
    assert row[2:] == ["108.9*", "108.9*", "109.0*", "108.9*", "109.0*"]
    assert numbers.notes[0].startswith("* ")
    assert any("368 needed" in note for note in numbers.notes)


def test_a_percentile_that_we_publish_is_not_marked(build: Any) -> None:
    numbers, _, _ = explain(plain_run(build))
    assert not any("*" in text for text in row_of(numbers, "TTFT p50"))


def test_a_number_that_cannot_be_had_points_to_its_reason(build: Any) -> None:
    numbers, _, _ = explain(build.run([build.record(), build.failed(1)]))
    shown = row_of(numbers, "TTFT mean")[-1]
    assert shown.startswith("-")
    assert any(note.startswith(shown[1:]) and "INVALID" in note for note in numbers.notes)


def test_only_what_differs_in_this_run_or_in_kind_is_explained(build: Any) -> None:
    _, differences, _ = explain(plain_run(build))
    found = whys(differences)
    assert ("TPOT", "vLLM bench") not in found
    assert ("E2E", "SGLang") not in found
    assert found["TPOT", "GuideLLM"].startswith("mean +140.8 %")
    assert found["ITL", "AIPerf"].startswith("mean +0.0 %")
    assert found["total tok/s", "SGLang"] == "-"


def test_a_late_send_and_a_tail_of_the_stream_are_explained(build: Any) -> None:
    records = [build.record(i, (100, 120), sent_ms=50, closed_ns=ms_to_ns(140)) for i in range(10)]
    _, differences, _ = explain(build.run(records))
    found = whys(differences)
    assert found["TTFT", "vLLM bench"] == "mean -50.0 %, p50 -50.0 %"
    assert ("TTFT", "MLPerf") not in found
    assert found["TPOT", "SGLang"] == "mean +100.0 %, p50 +100.0 %"
    assert ("TPOT", "AIPerf") not in found


def test_tools_with_one_number_and_one_reason_share_a_line(build: Any) -> None:
    records = [build.record(i, (100, 120), sent_ms=50) for i in range(10)]
    _, differences, _ = explain(build.run(records))
    shared = [row[1].text for row in differences.rows if row[0].text == "TTFT"]
    assert shared == ["vLLM bench, SGLang, AIPerf", "GuideLLM"]


def test_the_rules_have_an_answer_of_every_tool_to_every_question(build: Any) -> None:
    _, _, rules = explain(plain_run(build))
    assert [column.title for column in rules.columns] == ["Rule", "batchmark", *TOOLS]
    assert all(cell.text for row in rules.rows for cell in row)
    assert {"clock starts", "failed requests", "percentiles"} <= {r[0].text for r in rules.rows}


@pytest.mark.parametrize("load", [Load(LoadKind.CLOSED, concurrency=2), Load(LoadKind.BACKLOG)])
def test_an_empty_run_is_explained_without_a_number(build: Any, load: Load) -> None:
    numbers, differences, _ = explain(build.run([], load=load))
    assert all(cell.text.startswith("-") for row in numbers.rows for cell in row[1:])
    assert {row[2].text for row in differences.rows} == {"-"}


def test_the_tables_fit_a_terminal_of_100_columns(build: Any) -> None:
    out = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    for table in explain(plain_run(build)):
        console.draw(table, out)
    assert isinstance(out.file, io.StringIO)
    lines = out.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("TTFT mean, ms") and "104.5" in line for line in lines)


def test_the_command_prints_the_run_and_the_three_tables(
    build: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = build.folder(tmp_path / "run", plain_run(build))
    assert explain_run(folder, as_json=False) is ExitCode.OK
    said = capsys.readouterr().out
    for part in (
        "inhouse-static (",
        "One run, six definitions",
        "Why they differ",
        "How each tool",
    ):
        assert part in said


def test_the_command_prints_the_same_numbers_as_json(
    build: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = plain_run(build)
    broken = replace(run, requests=(*run.requests, build.failed(99)))
    folder = build.folder(tmp_path / "run", broken)
    assert explain_run(folder, as_json=True) is ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    by_name = {(r["tool"], r["quantity"]): r for r in found["others"]}
    assert by_name["AIPerf", "ITL mean"]["value"] == pytest.approx(0.020)
    assert by_name["AIPerf", "ITL mean"]["beside"] == "tpot_s_mean"
    assert by_name["MLPerf", "TTFT mean"]["value"] is None
    assert "INVALID" in by_name["MLPerf", "TTFT mean"]["reason"]
    assert {value["metric"] for value in found["batchmark"]} >= {"ttft_s_mean", "output_tok_s"}
