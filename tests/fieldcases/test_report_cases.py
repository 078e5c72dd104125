"""Reports that broke in public, by case of the field: I01 to I09 where they apply to this page.

I08 (two tables in one CSV) cannot happen here: a CSV is one table; a test below keeps it so.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hostile_names import HOSTILE

from harness.analyzer.summarize import summarize
from harness.core.engine import EngineFacts, EngineSpec
from harness.core.manifest import RunStatus
from harness.core.record import Outcome, RequestError, RequestRecord
from harness.gate import tables
from harness.gate.comparison import compare
from reports.filling import as_json
from reports.page import ReportedRun, render_report, write_report
from reports.row_files import to_csv
from reports.rows import metric_rows
from reports.tables import to_markdown

LINE_ENDS = "a\u2028b\u2029c"
NAMES = (*HOSTILE, LINE_ENDS)

# A longer name leaves a figure less room, so its axes may have fewer ticks.
DRAWN = {"g", "path", "text", "use", "defs", "rect", "clippath", "pattern"}


class Page(HTMLParser):
    """The tags and the text of a page, as a browser would split them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def reported(build: Any, records: list[RequestRecord], **changes: Any) -> ReportedRun:
    folder = build.run(records, [build.step()], **changes)
    return ReportedRun(folder, summarize(folder))


def pages_with(build: Any, name: str) -> str:
    """A page on which `name` is the engine, model, error, setting, command and failure."""
    failed = replace(build.failed(1), error=RequestError(name, name))
    runs = [
        reported(
            build,
            [build.record(0), failed],
            engine=EngineSpec("inhouse", engine, "m", policy=policy),
            facts=EngineFacts(model=name, settings={name: name}),
            command=("batchmark", name),
            launch=(name,),
            labels={name: name},
            failure=name,
        )
        for engine, policy in ((name, "static"), ("other", "continuous"))
    ]
    sides = [[run.summary] for run in runs]
    return render_report(runs, [compare(name, sides[0], "other", sides[1], paired=True)])


@pytest.fixture(scope="module")
def plain(build: Any) -> Page:
    return Page(pages_with(build, "plain"))


# Several to a page: a page takes a second to make.
@pytest.mark.parametrize("name", [" ".join(NAMES[i : i + 4]) for i in range(0, len(NAMES), 4)])
def test_i01_i03_a_hostile_name_is_shown_literally_and_opens_no_tag(
    build: Any, plain: Page, name: str
) -> None:
    page = Page(pages_with(build, name))
    assert set(page.tags) == set(plain.tags)
    assert [tag for tag in page.tags if tag not in DRAWN] == [
        tag for tag in plain.tags if tag not in DRAWN
    ]
    assert page.attributes == plain.attributes
    literal = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    assert literal in " ".join(page.text.split())


def test_i02_nothing_in_a_page_can_end_a_script_block_or_begin_one(build: Any) -> None:
    text = pages_with(build, "</script><script>x</script>")
    blocks = re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)
    assert len(blocks) > 1
    assert text.count("<script") == text.count("</script") == len(blocks)
    assert "x" not in blocks


@pytest.mark.parametrize("name", NAMES)
def test_i02_the_data_of_a_script_comes_back_equal_and_holds_no_markup(name: str) -> None:
    data = as_json({"name": name, "names": [name]})
    assert not set(data) & set("<>&\u2028\u2029")
    assert json.loads(data) == {"name": name, "names": [name]}


@pytest.mark.parametrize("name", [*NAMES, 'a,"b"\nc;d', "=1+1"])
def test_i04_i08_a_name_comes_back_from_csv_and_is_no_formula(build: Any, name: str) -> None:
    rows = metric_rows([build.summary([], engine=EngineSpec("inhouse", name, "m"))])
    read = list(csv.reader(io.StringIO(to_csv(rows), newline=""), strict=True))
    shown = f"'{name}" if name.startswith("=") else name
    assert {row[1] for row in read} == {"engine", shown}
    assert len({len(row) for row in read}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_i01_a_name_in_markdown_opens_no_tag(build: Any, name: str) -> None:
    text = to_markdown(tables.runs_table([build.manifest(engine=EngineSpec("i", name, "m"))]))
    assert "<" not in text
    assert html.unescape(re.sub(r"\\(.)", r"\1", text)).count(" | ") >= 5


def test_i06_a_run_whose_answers_were_not_streamed_gives_a_page_that_says_why(build: Any) -> None:
    lumps = [build.record(i, [100 * i + 500], tokens=[4]) for i in range(8)]
    page = Page(render_report([reported(build, lumps)], []))
    assert "not measured" in page.text
    reasons = re.findall(r"[¹²³⁴⁵⁶⁷⁸⁹] (.+)", page.text)
    assert reasons
    assert all(reason.strip() for reason in reasons)


@pytest.mark.parametrize(
    "case", ["none", "all failed", "one", "equal", "cancelled", "no tokens", "running"]
)
def test_i07_every_figure_is_drawn_or_says_why_not(build: Any, case: str) -> None:
    status = RunStatus.RUNNING if case == "running" else RunStatus.COMPLETE
    records = {
        "none": [],
        "all failed": [build.failed(i) for i in range(3)],
        "one": [build.record(0, [100])],
        "equal": [build.record(i, [100, 200]) for i in range(5)],
        "cancelled": [build.record(0, (), outcome=Outcome.CANCELLED)],
        "no tokens": [build.record(0, (), outcome=Outcome.UNFINISHED)],
        "running": [build.record(0)],
    }[case]
    text = render_report([reported(build, records, status=status)], [])
    assert text.count("<svg ") + text.count("Not drawn: ") == text.count("<figure") >= 6
    for path in re.findall(r' d="([^"]*)"', text):
        assert all(math.isfinite(float(n)) for n in re.findall(r"-?[\d.]+(?:e-?\d+)?", path))
        assert "nan" not in path


def test_i09_a_hundred_thousand_requests_make_a_page_below_five_megabytes(
    build: Any, tmp_path: Path
) -> None:
    one = build.record(0, [100, 110])
    records = [
        replace(
            one,
            index=i,
            due_ns=i * 1000,
            sent_ns=i * 1000,
            first_byte_ns=i * 1500 + 100_000,
            events_ns=(i * 1500 + 100_000, i * 1501 + 200_000),
            closed_ns=i * 1501 + 200_000,
        )
        for i in range(100_000)
    ]
    path = tmp_path / "report.html"
    write_report(path, [reported(build, records)], [])
    assert path.stat().st_size < 5_000_000
    assert "TTFT p99" in path.read_text(encoding="utf-8")
