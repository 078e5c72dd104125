"""The page of many runs as text: what it holds, and that names in it are only ever text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from harness.analyzer.run_index import BrokenRun, IndexedRun, RunIndex
from harness.analyzer.summary import Validity
from harness.core.engine import EngineSpec
from reports.index_page import render_index

HOSTILE = (
    "</script><script>x</script>",
    '"><img src=x onerror="x">',
    "{{x}}",
    "&amp;",
    "1<2",
    "\u2028",
)


class Outline(HTMLParser):
    """Which tags, ids and texts there are, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]
        if tag not in {"meta", "br", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def run(build: Any, number: int, rate: float = 100.0, name: str = "a") -> IndexedRun:
    created = f"2030-01-{1 + number // 24:02}T{number % 24:02}:00:00+00:00"
    engine = EngineSpec("inhouse", name, "smollm2")
    manifest = build.manifest(created_utc=created, engine=engine)
    return IndexedRun(f"{name}/{number}", manifest, Validity.VALID, {"output_tok_s": rate})


def history(build: Any, name: str, count: int = 30, at: int = 18) -> list[IndexedRun]:
    noise = np.random.default_rng(3).normal(1, 0.01, count)
    rates = [100 * float(noise[i]) * (1.2 if i >= at else 1) for i in range(count)]
    return [run(build, i, rates[i], name) for i in reversed(range(count))]


def index(*runs: IndexedRun, broken: tuple[BrokenRun, ...] = (), at: Path = Path()) -> RunIndex:
    return RunIndex(at, tuple(runs), broken)


def data_of(page: str) -> dict[str, Any]:
    (block,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL
    )
    return dict(json.loads(block))


def said(page: str) -> str:
    return " ".join(
        " ".join(Outline(page[page.index("<main") : page.index("</main>")]).texts).split()
    )


def test_every_run_is_a_row_and_every_broken_folder_has_its_reason(build: Any) -> None:
    page = render_index(index(*history(build, "a"), broken=(BrokenRun("b", "it <broke>"),)), Path())
    seen = Outline(page)

    assert seen.open == []
    assert len(set(seen.ids)) == len(seen.ids)
    assert {"headline", "filters", "runs", "broken", "trends", "changes", "definitions"} <= set(
        seen.ids
    )
    assert page.count('scope="row"') >= 31
    assert "it <broke>" in said(page)
    assert "30 runs of 1 engine" in said(page)


def test_the_picture_of_a_history_is_made_of_rows_of_the_table(build: Any) -> None:
    runs = [*history(build, "a"), *history(build, "b", count=2)]
    page = render_index(index(*runs), Path())
    (trend,) = data_of(page)["trends"]
    (line,) = trend["series"]

    assert [len(part["rows"]) for part in line["stretches"]] == [18, 12]
    assert [row for part in line["stretches"] for row in part["rows"]] == list(reversed(range(30)))
    assert line["said"].startswith("30 runs, +")
    assert line["said"].endswith("from 2030-01-01 18:00 on")
    assert "Series looked at: 1; changes found: 1." in said(page)


def test_few_runs_are_words_instead_of_a_picture(build: Any) -> None:
    page = render_index(index(run(build, 1), run(build, 2, name="b")), Path())

    assert data_of(page)["trends"] == []
    assert "Nothing is drawn: no engine, model, workload and machine has 3 runs" in said(page)
    assert "No change was found." in said(page)


def test_three_runs_are_drawn_and_not_searched_for_changes(build: Any) -> None:
    page = render_index(index(*history(build, "a", count=3)), Path())
    ((line,),) = (trend["series"] for trend in data_of(page)["trends"])

    assert line["said"] == "3 runs, changes are sought from 20 on"


def test_no_run_at_all_is_a_page_too() -> None:
    page = render_index(index(broken=(BrokenRun("a", "cut"),)), Path())

    assert Outline(page).open == []
    assert "There is no run that can be read." in said(page)


def test_a_run_leads_to_its_page_from_where_the_index_is(build: Any, tmp_path: Path) -> None:
    runs = tmp_path / "my runs"
    (runs / 'it\'s "a" & b#?').mkdir(parents=True)
    (runs / "job").mkdir()
    (runs / 'it\'s "a" & b#?' / "report.html").touch()
    (runs / "job" / "duel.html").touch()
    named = [
        replace(run(build, 1), name='it\'s "a" & b#?'),
        replace(run(build, 2), name="job/pair-1"),
        replace(run(build, 3), name="alone/run"),
    ]
    page = render_index(index(*named, at=runs), runs)

    links = [link for link in Outline(page).links if not link.startswith("#")]
    assert links == ["it%27s%20%22a%22%20%26%20b%23%3F/report.html", "job/duel.html"]
    elsewhere = render_index(index(*named, at=runs), tmp_path / "pages")
    assert '"../my%20runs/job/duel.html"' in elsewhere


def test_hostile_names_are_only_text(build: Any) -> None:
    plain = render_index(
        index(*(r for i in range(len(HOSTILE)) for r in history(build, f"n{i}", 21, 10))), Path()
    )
    runs = [r for name in HOSTILE for r in history(build, name, 21, 10)]
    page = render_index(index(*runs, broken=()), Path())

    assert Outline(page).tags == Outline(plain).tags
    for name in HOSTILE:
        assert name in Outline(page).texts
    assert len(data_of(page)["trends"]) == len(HOSTILE)


def test_the_page_fetches_nothing_and_the_same_runs_give_the_same_page(build: Any) -> None:
    page = render_index(index(*history(build, "a")), Path())

    assert not re.search(r"https?:(?!//www\.w3\.org/2000/svg)|@import|url\((?!#)", page)
    assert page == render_index(index(*history(build, "a")), Path())


def test_thousands_of_runs_are_one_page_that_says_each_reason_once(build: Any) -> None:
    bare = replace(run(build, 0), validity=None, values={}, doubt="it has no summary.json")
    runs = [replace(bare if i % 3 else run(build, 0), name=f"job/{i}") for i in range(2_000)]
    page = render_index(index(*runs), Path())

    assert page.count('<th scope="row"') == 2_000
    assert said(page).count("it has no summary.json") == 1
    assert len(page) < 5_000_000
