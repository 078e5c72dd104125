"""`batchmark export`: every format of everything, what goes where, and every wrong word."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from harness.cli import app
from harness.commands import export as command
from harness.core.engine import EngineSpec
from harness.core.rundir import MANIFEST
from reports import exported
from reports.tables import as_latex

HOSTILE = '=</td><script>\\input{x}|`$1,"%'


@pytest.fixture
def batchmark(build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The program, beside a run of the static engine and one of an engine with a hostile name."""
    monkeypatch.chdir(tmp_path)
    engines = {"base": "inhouse-static", "cand": HOSTILE}
    for i, (folder, name) in enumerate(engines.items()):
        spec = EngineSpec("inhouse", name, "smollm2", policy="static")
        records = [build.record(k, (100 + k, 110 + 10 * i + k)) for k in range(8)]
        build.folder(tmp_path / folder, build.run(records, run_id=folder, engine=spec))
    return lambda *words: CliRunner().invoke(app, ["export", *words])


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


WHATS = (
    ("metrics", ()),
    ("requests", ()),
    ("comparison", ("--baseline", "inhouse-static")),
)


@pytest.mark.parametrize(("what", "words"), WHATS)
def test_csv_alone_goes_to_standard_output_and_doubts_beside_it(
    batchmark: Callable[..., Result], what: str, words: tuple[str, ...]
) -> None:
    result = batchmark("base", "cand", "--what", what, *words)
    assert result.exit_code == 0, result.stderr
    rows = rows_of(result.stdout_bytes.decode())
    assert f"'{HOSTILE}" in {rows[-1].get("engine"), rows[-1].get("candidate")}
    assert ("caution TOO_FEW" in result.stderr) == (what != "requests")


@pytest.mark.parametrize(("what", "words"), WHATS)
def test_hostile_names_are_shown_as_they_are_in_text(
    batchmark: Callable[..., Result], what: str, words: tuple[str, ...]
) -> None:
    markdown = batchmark("base", "cand", "--what", what, *words, "--format", "markdown").stdout
    latex = batchmark("base", "cand", "--what", what, *words, "--format", "latex").stdout
    assert "<script" not in markdown
    assert HOSTILE in html.unescape(re.sub(r"\\([\\`*_{}\[\]|~#@!$])", r"\1", markdown))
    assert as_latex(HOSTILE) in latex
    assert r"\input" not in latex


@pytest.mark.parametrize(("what", "words"), WHATS)
def test_parquet_holds_what_csv_holds(
    batchmark: Callable[..., Result], what: str, words: tuple[str, ...]
) -> None:
    pytest.importorskip("pyarrow")
    asked = ("base", "cand", "--what", what, *words)
    assert batchmark(*asked, "--format", "parquet", "--out", "a.parquet").exit_code == 0
    batchmark(*asked, "--out", "a.csv")
    kept, read = pd.read_parquet("a.parquet"), pd.read_csv("a.csv")
    assert list(kept.columns) == list(read.columns)
    numbers = kept.select_dtypes("float64").columns
    pd.testing.assert_frame_equal(kept[numbers], read[numbers], check_exact=True, check_dtype=False)


def test_a_file_is_replaced_only_with_leave(batchmark: Callable[..., Result]) -> None:
    asked = ("base", "--out", "my runs.csv")
    assert batchmark(*asked).stdout == "metrics: my runs.csv\n"
    before = Path("my runs.csv").read_bytes()
    refused = batchmark(*asked, "--what", "requests")
    assert refused.exit_code == 2
    assert "my runs.csv exists already; replace it with --force" in refused.stderr
    assert Path("my runs.csv").read_bytes() == before
    assert batchmark(*asked, "--what", "requests", "--force").exit_code == 0
    assert Path("my runs.csv").read_bytes() != before


def test_what_was_allowed_to_differ_is_said_first(batchmark: Callable[..., Result]) -> None:
    manifest = json.loads(Path("cand", MANIFEST).read_text())
    manifest["machine"]["cpu_model"] = "another CPU"
    Path("cand", MANIFEST).write_text(json.dumps(manifest))
    asked = ("base", "cand", "--what", "comparison", "--baseline", "inhouse-static")
    assert batchmark(*asked).exit_code == 4
    allowed = (*asked, "--allow", "cpu")
    as_csv = batchmark(*allowed)
    assert as_csv.stderr.startswith("NOT ALIKE")
    assert rows_of(as_csv.stdout)[0]["allowed"].startswith("NOT ALIKE")
    assert batchmark(*allowed, "--format", "markdown").stdout.startswith("**NOT ALIKE")
    assert (
        batchmark(*allowed, "--format", "latex").stdout.splitlines()[1].startswith(r"\textbf{NOT")
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("base", "--format", "xml"), "--format is 'xml'; choose from csv, parquet, markdown, latex"),
        (("base", "--what", "all"), "--what is 'all'; choose from metrics, requests, comparison"),
        (("base", "--what", "comparison"), "name it with --baseline"),
        (("base", "--baseline", "x"), "--baseline says nothing of metrics"),
        (("base", "--what", "comparison", "--baseline", "inhouse-static"), "no run is beside"),
        (("base", "--format", "parquet"), "name the file with --out"),
        (("base", "--out", "no/such.csv"), "there is no folder no"),
        (("base", "--out", "base"), "it is a folder"),
        (("nowhere",), "nowhere is not a run folder"),
    ],
)  # fmt: skip
def test_a_wrong_word_is_one_line(
    batchmark: Callable[..., Result], words: tuple[str, ...], said: str
) -> None:
    result = batchmark(*words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


def test_without_pyarrow_the_way_to_get_it_is_said(
    batchmark: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    result = batchmark("base", "--format", "parquet", "--out", "a.parquet")
    assert result.exit_code == 2
    assert "pip install 'batchmark[parquet]'" in result.stderr


def test_a_table_that_nobody_could_read_is_refused(
    batchmark: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exported, "MOST_REQUESTS_READ", 7)
    result = batchmark("base", "--what", "requests", "--format", "latex")
    assert result.exit_code == 2
    assert "8 requests are too many" in result.stderr
    assert batchmark("base", "--what", "requests").exit_code == 0
