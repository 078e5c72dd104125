"""The page of many runs as a browser shows it: to find runs, and to see how they moved."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.run_index import RunIndexer
from harness.analyzer.summarize import summarize
from harness.core.engine import EngineSpec
from harness.core.rundir import MANIFEST, SUMMARY, write_json
from reports.index_page import render_index

PHONE_PX = 400
HOSTILE = ('"><img src=x onerror="x">', "</script><script>x</script>", "{{x}} &amp; 1<2")
RUNS = 24
CHANGED_AT = 12


def write_runs(build: Any, folder: Path) -> None:
    """24 runs of one engine, which becomes twice as quick; one of each hostile name; a broken one."""
    named = [("plain", f"plain/{i}", i) for i in range(RUNS)]
    named += [(name, f"odd/it's a 'run' #{i}", i) for i, name in enumerate(HOSTILE)]
    records = [build.record(i, [50 + 5 * i + 10 * k for k in range(1, 5)]) for i in range(8)]
    run = build.run(records)
    summary = summarize(run)
    for name, place, i in named:
        manifest = replace(
            run.manifest,
            engine=EngineSpec("inhouse", name, "m", "static"),
            created_utc=f"2030-01-{1 + i:02}T00:00:00+00:00",
            run_id=place,
        )
        speed = (2.0 if i >= CHANGED_AT else 1.0) * (1 + 0.001 * (i % 5))
        values = [
            v if v.value is None else replace(v, value=v.value * speed) for v in summary.values
        ]
        path = build.folder(folder / place, replace(run, manifest=manifest))
        write_json(path / SUMMARY, replace(summary, manifest=manifest, values=tuple(values)))
    broken = folder / "broken <b> run"
    broken.mkdir()
    (broken / MANIFEST).write_text('{"run_id"')


@pytest.fixture(scope="module")
def index(build: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of an index."""
    folder = tmp_path_factory.mktemp("runs")
    write_runs(build, folder)
    page = folder / "index.html"
    page.write_text(render_index(RunIndexer(folder).read(), folder), encoding="utf-8")
    return page.as_uri()


def shown(page: Any) -> int:
    return int(page.locator("#runs tbody tr:visible").count())


def test_choosing_an_engine_leaves_only_its_runs(look: Any, index: str) -> None:
    page = look(index)
    assert shown(page) == RUNS + len(HOSTILE)
    engine = page.locator('select[data-head="Engine"]')
    for name in HOSTILE:
        engine.select_option(label=name)
        assert shown(page) == 1
        assert name in page.locator("#runs tbody tr:visible").text_content()
        assert page.locator("#shown").text_content().startswith("1 of ")
    engine.select_option("")
    assert shown(page) == RUNS + len(HOSTILE)


def test_every_column_of_numbers_sorts_by_its_numbers(look: Any, index: str) -> None:
    page = look(index)
    exact = """head => [...head.closest("table").tBodies[0].rows].map(
        row => row.cells[head.cellIndex].dataset.exact)"""
    heads = [h for h in page.locator("#runs th[data-sort]").all() if None not in h.evaluate(exact)]
    assert len(heads) >= 3
    for head in heads:
        for order, sign in (("ascending", 1), ("descending", -1)):
            head.locator("button").dispatch_event("click")
            numbers = [sign * float(number) for number in head.evaluate(exact)]
            assert numbers == sorted(numbers)
            assert head.get_attribute("aria-sort") == order


def test_the_history_of_an_engine_shows_where_it_changed(look: Any, index: str) -> None:
    page = look(index)
    figure = page.locator("#pictures figure", has_text="plain")
    assert figure.locator("circle.dot").count() == RUNS
    assert figure.locator("line.change").count() == 1
    figure.locator(".scroll").focus()
    page.keyboard.press("End")
    said = figure.locator(".tip").text_content()
    value = re.search(r": (.+), plain/23, ", said)
    assert value is not None, said
    row = page.locator("#runs tbody tr", has=page.get_by_text("plain/23", exact=True))
    assert value.group(1) in [text.strip() for text in row.locator("td").all_text_contents()]


def test_a_folder_that_cannot_be_read_is_named_with_its_reason(look: Any, index: str) -> None:
    broken = look(index).locator("#broken tbody tr")
    assert broken.count() == 1
    assert "broken <b> run" in broken.text_content()


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1200), ("light", PHONE_PX)])
def test_an_index_is_never_wider_than_what_shows_it(
    look: Any, shots: Path, index: str, scheme: str, width: int
) -> None:
    page = look(index, scheme=scheme, width=width)
    page.screenshot(path=shots / f"index-{scheme}-{width}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_axe_finds_no_grave_fault_in_an_index(
    look: Any, grave_faults: Callable[[Any], list[str]], index: str
) -> None:
    assert grave_faults(look(index, scheme="dark")) == []


def test_nothing_in_the_index_of_hostile_names_became_markup(look: Any, index: str) -> None:
    page = look(index)
    assert page.locator("img, b b").count() == 0
    assert page.locator("script:not([type])").count() == 2
    assert page.title().startswith("Runs in ")
