"""The pages of a duel, an ablation, a sweep and a search for capacity as a browser shows them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from experiments import EXPERIMENTS, all_called, sweep

PHONE_PX = 400
HOSTILE = '"><img src=x onerror="x"> </script><script>x</script> {{x}} &amp; 1<2'
OUT_OF_FRAME = """all => all.filter(svg => {
    const frame = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("text")].some(text => {
        const box = text.getBoundingClientRect();
        return box.left < frame.left - 1 || box.right > frame.right + 1
            || box.top < frame.top - 1 || box.bottom > frame.bottom + 1; }); }).length"""
END = "document.getElementById('cautions').offsetTop"
OVERLAPPING = """all => all.flatMap(svg => {
    const texts = [...svg.querySelectorAll("text")].filter(text => text.textContent.trim());
    const boxes = texts.map(text => text.getBoundingClientRect());
    return texts.flatMap((text, i) => texts.slice(i + 1).flatMap((other, k) => {
        const [a, b] = [boxes[i], boxes[i + 1 + k]];
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        return wide > 2 && high > 4 ? [`${text.textContent} | ${other.textContent}`] : [];
    })); })"""


@pytest.fixture(scope="module", params=EXPERIMENTS, ids=lambda make: make.__name__)
def make(request: pytest.FixtureRequest) -> Callable[..., str]:
    """What makes the page of one experiment."""
    found: Callable[..., str] = request.param
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Writes a page to a file; its address."""

    def keep(text: str) -> str:
        path = tmp_path_factory.mktemp("page") / 'an "experiment" #1.html'
        path.write_text(text, encoding="utf-8")
        return path.as_uri()

    return keep


@pytest.fixture(scope="module")
def address(build: Any, make: Callable[..., str], kept: Callable[[str], str]) -> str:
    return kept(make(build))


def test_every_figure_tells_its_values_and_every_link_leads_somewhere(
    look: Any, address: str
) -> None:
    page = look(address)
    drawings = page.locator("figure svg")
    assert drawings.count() == page.locator("figure").count() >= 2
    assert drawings.evaluate_all(OUT_OF_FRAME) == 0
    assert drawings.evaluate_all(OVERLAPPING) == []
    dead = page.locator('a[href^="#"]').evaluate_all(
        "all => all.map(a => a.hash.slice(1)).filter(id => !document.getElementById(id))"
    )
    assert dead == []
    for figure in page.locator("figure").all():
        figure.locator(".scroll").focus()
        page.keyboard.press("End")
        assert ": " in figure.locator(".tip:visible").text_content()


def test_it_is_readable_on_every_screen(
    look: Any, grave_faults: Any, shots: Path, make: Callable[..., str], address: str
) -> None:
    page = look(address)
    for scheme, width in (("light", 1200), ("dark", PHONE_PX)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        clip = {"x": 0, "y": 0, "width": width, "height": page.evaluate(END)}
        path = shots / f"{make.__name__}-{scheme}-{width}.png"
        page.screenshot(full_page=True, clip=clip, path=path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Definitions are many, and are looked at on the page of runs.
    page.evaluate("unfold(), document.getElementById('definitions').remove()")
    assert grave_faults(page) == []


def test_hostile_names_are_only_text_also_where_a_script_writes_them(
    look: Any, build: Any, kept: Callable[[str], str]
) -> None:
    page = look(kept(sweep(build, all_called(HOSTILE))), width=PHONE_PX)
    assert HOSTILE in page.locator("header#headline").text_content()
    assert HOSTILE in page.locator(".series button").all_text_contents()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE_PX
    assert page.locator("img, [onerror]").count() == 0
    assert page.locator("script:not([type])").count() == 1
