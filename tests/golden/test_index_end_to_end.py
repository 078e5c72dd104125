"""`batchmark report --index` and `batchmark view` through the real program."""

from __future__ import annotations

import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.summarize import summarize
from harness.core.engine import EngineSpec
from harness.core.rundir import MANIFEST, SUMMARY, write_json


@pytest.fixture
def indexed(program: Any, build: Any) -> Any:
    """A program whose folder `job` holds two runs, with their report beside them."""
    for name in ("inhouse-static", "inhouse-continuous"):
        records = [build.record(i) for i in range(8)]
        run = build.run(records, engine=EngineSpec("inhouse", name, "smollm2"))
        folder: Path = program.folder / "job" / name
        folder.mkdir(parents=True)
        write_json(folder / MANIFEST, run.manifest)
        write_json(folder / SUMMARY, summarize(run))
    (program.folder / "job" / "report.html").write_text("batchmark report")
    return program


def test_the_index_of_a_job_leads_to_its_report_and_is_not_replaced(indexed: Any) -> None:
    words = ("report", "--index", "job", "--out", "index of.html")
    made = indexed(*words)
    page = (indexed.folder / "index of.html").read_text()

    assert made.returncode == 0, made.stderr
    assert made.stdout == "index: index of.html, runs: 2\n"
    assert page.count('href="job/report.html"') == 2
    again = indexed(*words)
    assert again.returncode == 2
    assert "exists already; replace it with --force" in again.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_view_serves_the_index_until_it_is_interrupted(indexed: Any, number: int) -> None:
    process = indexed.start("view", "job")
    try:
        said = process.stdout.readline()
        address = said.split()[1]
        with urllib.request.urlopen(address, timeout=30) as page:
            text = page.read().decode()
        with urllib.request.urlopen(f"{address}report.html", timeout=30) as report:
            assert b"batchmark report" in report.read()
        process.send_signal(number)
        rest, errors = process.communicate(timeout=30)
    finally:
        process.kill()

    assert said.startswith("view: http://127.0.0.1:")
    assert "inhouse-continuous" in text
    assert (process.returncode, rest, errors) == (0, "ended\n", "")
