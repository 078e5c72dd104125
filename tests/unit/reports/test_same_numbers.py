"""One run, three readers: the page, `summary.json` and the console say the same numbers."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.metrics import METRICS
from harness.commands.judging import keep_summary, read_reported
from harness.commands.show import show
from harness.core.rundir import SUMMARY
from harness.core.workload import Load, LoadKind
from reports.page import render_report


class Rows(HTMLParser):
    """The rows of a section's tables: the texts of the cells, and the exact number of the last."""

    def __init__(self, section: str) -> None:
        super().__init__()
        self._section, self._is_in, self._is_cell = section, False, False
        self.rows: list[list[str]] = []
        self.exact: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "section":
            self._is_in = given.get("id") == self._section
        if self._is_in and tag == "tr":
            self.rows.append([])
            self.exact.append(None)
        if self._is_in and tag in ("th", "td"):
            self._is_cell = True
            self.rows[-1].append("")
            self.exact[-1] = given.get("data-exact")

    def handle_endtag(self, tag: str) -> None:
        self._is_cell &= tag not in ("th", "td")

    def handle_data(self, data: str) -> None:
        if self._is_in and self._is_cell:
            self.rows[-1][-1] += data.strip()


def rows_of(section: str, page: str) -> dict[str, tuple[str, str | None]]:
    """The last cell of each row, its text and its exact number, by the text of the first."""
    found = Rows(section)
    found.feed(page)
    pairs = zip(found.rows, found.exact, strict=True)
    return {row[0]: (row[-1], exact) for row, exact in pairs if len(row) > 1}


def printed_rows(text: str) -> dict[str, str]:
    cells = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    return {row[0]: row[-1] for row in cells if len(row) == 2}


@pytest.mark.parametrize("load", [Load(LoadKind.BACKLOG), Load(LoadKind.POISSON, rate_rps=10.0)])
def test_page_summary_and_console_say_the_same_of_every_metric(
    build: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], load: Load
) -> None:
    records = [
        build.record(i, [100 * i + (30 + i % 7) * k for k in range(1, 6)], due_ms=100 * i)
        for i in range(400)
    ]
    steps = [build.step(i, i * 10, running=3, padded=1) for i in range(50)]
    path = build.folder(tmp_path / "run", build.run([*records, build.failed(400)], steps, load))
    run = read_reported(path)
    keep_summary(run)
    kept = {v["metric"]: v["value"] for v in json.loads((path / SUMMARY).read_text())["values"]}
    page = rows_of("metrics", render_report([run], []))
    show(path)
    printed = printed_rows(capsys.readouterr().out)
    shown = [metric for metric in METRICS if metric.title in page]
    assert len(shown) >= 15
    measured = 0
    for metric in shown:
        text, exact = page[metric.title]
        assert printed[metric.title] == text
        assert kept[metric.name] == (None if exact is None else float(exact))
        if exact is not None:
            measured += 1
            rounded = float(re.findall(r"-?[\d,]*\.?\d+", text)[0].replace(",", ""))
            assert rounded == 0 or abs(distance(rounded, float(exact))) < 0.06
    assert measured >= 12


def distance(rounded: float, exact: float) -> float:
    """How far a rounded number is from the exact one whatever its unit, 1 being all of it."""
    for scale in (1.0, 1e2, 1e3, 1e6, 1e-3, 1e-6, 1e-9):
        if exact and abs(rounded / (exact * scale) - 1) < 0.06:
            return rounded / (exact * scale) - 1
    return 1.0
