"""`batchmark report --index`: where the page goes, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.commands import index as command
from harness.commands.report import report
from harness.core.errors import ExitCode, RunFolderError, UsageError
from harness.core.rundir import MANIFEST, write_json


@pytest.fixture
def runs(build: Any, tmp_path: Path) -> Path:
    """A folder with a run and a folder that cannot be read."""
    folder = tmp_path / "my 'runs'"
    for name in ("good", "bad"):
        (folder / name).mkdir(parents=True)
    write_json(folder / "good" / MANIFEST, build.manifest())
    (folder / "bad" / MANIFEST).write_text("{")
    return folder


def test_the_index_goes_into_its_folder_and_says_what_it_holds(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.index(runs, None, replaces=False) is ExitCode.OK
    assert (
        capsys.readouterr().out
        == f"index: {runs}/index.html, runs: 1; folders that cannot be read: 1\n"
    )
    assert (runs / "index.html").read_text().startswith("<!DOCTYPE html>")


def test_a_page_that_is_there_is_replaced_only_when_that_is_meant(
    runs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "page.html"
    out.write_text("mine")
    with pytest.raises(UsageError, match="replace it with --force"):
        command.index(runs, out, replaces=False)
    assert out.read_text() == "mine"
    command.index(runs, out, replaces=True)
    assert out.read_text() != "mine"


def test_a_file_system_that_takes_no_file_is_said_in_words(runs: Path) -> None:
    with pytest.raises(UsageError, match="cannot write /proc/page.html: .*name another file"):
        command.index(runs, Path("/proc/page.html"), replaces=False)


def test_runs_and_an_index_are_not_asked_for_at_once(runs: Path) -> None:
    with pytest.raises(UsageError, match="is named beside --index"):
        command.index(runs, None, (runs / "good",), replaces=False)
    with pytest.raises(UsageError, match="no run is named"):
        report((), None, None, Path("baselines"))
    with pytest.raises(RunFolderError, match="nowhere is not a folder"):
        command.index(Path("nowhere"), None, replaces=False)
