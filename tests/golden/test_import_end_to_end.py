"""`batchmark import` as a user meets it: its words, its exit codes, and what the folder is good for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

FOREIGN = Path(__file__).parents[1] / "foreign"


@pytest.fixture
def importing(program: Any) -> Any:
    """A program with the sample files of other tools in its folder."""
    for file in FOREIGN.iterdir():
        shutil.copy(file, program.folder / file.name)
    return program


def test_a_result_is_imported_shown_and_can_be_shown_again(importing: Any) -> None:
    result = importing("import", "vllm-bench.json")

    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()[:2]
    assert first == "format: vllm-bench (by its keys), vLLM bench"
    assert second == "folder: runs/import-vllm-bench"
    for part in (
        "What vLLM bench says in vllm-bench.json, as it defines it",
        "mean_ttft_ms",
        "IMPORTED_RUN",
        "40 of 40 ok",
    ):
        assert part in result.stdout
    shown = importing("show", "runs/import-vllm-bench")
    assert shown.returncode == 0
    assert shown.stdout.splitlines() == result.stdout.splitlines()[2:]


def test_the_folder_is_named_and_not_overwritten(importing: Any) -> None:
    assert importing("import", "aiperf.jsonl", "--out", "theirs").returncode == 0
    again = importing("import", "aiperf.jsonl", "--out", "theirs")

    assert again.returncode == 2
    assert again.stderr.startswith("error: theirs exists already")
    assert (importing.folder / "theirs" / "requests.jsonl").read_text().count("\n") == 40
    summary = json.loads((importing.folder / "theirs" / "summary.json").read_text())
    assert summary["validity"] == "WARN"


def test_two_results_of_one_tool_are_compared_and_a_baseline_made_of_one(importing: Any) -> None:
    for name in ("one", "two"):
        assert importing("import", "vllm-bench-detailed.json", "--out", name).returncode == 0
    compared = importing("compare", "two", "--baseline", "one")
    saved = importing("baseline", "save", "theirs", "one")
    against = importing("compare", "two", "--baseline", "theirs")

    assert (compared.returncode, saved.returncode, against.returncode) == (0, 0, 0), saved.stderr
    assert "TTFT" in compared.stdout
    assert "SETTINGS_NOT_KNOWN" in compared.stdout
    assert "output tok/s vs theirs" in against.stdout


def test_results_of_two_tools_are_compared_only_when_that_is_said(importing: Any) -> None:
    importing("import", "vllm-bench.json", "--out", "one")
    importing("import", "aiperf.json", "--out", "two")

    refused = importing("compare", "two", "--baseline", "one")
    assert refused.returncode == 4
    assert "definitions: those of vLLM bench" in refused.stderr
    assert "--allow definitions" in refused.stderr
    words = refused.stderr.split("of --allow", 1)[1].split()
    keys = [word for word in words if word != "--allow"]
    allowed = importing(
        "compare", "two", "--baseline", "one", *(word for key in keys for word in ("--allow", key))
    )
    assert allowed.returncode == 0, allowed.stderr
    assert allowed.stdout.startswith("NOT ALIKE, compared because of --allow: ")
    assert "definitions: those of vLLM bench" in allowed.stdout.splitlines()[0]


@pytest.mark.slow
def test_a_report_of_imported_runs_can_be_written(importing: Any) -> None:
    for name in ("guidellm.json", "vllm-bench.json"):
        importing("import", name, "--out", Path(name).stem)
        result = importing("report", Path(name).stem, "--out", "page.html", "--force")

        assert result.returncode == 0, result.stderr
        assert "IMPORTED_RUN" in (importing.folder / "page.html").read_text()


def test_one_of_several_results_is_named(importing: Any) -> None:
    line = json.dumps(json.loads((FOREIGN / "vllm-bench.json").read_text())) + "\n"
    (importing.folder / "many.jsonl").write_text(line * 3)

    refused = importing("import", "many.jsonl")
    assert refused.returncode == 2
    assert "holds 3 results of vLLM bench" in refused.stderr
    assert importing("import", "many.jsonl", "--result", "2").returncode == 0
    assert (importing.folder / "runs" / "import-many-2" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["nowhere.json"], "cannot read nowhere.json"),
        (["vllm-bench.json", "--format", "sglang"], "by its keys it is vllm-bench"),
        (["wrong.json"], "key 'mean_ttft_ms' is 'fast'; expected a number"),
    ],
)
def test_a_wrong_file_is_one_line_and_leaves_nothing_behind(
    importing: Any, words: list[str], part: str
) -> None:
    data = json.loads((FOREIGN / "vllm-bench.json").read_text())
    (importing.folder / "wrong.json").write_text(json.dumps(data | {"mean_ttft_ms": "fast"}))
    result = importing("import", *words)

    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert part in result.stderr
    assert not (importing.folder / "runs").exists()
