from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.summarize import summarize
from harness.analyzer.summary import MetricValue, SessionTotals, TurnValues
from harness.core.engine import EngineFacts, EngineSpec
from harness.core.jsonable import to_json
from harness.core.manifest import RunStatus
from harness.gate.comparison import ComparisonTable, compare
from reports import filling, page
from reports.page import ReportedRun, render_report, write_report

SECTIONS = (
    "headline",
    "comparison",
    "unlike",
    "validity",
    "figures",
    "published",
    "steps",
    "metrics",
    "definitions",
    "manifest",
    "reproduce",
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


@pytest.fixture(autouse=True)
def no_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take most of the time of a page: they are drawn only for a test that asks for it."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(page, "run_figures", lambda *_: [])


@pytest.fixture
def drawn() -> None:
    """What a test asks for whose page has its figures."""


def text_of(section: str, html: str) -> str:
    start = html.index(f'id="{section}"')
    end = min(
        html.find(mark, start) for mark in ("</section>", "</header>") if html.find(mark, start) > 0
    )
    return " ".join(outline("<p " + html[start:end]).texts)


def test_the_sections_come_in_the_order_in_which_they_are_read(build: Any) -> None:
    ids = outline(render_report(*pair(build))).ids
    assert [name for name in ids if name in SECTIONS] == list(SECTIONS)


def test_every_tag_is_closed_and_every_id_is_there_once(build: Any, drawn: None) -> None:
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
    assert re.search(r"inhouse-static: output tok/s \d.*TTFT p50 \d", text_of("headline", html))
    assert "Nothing was compared" in text_of("comparison", html)


def test_simulated_padding_stands_beside_the_measured_one(build: Any) -> None:
    run = reported(build, "static")
    assert run.summary.steps is not None
    twin = replace(run.summary.steps, padding_share=0.123)
    assert "25.0 %" in text_of("steps", render_report([run], [], {"inhouse-static": twin}))
    assert "12.3 %" in text_of("steps", render_report([run], [], {"inhouse-static": twin}))
    assert "not simulated" in text_of("steps", render_report([run], [], {"another": twin}))
    assert "simulated" not in text_of("steps", render_report([run], []))


def test_sessions_are_told_turn_by_turn_where_there_are_any(build: Any) -> None:
    run = reported(build, "static")
    turns = (TurnValues(0, 5, (MetricValue("ttft_s_p50", 0.5), MetricValue("e2e_s_p50", 2.5))),)
    sessions = SessionTotals(5, turns, (MetricValue("session_s_p50", 12.5),))
    talked = replace(run, summary=replace(run.summary, sessions=sessions))
    said = text_of("turns", render_report([talked], []))
    assert all(part in said for part in ("500 ms", "2.50 s", "whole session", "12.5 s"))
    assert "whole session" not in render_report([run], [])


def test_the_page_holds_what_is_needed_to_repeat_a_run(build: Any) -> None:
    launch = ("python", "-m", "engines.inhouse_server", "--port", "40123")
    manifest = reported(build, "static", launch=launch).summary.manifest
    said = text_of("manifest", render_report([reported(build, "static", launch=launch)], []))
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


def test_the_page_fetches_nothing_and_runs_only_its_own_scripts(build: Any) -> None:
    html = render_report(*pair(build))
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)
    assert policy is not None
    assert unescape(policy[1]).startswith("default-src 'none'; script-src 'sha256-")
    rest = html.replace(policy[0], "")
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", rest)
    assert not re.search(r'(?:src|href)="(?!#)', rest)
    assert not re.search(r"<[^>]*\son[a-z]+=", rest)
    (code,) = re.findall(r"<script>(.*?)</script>", rest, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in unescape(policy[1])


def test_every_link_of_the_page_leads_to_a_place_on_it(build: Any) -> None:
    html = render_report(*pair(build))
    ids = set(outline(html).ids)
    targets = re.findall(r'<a [^>]*href="#([^"]+)"', html)
    assert "term-ttft_s_p50" in targets
    assert set(targets) <= ids


def test_a_number_is_sorted_by_what_it_was_rounded_from(build: Any) -> None:
    runs, tables = pair(build)
    ratio = next(row.ratio for row in tables[0].rows if row.metric == "output_tok_s")
    html = render_report(runs, tables)
    assert f'data-exact="{ratio}">2.00x</td>' in html
    assert re.search(r"<th [^>]* data-sort><a [^>]*>Ratio</a></th>", html)
    mixed = (
        r'<th scope="col" class="right"><a [^>]*>inhouse-static</a></th>'  # its unit changes by row
    )
    assert re.search(mixed, html)


def test_the_first_thing_said_of_a_page_is_whether_it_can_be_trusted(build: Any) -> None:
    said = text_of("headline", render_report(*pair(build)))
    assert "Can this be trusted? Not yet: a ratio of fewer than 3 runs a side" in said
    assert "better?" in said


def test_an_interval_that_holds_one_is_a_tilde_in_the_headline(build: Any) -> None:
    runs, (table,) = pair(build)
    row = replace(table.rows[0], ratio=1.01, lo=0.98, hi=1.04, reason=None)
    unclear = replace(table, rows=(row, *table.rows[1:]))
    said = text_of("headline", render_report(runs, [unclear]))
    assert re.search(r"~ 1\.01\w* output tok/s vs inhouse-static", said)
    assert re.search(r"unclear 95 % interval 0\.98\w* to 1\.04\w*", said)


def test_runs_of_two_models_stand_side_by_side_without_a_ratio(build: Any) -> None:
    other = EngineFacts(model="Another-7B", dtype="bfloat16")
    html = render_report([reported(build, "static"), reported(build, "dynamic", facts=other)], [])
    assert "the runs are of 2 models" in text_of("headline", html)
    assert "Another-7B bf16" in text_of("unlike", html)


def test_runs_that_are_alike_share_a_column_of_what_is_not(build: Any) -> None:
    same = [reported(build, "static", run_id=f"run-{i}") for i in range(5)]
    html = render_report([*same, reported(build, "continuous", speed=2.0)], [])
    assert "inhouse-static #1 and 4 more" in text_of("unlike", html)
    assert "run-4" not in text_of("unlike", html)
    assert "are the same in all runs" in text_of("unlike", render_report(same, []))


def test_a_page_of_runs_alone_opens_with_their_metrics(build: Any) -> None:
    ids = outline(render_report([reported(build, "static")], [])).ids
    assert ids.index("metrics") < ids.index("unlike")


def test_a_run_without_a_step_log_says_so_in_words(build: Any) -> None:
    folder = build.run([build.record(0)])
    html = render_report([ReportedRun(folder, summarize(folder))], [])
    assert "No engine wrote a step log" in text_of("steps", html)


def test_the_page_says_how_to_make_its_runs_again(build: Any) -> None:
    run = reported(build, "static", command=("batchmark", "run", "my mix"))
    said = text_of("reproduce", render_report([run], []))
    assert "batchmark run 'my mix'" in said
    assert f"batchmark reproduce {run.folder.path}" in said
    simulated = reported(build, "static", clock="virtual")
    assert "batchmark reproduce" not in text_of("reproduce", render_report([simulated], []))


def test_the_full_manifest_comes_back_from_the_page(build: Any) -> None:
    run = reported(build, "static", labels={"note": "</pre><b>"})
    html = render_report([run], [])
    (text,) = re.findall(r'<pre tabindex="0">(.*?)</pre>', html, re.DOTALL)
    assert json.loads(unescape(text)) == to_json(run.summary.manifest)


def test_the_same_runs_give_the_same_page(build: Any, drawn: None) -> None:
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

    monkeypatch.setattr(filling.os, "fsync", fail)
    with pytest.raises(OSError):  # noqa: PT011 - the disk's own error passes through
        write_report(path, [reported(build, "continuous")], [])
    assert path.read_text(encoding="utf-8") == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_without_requests_and_steps_still_gives_a_page(build: Any, drawn: None) -> None:
    folder = build.run([])
    html = render_report([ReportedRun(folder, summarize(folder))], [])
    assert html.count("Not drawn:") == html.count("<figure")
    assert outline(html).faults == []


def test_repeats_are_told_apart_and_share_their_engines_colour(build: Any, drawn: None) -> None:
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
