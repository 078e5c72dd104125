"""An index of run folders: what is read of each, and what cannot be is said."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.run_index import RunIndexer
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import Validity
from harness.core.errors import RunFolderError
from harness.core.manifest import RunStatus
from harness.core.rundir import MANIFEST, REQUESTS, SUMMARY, write_json


def write(build: Any, path: Path, *, day: int = 1, **changes: Any) -> Path:
    """A run folder with its summary; its only big file is one that nobody may read."""
    folder = build.run([build.record(i) for i in range(8)], **changes)
    manifest = replace(folder.manifest, created_utc=f"2030-01-{day:02}T00:00:00+00:00")
    path.mkdir(parents=True)
    write_json(path / MANIFEST, manifest)
    write_json(path / SUMMARY, summarize(replace(folder, manifest=manifest)))
    (path / REQUESTS).write_text("not a record\n")
    return path


def test_runs_are_found_wherever_they_are_the_latest_first(build: Any, tmp_path: Path) -> None:
    write(build, tmp_path / "a", day=2)
    write(build, tmp_path / "job one" / 'it\'s "b"', day=3)
    write(build, tmp_path / "deep" / "er" / "c", day=1)
    (tmp_path / "empty").mkdir()
    index = RunIndexer(tmp_path).read()

    assert [run.name for run in index.runs] == ['job one/it\'s "b"', "a", "deep/er/c"]
    assert index.broken == ()
    (run, *_) = index.runs
    assert run.validity is not None
    summary = json.loads((tmp_path / run.name / SUMMARY).read_text())
    stored = {value["metric"]: value["value"] for value in summary["values"]}
    assert run.values == {name: value for name, value in stored.items() if value is not None}
    assert "busy_share" in run.reasons


def test_a_folder_that_cannot_be_read_is_listed_with_the_reason(build: Any, tmp_path: Path) -> None:
    write(build, tmp_path / "good")
    cut = write(build, tmp_path / "cut") / MANIFEST
    cut.write_text(cut.read_text()[:40])
    old = write(build, tmp_path / "old") / MANIFEST
    old.write_text(json.dumps(json.loads(old.read_text()) | {"schema_version": 99}))
    (write(build, tmp_path / "gone") / MANIFEST).unlink()
    (write(build, tmp_path / "word") / MANIFEST).write_text("[]")
    index = RunIndexer(tmp_path).read()

    assert [run.name for run in index.runs] == ["good"]
    reasons = {broken.name: broken.reason for broken in index.broken}
    assert list(reasons) == ["cut", "gone", "old", "word"]
    assert "restore it, or repeat the run" in reasons["cut"]
    assert "it has no manifest.json" in reasons["gone"]
    assert "format version 99" in reasons["old"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "it has no summary.json"),
        ("", "its summary.json cannot be read"),
        ('{"validity": "VALID"}', "its summary.json cannot be read"),
        ('{"validity": "FINE", "values": []}', "its summary.json cannot be read"),
        ('{"validity": "VALID", "values": [{"metric": "a", "value": NaN}]}', "cannot be read"),
    ],
)
def test_a_run_without_numbers_is_in_the_index_all_the_same(
    build: Any, tmp_path: Path, text: str | None, words: str
) -> None:
    summary = write(build, tmp_path / "run") / SUMMARY
    summary.unlink()
    if text is not None:
        summary.write_text(text)
    (run,) = RunIndexer(tmp_path).read().runs

    assert run.validity is None
    assert run.values == {}
    assert not run.counts
    assert words in (run.doubt or "")


def test_a_summary_of_another_version_still_gives_its_numbers(build: Any, tmp_path: Path) -> None:
    summary = write(build, tmp_path / "run") / SUMMARY
    later = {"validity": "WARN", "values": [{"metric": "new_s", "value": 2, "of": 3}], "more": {}}
    summary.write_text(json.dumps(later))
    (run,) = RunIndexer(tmp_path).read().runs

    assert run.validity is Validity.WARN
    assert run.values == {"new_s": 2.0}


def test_only_whole_runs_that_are_not_invalid_count(build: Any, tmp_path: Path) -> None:
    write(build, tmp_path / "whole")
    write(build, tmp_path / "cut short", status=RunStatus.INTERRUPTED)
    index = RunIndexer(tmp_path).read()

    assert {run.name: run.counts for run in index.runs} == {"whole": True, "cut short": False}


def test_what_changed_is_read_again_and_nothing_else(build: Any, tmp_path: Path) -> None:
    write(build, tmp_path / "a", day=1)
    changing = write(build, tmp_path / "b", day=2) / SUMMARY
    indexer = RunIndexer(tmp_path)
    before = indexer.read()
    changing.write_text('{"validity": "INVALID", "values": []}')
    write(build, tmp_path / "c", day=3)
    after = indexer.read()

    assert [run.name for run in after.runs] == ["c", "b", "a"]
    assert after.runs[1].validity is Validity.INVALID
    assert after.runs[2] is before.runs[1]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is not a folder"):
        RunIndexer(tmp_path / "runs").read()


def test_a_folder_whose_name_is_no_text_is_read_too(build: Any, tmp_path: Path) -> None:
    written = write(build, tmp_path / "run")
    written.rename(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff"))
    (run,) = RunIndexer(tmp_path).read().runs

    assert run.name == "a?"


def test_a_folder_without_runs_is_an_empty_index(tmp_path: Path) -> None:
    index = RunIndexer(tmp_path).read()
    assert (index.runs, index.broken) == ((), ())
