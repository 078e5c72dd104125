from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.commands.report import report
from harness.core.errors import ExitCode, UsageError


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
