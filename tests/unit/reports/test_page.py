from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.summarize import summarize
from harness.core.engine import EngineSpec
from harness.core.manifest import RunStatus
from harness.gate.comparison import ComparisonTable, compare
from reports import page
from reports.page import ReportedRun, render_report, write_report

SECTIONS = (
    "headline",
    "validity",
    "comparison",
    "published",
    "figures",
    "steps",
    "metrics",
    "cautions",
    "method",
    "definitions",
)
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Outline(HTMLParser):
    """Collects ids and texts, and whether every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.texts: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(" ".join(data.split()))


def outline(html: str) -> Outline:
    parser = Outline()
    parser.feed(html)
    parser.close()
    return parser


def reported(build: Any, policy: str, speed: float = 1.0, **changes: Any) -> ReportedRun:
    records = [build.record(i, [(100 * i + 50 * k) / speed for k in range(1, 5)]) for i in range(8)]
    steps = [build.step(i, i * 10, running=3, padded=1) for i in range(20)]
    spec = EngineSpec("inhouse", f"inhouse-{policy}", "smollm2", policy=policy)
    folder = build.run(records, steps, **{"engine": spec, **changes})
    return ReportedRun(folder, summarize(folder))


def pair(build: Any) -> tuple[list[ReportedRun], list[ComparisonTable]]:
    runs = [reported(build, "static"), reported(build, "continuous", speed=2.0)]
    sides = [[run.summary] for run in runs]
    table = compare("inhouse-static", sides[0], "inhouse-continuous", sides[1], paired=True)
    return runs, [table]


def text_of(section: str, html: str) -> str:
    start = html.index(f'id="{section}"')
    end = min(
        html.find(mark, start) for mark in ("</section>", "</header>") if html.find(mark, start) > 0
    )
    return " ".join(outline("<p " + html[start:end]).texts)


def test_the_sections_come_in_the_order_in_which_they_are_read(build: Any) -> None:
    ids = outline(render_report(*pair(build))).ids
    assert [name for name in ids if name in SECTIONS] == list(SECTIONS)


def test_every_tag_is_closed_and_every_id_is_there_once(build: Any) -> None:
    seen = outline(render_report(*pair(build)))
    assert seen.faults == []
    assert seen.open == []
    assert len(set(seen.ids)) == len(seen.ids)


def test_the_headline_names_baseline_model_hardware_and_workload(build: Any) -> None:
    said = text_of("headline", render_report(*pair(build)))
    assert (
        "inhouse-continuous: 2.00x output tok/s vs inhouse-static "
        "(SmolLM2-135M bf16, 2-core AMD EPYC, eight-agents x4 backlog)" in said
    )
    assert "1 run(s) on a side give no interval" in said


def test_an_invalid_run_is_said_before_any_ratio(build: Any) -> None:
    runs, tables = pair(build)
    bad = reported(build, "static", status=RunStatus.INTERRUPTED)
    assert bad.summary.validity.value == "INVALID"
    said = text_of("headline", render_report([bad, runs[1]], tables))
    assert said.index("INVALID") < said.index("2.00x")
    assert "proves nothing" in said


def test_without_a_comparison_the_page_says_that_there_is_no_ratio(build: Any) -> None:
    html = render_report([reported(build, "static")], [])
    assert "Nothing was compared" in text_of("headline", html)
    assert "Nothing was compared" in text_of("comparison", html)


def test_simulated_padding_stands_beside_the_measured_one(build: Any) -> None:
    run = reported(build, "static")
    assert run.summary.steps is not None
    twin = replace(run.summary.steps, padding_share=0.123)
    assert "25.0 %" in text_of("steps", render_report([run], [], {"inhouse-static": twin}))
    assert "12.3 %" in text_of("steps", render_report([run], [], {"inhouse-static": twin}))
    assert "not simulated" in text_of("steps", render_report([run], [], {"another": twin}))
    assert "simulated" not in text_of("steps", render_report([run], []))


def test_the_page_holds_what_is_needed_to_repeat_a_run(build: Any) -> None:
    launch = ("python", "-m", "engines.inhouse_server", "--port", "40123")
    manifest = reported(build, "static", launch=launch).summary.manifest
    said = text_of("method", render_report([reported(build, "static", launch=launch)], []))
    for fact in (
        manifest.workload.digest,
        manifest.facts.model_digest,
        manifest.machine.title,
        "python -m engines.inhouse_server --port 40123",
        "batchmark run",
        manifest.run_id,
        "backlog",
    ):
        assert fact in said


def test_the_page_fetches_nothing_and_runs_nothing(build: Any) -> None:
    html = render_report(*pair(build))
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", html)
    assert "<script" not in html
    assert not re.search(r'(?:src|href)="(?!#)', html)


def test_the_same_runs_give_the_same_page(build: Any) -> None:
    assert render_report(*pair(build)) == render_report(*pair(build))


def test_a_page_without_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        render_report([], [])


def test_a_page_that_cannot_be_made_leaves_the_old_one(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    write_report(path, [reported(build, "static")], [])
    before = path.read_text(encoding="utf-8")

    def fail(_: int) -> None:
        raise OSError

    monkeypatch.setattr(page.os, "fsync", fail)
    with pytest.raises(OSError):  # noqa: PT011 - the disk's own error passes through
        write_report(path, [reported(build, "continuous")], [])
    assert path.read_text(encoding="utf-8") == before


def test_a_run_without_requests_and_steps_still_gives_a_page(build: Any) -> None:
    folder = build.run([])
    html = render_report([ReportedRun(folder, summarize(folder))], [])
    assert html.count("Not drawn:") == 6
    assert outline(html).faults == []


def test_repeats_are_told_apart_and_share_their_engines_colour(build: Any) -> None:
    runs = [reported(build, "static", speed=1 + i / 10) for i in range(3)]
    html = render_report(runs, [])
    assert "inhouse-static #3" in text_of("metrics", html)
    assert "One curve a run." in text_of("figures", html)


def test_what_was_allowed_to_differ_is_the_first_line_of_the_page(build: Any) -> None:
    runs, (table,) = pair(build)
    allowed = replace(table, allowed=("CPU: A / B",))

    said = text_of("headline", render_report(runs, [allowed]))
    assert said.startswith("NOT ALIKE, compared because of --allow: CPU: A / B")
    assert "NOT ALIKE" not in text_of("headline", render_report(runs, [table]))


def test_claims_by_others_stand_apart_and_only_beside_what_they_are_about(build: Any) -> None:
    runs, tables = pair(build)
    html = render_report(runs, tables)

    assert "Claims by others, not your baseline" in text_of("published", html)
    assert "up to 23x total token throughput vs HF Pipelines static" in text_of("published", html)
    assert "23x" not in text_of("headline", html) + text_of("comparison", html)
    assert 'id="published"' not in render_report(runs, [])
