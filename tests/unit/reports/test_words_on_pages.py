"""On a page every head of a table is explained, and every value that is missing has its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from harness.analyzer.metrics import METRICS
from harness.analyzer.summarize import summarize
from harness.core.engine import EngineSpec
from harness.gate.comparison import compare
from harness.gate.formatting import NOT_MEASURED
from reports import page
from reports.page import ReportedRun, render_report

_HEAD = re.compile(r'<th scope="col"[^>]*>(.*?)</th>', re.DOTALL)
_LINK = re.compile(r'<a class="term" href="#(term-[^"]+)">(.*?)</a>', re.DOTALL)


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take most of the time of a page, and have no heads."""
    monkeypatch.setattr(page, "run_figures", lambda *_: [])


def reported(build: Any, name: str, count: int = 8, **changes: Any) -> ReportedRun:
    records = [build.record(i, [50 + 50 * k for k in range(4)]) for i in range(count)]
    folder = build.run(records, engine=EngineSpec("inhouse", name, "smollm2"), **changes)
    return ReportedRun(folder, summarize(folder))


def compared(build: Any, baseline: str = "slow") -> str:
    runs = [reported(build, baseline), reported(build, "fast")]
    sides = [[run.summary] for run in runs]
    return render_report(runs, [compare(baseline, sides[0], "fast", sides[1], paired=True)])


def heads(html: str) -> Iterator[str]:
    """The inside of each head of a table but those of the definitions."""
    start = html.index('<section id="definitions"')
    yield from _HEAD.findall(html[:start] + html[html.index("</section>", start) :])


def test_every_head_leads_to_a_definition_that_is_on_the_page(build: Any) -> None:
    html = compared(build)
    found = list(heads(html))

    assert len(found) > 20
    assert [head for head in found if not _LINK.fullmatch(head.strip())] == []
    targets = {target for target, _ in _LINK.findall(html)}
    assert {"term-ratio", "term-baseline", "term-ttft_s_p50", "term-check"} <= targets
    for target in targets:
        assert html.count(f'id="{target}"') == 1


def test_an_engine_that_is_called_as_a_word_is_still_the_baseline(build: Any) -> None:
    html = compared(build, baseline="ratio")

    links = {(target, unescape(text)) for target, text in _LINK.findall(html)}
    assert ("term-baseline", "ratio") in links
    assert ("term-ratio", "Ratio") in links


def test_a_page_defines_the_words_that_it_uses_and_no_others(build: Any) -> None:
    html = render_report([reported(build, "alone")], [])

    assert 'id="term-run"' in html
    assert 'id="term-ttft_s_p50"' in html
    assert 'id="term-worse-by"' not in html
    assert 'id="term-turn"' not in html, "without sessions there is no table of turns"


def test_definitions_say_how_a_number_is_made(build: Any) -> None:
    said = compared(build).partition('<section id="definitions"')[2].partition("</section>")[0]

    for part in ("(last token - first token) / (output tokens - 1)", "each token the same"):
        assert part in unescape(said)


def test_every_value_that_was_not_measured_has_its_reason_on_the_page(build: Any) -> None:
    html = render_report([reported(build, "few", count=1)], [])

    numbers = re.findall(rf">{NOT_MEASURED}([^<]*)<", html)
    reasons = dict(re.findall(r'<p class="note">([⁰¹²³⁴-⁹]+) (.*?)</p>', html))
    assert len(numbers) > 5
    assert set(numbers) <= set(reasons)
    assert "1 requests cannot support p99 (368 needed)" in reasons.values()


@pytest.mark.parametrize("count", [0, 1, 8])
def test_a_metric_without_a_value_always_says_why(build: Any, count: int) -> None:
    found = reported(build, "any", count=count).summary

    assert len(found.values) == len(METRICS)
    assert [
        value.metric for value in found.values if value.value is None and not value.reason
    ] == []
