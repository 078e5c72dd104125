"""`batchmark view` as its reader has it: the program, a browser, and the way from a run to its page."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from experiments import capacity

from harness.analyzer.summarize import summarize
from harness.core.engine import EngineSpec
from harness.core.rundir import SUMMARY, write_json

JOB = 'it\'s a 100 % "job" #1'
ENGINES = ("inhouse-static", "inhouse-continuous", "<b>vllm</b> & 1")


@pytest.fixture
def runs(build: Any, tmp_path: Path) -> Path:
    """A folder with a job of three runs, and the page of a search beside them."""
    for name in ENGINES:
        run = build.run(
            [build.record(i) for i in range(8)], engine=EngineSpec("inhouse", name, "smollm2")
        )
        path = build.folder(tmp_path / JOB / f"run of {ENGINES.index(name)}", run)
        write_json(path / SUMMARY, summarize(run))
    (tmp_path / JOB / "capacity.html").write_text(capacity(build), encoding="utf-8")
    return tmp_path


@pytest.fixture
def viewer(runs: Path) -> Iterator[subprocess.Popen[str]]:
    """The program that serves them on a port of the system's choice."""
    argv = [sys.executable, "-m", "harness.cli", "view", str(runs)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def test_a_reader_finds_a_run_reads_its_page_and_ends_the_program(
    look: Any, viewer: subprocess.Popen[str]
) -> None:
    assert viewer.stdout is not None
    address = viewer.stdout.readline().split()[1]
    assert address.startswith("http://127.0.0.1:")
    page = look(address, is_site=True)
    rows = page.locator("#runs tbody tr:visible")
    assert rows.count() == len(ENGINES)

    page.locator('select[data-head="Engine"]').select_option(label=ENGINES[2])
    assert rows.count() == 1
    assert ENGINES[2] in rows.text_content()
    rows.locator("a").click()
    assert page.locator("h1").text_content() == "Capacity of inhouse-static"
    assert page.locator("figure svg").first.is_visible()
    page.get_by_label("Colours").select_option("dark")
    page.go_back()
    assert page.locator("#shown").text_content().endswith(f"of {len(ENGINES)} runs")

    viewer.send_signal(signal.SIGINT)
    said, errors = viewer.communicate(timeout=30)
    assert (viewer.returncode, said, errors) == (0, "ended\n", "")
