"""The glossary as tables, and `batchmark explain` for a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.analyzer.glossary import GLOSSARY, entries_of, find_entry
from harness.commands.explain import explain
from harness.core.errors import ExitCode, UsageError
from harness.gate.cells import Cell, Column, Table
from harness.gate.glossary_table import entry_table, glossary_table, word_table, words_in


def test_a_head_is_explained_by_its_term_or_else_by_its_title() -> None:
    columns = (Column("Ratio"), Column("an-engine", term="baseline"))
    table = Table("", columns, ((Cell("TTFT p50", term="ttft_s_p50"), Cell("1.2 s")),))

    assert list(words_in([table])) == ["Ratio", "baseline", "ttft_s_p50"]


def test_an_engine_called_as_a_word_is_still_explained_as_a_side() -> None:
    (entry,) = entries_of(words_in([Table("", (Column("ratio", term="baseline"),), ())]))

    assert entry.title == "baseline"


def test_what_no_word_has_is_no_column() -> None:
    words = [column.title for column in glossary_table(entries_of(["request", "due"])).columns]
    numbers = glossary_table(entries_of(["request", "ttft_s_p50"]))

    assert words == ["Word", "Means"]
    assert [column.title for column in numbers.columns] == [
        *("Word", "Means", "Formula", "Unit", "Better", "Weighting", "Read from", "In files")
    ]
    assert [row[0].term for row in numbers.rows] == ["ttft_s_p50", "request"]


def test_one_word_is_a_fact_a_row() -> None:
    table = entry_table(find_entry("TOO_FEW_RUNS"))

    assert table.title == "TOO_FEW_RUNS"
    assert [row[0].text for row in table.rows] == ["Means", "Remedy"]
    assert table.rows[0][1].text.startswith("<runs> run(s) on a side give no interval")


def test_all_words_are_listed() -> None:
    assert len(word_table(GLOSSARY).rows) == len(GLOSSARY)


def test_a_word_is_printed_with_its_formula(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("tpot", as_json=False) is ExitCode.OK
    assert "(last token - first token) / (output tokens - 1)" in capsys.readouterr().out


def test_a_word_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    explain("ttft p99", as_json=True)
    said = json.loads(capsys.readouterr().out)

    assert (said["name"], said["unit"], said["better"]) == ("ttft_s_p99", "s", "lower")


def test_without_a_word_all_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    explain(None, as_json=False)
    out = capsys.readouterr().out

    assert all(word in out for word in ("KV block", "TTFT p99", "TOO_FEW_RUNS"))


def test_a_folder_that_is_not_there_and_no_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a run folder nor a word"):
        explain(str(tmp_path / "gone"), as_json=False)
