"""I01, I03, I04 in every output but the page of runs, which test_report_cases.py holds.

A name from elsewhere appears literally in the index, the pages of experiments, LaTeX, a figure and
the console.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from experiments import EXPERIMENTS, all_called
from hostile_names import HOSTILE
from rich.console import Console

from harness import console
from harness.analyzer.run_index import RunIndexer
from harness.analyzer.summarize import summarize
from harness.core.engine import EngineFacts, EngineSpec
from harness.core.rundir import SUMMARY, write_json
from harness.gate import tables
from reports.ecdf import Samples, distribution
from reports.figures import engine_colours
from reports.index_page import render_index
from reports.page import ReportedRun
from reports.row_files import to_csv
from reports.rows import metric_rows
from reports.tables import as_latex, to_latex

UNESCAPED = {
    r"\textbackslash{}": "\\",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    r"\textquotedbl{}": '"',
    r"\textquotesingle{}": "'",
    r"\textasciicircum{}": "^",
    r"\textasciitilde{}": "~",
    **{f"\\{c}": c for c in "{}$&#%_"},
    "{[}": "[",
    "{]}": "]",
    "{*}": "*",
    "-{}": "-",
    ",{}": ",",
}
LATEX_WORD = re.compile("|".join(map(re.escape, sorted(UNESCAPED, key=len, reverse=True))))


class Page(HTMLParser):
    """The tags and the text of a page, as a browser would split them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.cells: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.cells.append(data.strip())


def named(build: Any, name: str) -> ReportedRun:
    """A run whose engine, model and settings are called `name`."""
    engine = EngineSpec("inhouse", name, "m", "static")
    facts = EngineFacts(model=name, settings={name: name})
    run = build.run([build.record(i) for i in range(8)], engine=engine, facts=facts)
    return ReportedRun(run, summarize(run))


def index_of(build: Any, folder: Path, names: tuple[str, ...]) -> Page:
    for place, name in enumerate(names):
        run = named(build, name)
        path = build.folder(folder / str(place), run.folder)
        write_json(path / SUMMARY, run.summary)
    return Page(render_index(RunIndexer(folder).read(), folder))


def test_i01_names_in_an_index_are_text_and_open_no_tag(build: Any, tmp_path: Path) -> None:
    plain = index_of(build, tmp_path / "p", tuple(f"engine {i}" for i in range(len(HOSTILE))))
    page = index_of(build, tmp_path / "h", HOSTILE)
    assert page.tags == plain.tags
    assert page.attributes == plain.attributes
    for name in HOSTILE:
        # As a choice of engines, and in the row of the run.
        assert page.cells.count(name) == 2


@pytest.mark.parametrize("make", EXPERIMENTS, ids=lambda make: make.__name__)
def test_i01_i02_i03_names_in_the_page_of_an_experiment_are_text_and_open_no_tag(
    build: Any, make: Callable[..., str]
) -> None:
    html = make(build, all_called(" ".join(HOSTILE)))
    page = Page(html)
    assert not {"img", "id"} & set(page.tags)
    assert not {"onerror", "src"} & page.attributes
    drawings = page.tags.count("svg")
    assert drawings == page.tags.count("figure") >= 2
    assert page.tags.count("title") == 1 + drawings
    assert page.tags.count("script") == html.count("</script>") == 1 + html.count('class="points"')
    text = " ".join(page.cells)
    assert [name for name in HOSTILE if name not in text] == []


@pytest.mark.parametrize("name", HOSTILE)
def test_i01_a_name_in_latex_is_no_command(build: Any, name: str) -> None:
    table = tables.runs_table([named(build, name).folder.manifest])
    assert LATEX_WORD.sub(lambda found: UNESCAPED[found.group()], as_latex(name)) == name
    assert as_latex(name) in to_latex(table)
    assert not re.search(r"\\(input|frac)", to_latex(table))


@pytest.mark.parametrize("name", HOSTILE)
def test_i01_a_name_in_a_figure_is_text_of_the_figure(name: str) -> None:
    samples = [Samples(name, np.array([0.1 * i for i in range(1, 9)]))]
    picture = distribution("ttft", "TTFT", samples, engine_colours([name])).picture
    assert picture is not None
    file = io.BytesIO()
    picture.write(file, "svg", name)
    root = ET.fromstring(file.getvalue().decode())
    drawn = "".join(root.itertext()).replace("\u200b", "")
    assert name in drawn
    assert {node.tag.rpartition("}")[2] for node in root.iter()} <= {
        *("svg", "g", "path", "text", "tspan", "use", "defs", "rect", "clipPath", "style"),
        *("metadata", "RDF", "Work", "title", "description", "format", "type", "line"),
    }
    series = {node.get("data-series") for node in root.iter()} - {None}
    assert series <= {name}


@pytest.mark.parametrize("name", HOSTILE)
def test_i01_a_name_in_the_console_is_not_read_as_markup(build: Any, name: str) -> None:
    shown = io.StringIO()
    out = Console(file=shown, width=400, force_terminal=False)
    console.draw(tables.runs_table([named(build, name).folder.manifest]), out)
    console.print_line(name, out)
    console.print_error(name, out)
    assert shown.getvalue().count(name) == 3


@pytest.mark.parametrize("name", [*HOSTILE, "=1+1", "+1", "-1+cmd|' /C calc'!A0", "@x", "\tx"])
def test_i04_a_name_in_a_spreadsheet_is_never_a_formula(build: Any, name: str) -> None:
    run = named(build, "plain")
    manifest = replace(run.folder.manifest, engine=EngineSpec("inhouse", name, "m", "static"))
    text = to_csv(metric_rows([replace(run.summary, manifest=manifest)]))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    engine = rows[0]["engine"]
    assert engine in {name, f"'{name}"}
    assert engine[0] not in "=+-@\t\r"
