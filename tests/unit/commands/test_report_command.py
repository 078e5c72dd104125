"""`batchmark report`: where the page goes, and what it makes of run folders that are not as meant."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.commands.report import report
from harness.core.engine import EngineSpec
from harness.core.errors import ExitCode, NotComparable, RunFolderError, UsageError
from harness.core.manifest import RunStatus
from harness.core.rundir import MANIFEST, REQUESTS, STEPS


@pytest.fixture
def run_folder(build: Any, tmp_path: Path) -> Path:
    """A run in a folder whose name holds what a shell or a page could trip over."""
    return Path(build.folder(tmp_path / 'it\'s a "run" & <more>', build.run([build.record(0)])))


def test_a_page_that_is_there_is_replaced_only_by_force(run_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "my report.html"
    out.write_text("mine")
    with pytest.raises(UsageError, match="my report.html exists already; replace it with --force"):
        report((run_folder,), None, out, tmp_path)
    assert out.read_text() == "mine"
    assert report((run_folder,), None, out, tmp_path, replaces=True) is ExitCode.OK
    assert "batchmark reproduce &#39;" in out.read_text()


@pytest.mark.parametrize(
    ("name", "words"), [("", "it is a folder"), ("no/such/page.html", "there is no folder")]
)
def test_a_place_where_no_page_can_be_is_refused_before_any_work(
    tmp_path: Path, name: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        report((tmp_path / "no-run",), None, tmp_path / name, tmp_path)


def test_a_folder_that_cannot_be_written_to_is_said_in_words(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("harness.commands.report.write_report", refuse)
    with pytest.raises(UsageError, match=r"cannot write .*Permission denied; name another file"):
        report((run_folder,), None, tmp_path / "page.html", tmp_path)


def test_a_file_system_that_takes_no_file_is_said_in_words(run_folder: Path) -> None:
    with pytest.raises(UsageError, match="cannot write /proc/page.html: .*name another file"):
        report((run_folder,), None, Path("/proc/page.html"), run_folder)


def test_a_run_of_another_format_version_is_refused_and_no_page_is_left(
    run_folder: Path, tmp_path: Path
) -> None:
    manifest = run_folder / MANIFEST
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"schema_version": 99}))
    with pytest.raises(RunFolderError, match="format version 99, this batchmark reads 1; use the"):
        report((run_folder,), None, tmp_path / "page.html", tmp_path)
    assert not (tmp_path / "page.html").exists()


def test_runs_of_two_models_make_a_page_but_no_ratio(build: Any, tmp_path: Path) -> None:
    runs = []
    for name in ("small", "large"):
        facts = replace(build.manifest().facts, model=name, model_digest=name)
        engine = EngineSpec("inhouse", f"engine of {name}", "m")
        run = build.run([build.record(i) for i in range(8)], engine=engine, facts=facts)
        runs.append(build.folder(tmp_path / name, run))
    out = tmp_path / "page.html"
    with pytest.raises(NotComparable, match="model"):
        report(tuple(runs), "engine of small", out, tmp_path)
    assert not out.exists()
    assert report(tuple(runs), None, out, tmp_path) is ExitCode.OK
    assert "Nothing was compared, so there is no ratio" in out.read_text()


def test_a_run_that_was_cut_off_is_told_as_far_as_it_was_written(
    build: Any, tmp_path: Path
) -> None:
    run = build.run([build.record(i) for i in range(8)], status=RunStatus.RUNNING)
    folder = build.folder(tmp_path / "run", run)
    requests = folder / REQUESTS
    requests.write_bytes(requests.read_bytes()[:-40])
    (folder / STEPS).unlink()
    report((folder,), None, tmp_path / "page.html", tmp_path)
    said = (tmp_path / "page.html").read_text()
    assert "CUT_LAST_LINE" in said
    assert "No engine wrote a step log" in said
