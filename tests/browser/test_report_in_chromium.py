"""The page of runs as a browser shows it: what it does, and that nothing is fetched or too wide."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from harness.analyzer.summarize import summarize
from harness.core.engine import EngineSample, EngineSpec
from harness.gate.comparison import compare
from reports.page import ReportedRun, render_report

PHONE_PX = 400
LONG_NAME = "a-policy-with-a-name-that-nobody-would-type-but-somebody-will"
STATIC, CONTINUOUS = "inhouse-static", "inhouse-continuous"
WITHOUT_STORAGE = """Object.defineProperty(window, "localStorage", {
    get() { throw new DOMException("no", "SecurityError"); } });"""

HOSTILE = ("<title> {{x}}", "</script><script>x</script>", '"><img src=x onerror="x"> &amp; 1<2')


def report(build: Any, *names: str, requests: int = 40) -> str:
    """A report of one run for each name, each quicker than the one before, against the first."""
    runs = []
    for speed, name in enumerate(names, start=1):
        records = [
            build.record(i, [(100 * i + (50 + i) * k) / speed for k in range(1, 5)])
            for i in range(requests)
        ]
        steps = [build.step(i, i * 10, running=3, padded=1) for i in range(20)]
        folder = build.run(records, steps, engine=EngineSpec("inhouse", name, "m", "static"))
        samples = (EngineSample(k * 50_000_000, running=3.0, kv_share=0.5) for k in range(10))
        folder = replace(folder, samples=tuple(samples))
        runs.append(ReportedRun(folder, summarize(folder)))
    base, *others = [run.summary for run in runs]
    tables = [compare(names[0], [base], o.manifest.engine.name, [o], paired=True) for o in others]
    return render_report(runs, tables)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Writes a page to a file; its address."""

    def keep(text: str) -> str:
        path = tmp_path_factory.mktemp("page") / 'it\'s a "page" #1.html'
        path.write_text(text, encoding="utf-8")
        return path.as_uri()

    return keep


@pytest.fixture(scope="module")
def pair(build: Any, kept: Callable[[str], str]) -> str:
    """The address of a report on two engines."""
    return kept(report(build, STATIC, CONTINUOUS))


@pytest.fixture(scope="module")
def crowd(build: Any, kept: Callable[[str], str]) -> str:
    """The address of a report on three engines with long names."""
    return kept(report(build, "a", LONG_NAME, LONG_NAME * 4, requests=8))


def column(page: Any, table: Any, title: str) -> list[str]:
    """The texts of that column, in the order of the rows."""
    heads = [text.strip() for text in table.locator("thead th").all_text_contents()]
    place = heads.index(title) + 1
    return [t.strip() for t in table.locator(f"tbody tr > :nth-child({place})").all_text_contents()]


def brightness(picture: bytes) -> tuple[float, float]:
    """How bright the corner of a PNG is, and how much the brightness varies over it."""
    pixels = imread(BytesIO(picture))[:, :, :3]
    return float(pixels[0, 0].mean()), float(pixels.std())


def shot(page: Any, path: Path, width: int) -> bytes:
    """A picture of the page from its head to the last of the figures, kept at `path`."""
    end = page.locator("figure").last.bounding_box()
    clip = {"x": 0, "y": 0, "width": width, "height": end["y"] + end["height"]}
    picture: bytes = page.screenshot(full_page=True, clip=clip, path=path)
    return picture


def test_every_section_and_figure_is_there(look: Any, pair: str) -> None:
    page = look(pair)
    sections = page.locator("section[id]").evaluate_all("all => all.map(one => one.id)")
    wanted = ("comparison", "unlike", "figures", "metrics", "definitions", "manifest", "reproduce")
    assert [name for name in sections if name in wanted] == list(wanted)
    assert page.locator("header#headline .claim .ratio").first.text_content() == "2.00x"
    drawn = page.locator("figure svg").evaluate_all(
        """all => all.map(svg => {
            const box = svg.querySelector("g").getBBox(), frame = svg.viewBox.baseVal;
            return box.width > frame.width / 2 && box.x >= -1 && box.y >= -1
                && box.x + box.width <= frame.width + 1; })"""
    )
    assert len(drawn) >= 6
    assert all(drawn)


def test_a_link_of_the_page_leads_to_something_on_it(look: Any, pair: str) -> None:
    page = look(pair)
    dead = page.locator('a[href^="#"]').evaluate_all(
        "all => all.map(a => a.hash.slice(1)).filter(id => !document.getElementById(id))"
    )
    assert dead == []


def test_a_head_sorts_its_column_up_then_down_then_as_it_was(look: Any, crowd: str) -> None:
    page = look(crowd)
    table = page.locator("#metrics table").first
    head = table.locator("th[data-sort]").first
    title = re.sub(r"\s+", " ", head.text_content()).strip()
    before = column(page, table, title)
    seen = []
    for _ in range(3):
        head.locator("button").click()
        seen.append((head.get_attribute("aria-sort"), column(page, table, title)))
    assert [order for order, _ in seen] == ["ascending", "descending", None]
    up, down, again = (rows for _, rows in seen)
    assert up != down
    assert sorted(up) == sorted(before)
    assert again == before


def test_numbers_sort_by_what_they_are_and_not_by_how_they_read(look: Any, crowd: str) -> None:
    page = look(crowd)
    head = page.locator("#comparison th[data-sort]", has_text="Ratio").first
    exact = """head => [...head.closest("table").tBodies[0].rows].map(
        row => row.cells[head.cellIndex].dataset.exact)"""
    for sign in (1, -1):
        head.locator("button").click()
        found = head.evaluate(exact)
        numbers = [sign * float(number) for number in found if number is not None]
        assert len(numbers) >= 3
        assert numbers == sorted(numbers)
        assert None not in found[: len(numbers)], "what is not known comes last"


def test_a_series_can_be_switched_off_and_on(look: Any, pair: str) -> None:
    page = look(pair)
    figure = page.locator("figure", has=page.locator(".series")).first
    line = figure.locator(f'g[data-series="{STATIC}"]').first
    other = figure.locator(f'g[data-series="{CONTINUOUS}"]').first
    button = figure.locator(".series button", has_text=STATIC)
    assert line.is_visible()
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert line.is_hidden()
    assert other.is_visible()
    button.press("Enter")
    assert line.is_visible()


def test_a_pointer_on_a_percentile_reads_the_value_of_the_table(look: Any, pair: str) -> None:
    page = look(pair)
    figure = page.locator("figure", has_text="Time to first token").first
    spot = figure.evaluate(
        """(figure, name) => {
            const all = JSON.parse(figure.querySelector("script.points").textContent);
            const points = all.find(series => series.series === name).points;
            const [x, y] = points.find(([, , said]) => said.includes("p50"));
            const svg = figure.querySelector("svg");
            const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
            return [at.x + scrollX, at.y + scrollY]; }""",
        STATIC,
    )
    figure.scroll_into_view_if_needed()
    scrolled = page.evaluate("[scrollX, scrollY]")
    page.mouse.move(spot[0] - scrolled[0], spot[1] - scrolled[1])
    tip = figure.locator(".tip")
    said = tip.text_content()
    row = page.locator("#metrics tr", has_text="TTFT p50").first
    assert said.startswith(f"{STATIC}: ")
    assert "p50" in said
    value = re.search(r"[\d.]+ m?s$", said)
    assert value is not None, said
    in_table = [text.strip(" \n¹²³⁴⁵⁶⁷⁸⁹") for text in row.locator("td").all_text_contents()]
    assert value.group() in in_table
    page.mouse.move(1, 1)
    assert tip.is_hidden()


def test_the_arrow_keys_read_a_figure_too(look: Any, pair: str) -> None:
    page = look(pair)
    figure = page.locator("figure", has_text="Time to first token").first
    figure.locator(".scroll").focus()
    said = []
    for key in ("Home", "ArrowRight", "ArrowLeft", "End", "ArrowDown"):
        page.keyboard.press(key)
        said.append(figure.locator(".tip").text_content())
    first, second, again, last, other = said
    assert first == again
    assert len({first, second, last, other}) == 4
    page.keyboard.press("Escape")
    assert figure.locator(".tip").is_hidden()


def test_a_note_on_a_cell_is_read_by_pointer_by_keys_and_without_scripts(
    look: Any, pair: str
) -> None:
    page = look(pair)
    cell = page.locator("#comparison td[data-note]").first
    note = page.locator(f"#note-{cell.get_attribute('data-note')}")
    assert cell.get_attribute("title") == note.text_content() != ""
    assert note.is_hidden()
    fold = page.locator("#comparison details.notes summary").first
    fold.focus()
    page.keyboard.press("Enter")
    assert note.is_visible()
    plain = look(pair, java_script_enabled=False, width=PHONE_PX)
    plain.locator("#comparison details.notes summary").first.click()
    assert plain.locator(f"#{note.get_attribute('id')}").is_visible()


@pytest.mark.parametrize("before", ["", WITHOUT_STORAGE], ids=["stored", "no storage"])
def test_the_reader_chooses_the_colours(look: Any, pair: str, before: str) -> None:
    page = look(pair, scheme="dark", before=before)
    choice = page.get_by_label("Colours")
    assert brightness(page.screenshot())[0] < 0.3
    choice.select_option("light")
    assert brightness(page.screenshot())[0] > 0.7
    page.reload()
    remembers = before == ""
    assert (brightness(page.screenshot())[0] > 0.7) is remembers


@pytest.mark.parametrize("width", [1200, PHONE_PX])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_colours_of_the_system(
    look: Any, shots: Path, pair: str, width: int, scheme: str
) -> None:
    page = look(pair, width=width, scheme=scheme)
    picture = shot(page, shots / f"report-{scheme}-{width}.png", width)
    corner, spread = brightness(picture)
    assert (corner < 0.3) is (scheme == "dark")
    assert spread > 0.05, "the page is blank"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", PHONE_PX)])
def test_axe_finds_no_grave_fault(
    look: Any, grave_faults: Any, pair: str, scheme: str, width: int
) -> None:
    assert grave_faults(look(pair, width=width, scheme=scheme)) == []


def test_the_page_is_never_wider_than_a_phone(look: Any, crowd: str) -> None:
    page = look(crowd, width=PHONE_PX)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE_PX


def test_wide_tables_scroll_inside_their_own_box(look: Any, crowd: str) -> None:
    page = look(crowd, width=PHONE_PX)
    boxes = page.locator("#metrics .scroll").evaluate_all(
        "all => all.filter(box => box.scrollWidth > box.clientWidth).length"
    )
    assert boxes == 1


def test_on_paper_everything_is_unfolded_and_no_button_is_left(
    look: Any, pair: str, shots: Path
) -> None:
    page = look(pair, scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert not any(button.is_visible() for button in page.locator("button").all())
    assert page.get_by_label("Colours").is_hidden()
    picture = shot(page, shots / "report-paper.png", 1200)
    assert brightness(picture)[0] > 0.95


def test_the_first_key_of_a_keyboard_leads_past_the_head(look: Any, pair: str) -> None:
    page = look(pair)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_without_scripts_everything_is_still_there_to_read(look: Any, pair: str) -> None:
    page = look(pair, java_script_enabled=False)
    assert page.locator("figure svg").first.is_visible()
    assert page.locator("#metrics td").first.is_visible()
    assert page.locator("button").count() == 0


def test_hostile_names_are_only_text(
    look: Any, build: Any, kept: Callable[[str], str], pair: str
) -> None:
    page, plain = look(kept(report(build, *HOSTILE))), look(pair)
    names = page.locator("#metrics thead th").all_text_contents()
    assert [name for name in HOSTILE if name not in {text.strip() for text in names}] == []
    buttons = page.locator(".series button").all_text_contents()
    assert set(HOSTILE) <= set(buttons)
    tags = "[...new Set([...document.querySelectorAll('*')].map(one => one.localName))].sort()"
    named = (
        "[...new Set([...document.querySelectorAll('*')].flatMap(one => one.getAttributeNames()))]"
        ".sort()"
    )
    assert page.evaluate(tags) == plain.evaluate(tags)
    assert page.evaluate(named) == plain.evaluate(named)
