"""The page as a browser sees it: nothing missing, nothing fetched, nothing wider than a phone."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from harness.analyzer.summarize import summarize
from harness.core.engine import EngineSample, EngineSpec
from harness.gate.comparison import compare
from reports.page import ReportedRun, render_report

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
)
PHONE_PX = 390
LONG_NAME = "a-policy-with-a-name-that-nobody-would-type-but-somebody-will"

HOSTILE = (
    "<title>",
    "</script><script>x</script>",
    '"><img src=x onerror="x">',
    "{{x}}",
    "&amp;",
    "1<2",
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def browse(page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [CHROMIUM, *FLAGS, profile, *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def dom_of(page: Path) -> str:
    return browse(page, "--dump-dom").stdout


def saved(folder: Path, text: str) -> Path:
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    return path


def framed(text: str, width_px: int, expression: str) -> str:
    """A page that shows `text` in a frame of that width, and then what `expression` says of it."""
    return f"""<!DOCTYPE html><body><iframe width="{width_px}" height="800" frameborder="0"
      srcdoc="{html.escape(text)}"></iframe><output></output><script>
      const frame = document.querySelector("iframe");
      frame.onload = () => {{
        const page = frame.contentDocument;
        document.querySelector("output").textContent = {expression};
      }};</script></body>"""


def report(build: Any, *names: str) -> str:
    runs = []
    for speed, name in enumerate(names, start=1):
        records = [
            build.record(i, [(100 * i + 50 * k) / speed for k in range(1, 5)]) for i in range(8)
        ]
        steps = [build.step(i, i * 10, running=3, padded=1) for i in range(20)]
        folder = build.run(records, steps, engine=EngineSpec("inhouse", name, "m", "static"))
        samples = (EngineSample(k * 50_000_000, running=3.0, kv_share=0.5) for k in range(10))
        folder = replace(folder, samples=tuple(samples))
        runs.append(ReportedRun(folder, summarize(folder)))
    base, *others = [run.summary for run in runs]
    tables = [compare(names[0], [base], o.manifest.engine.name, [o], paired=True) for o in others]
    return render_report(runs, tables)


def test_every_section_and_figure_is_there_and_the_browser_complains_of_nothing(
    build: Any, tmp_path: Path
) -> None:
    page = saved(tmp_path, report(build, "inhouse-static", "inhouse-continuous"))
    seen = browse(page, "--dump-dom")
    assert len(re.findall(r"<section id=", seen.stdout)) == 8
    assert 'header id="headline"' in seen.stdout
    assert len(re.findall(r"<svg ", seen.stdout)) == 6
    assert ":CONSOLE" not in seen.stderr


def test_the_page_is_never_wider_than_a_phone(build: Any, tmp_path: Path) -> None:
    text = report(build, "inhouse-static", "inhouse-continuous", LONG_NAME, LONG_NAME * 4)
    asked = "`${page.documentElement.clientWidth} ${page.documentElement.scrollWidth}`"
    dom = dom_of(saved(tmp_path, framed(text, PHONE_PX, asked)))
    found = re.search(r"<output>(\d+) (\d+)</output>", dom)
    assert found is not None, dom[-500:]
    client_px, scroll_px = map(int, found.groups())
    assert client_px > PHONE_PX - 20
    assert scroll_px <= client_px


def test_wide_tables_scroll_inside_their_own_box(build: Any, tmp_path: Path) -> None:
    text = report(build, "a", *(f"{LONG_NAME}-{i}" for i in range(4)))
    asked = (
        '[...page.querySelectorAll("#metrics .scroll")]'
        ".filter(box => box.scrollWidth > box.clientWidth).length"
    )
    dom = dom_of(saved(tmp_path, framed(text, PHONE_PX, asked)))
    assert "<output>1</output>" in dom


def test_figures_draw_something_inside_their_frame(build: Any, tmp_path: Path) -> None:
    asked = (
        '[...page.querySelectorAll("figure svg")].filter(svg => {'
        "const box = svg.getBBox(); const frame = svg.viewBox.baseVal;"
        "return box.width > frame.width / 2 && box.x >= -1 && box.y >= -1"
        " && box.x + box.width <= frame.width + 1; }).length"
    )
    text = report(build, "inhouse-static", "inhouse-continuous")
    assert "<output>6</output>" in dom_of(saved(tmp_path, framed(text, 1200, asked)))


@pytest.mark.parametrize(("scheme", "is_dark"), [(1, False), (0, True)], ids=["light", "dark"])
def test_the_page_follows_the_readers_colour_scheme(
    build: Any, tmp_path: Path, scheme: int, is_dark: bool
) -> None:
    page, picture = saved(tmp_path, report(build, "inhouse-static")), tmp_path / "page.png"
    browse(
        page,
        f"--blink-settings=preferredColorScheme={scheme}",
        "--window-size=1200,2000",
        f"--screenshot={picture}",
    )
    pixels = imread(picture)[:, :, :3]
    assert bool(pixels[0, 0].mean() < 0.3) is is_dark
    assert pixels.std() > 0.05, "the page is blank"


def test_hostile_names_are_only_text(build: Any, tmp_path: Path) -> None:
    plain = dom_of(saved(tmp_path, report(build, *(f"n{i}" for i in range(len(HOSTILE))))))
    dom = dom_of(saved(tmp_path, report(build, *HOSTILE)))
    for name in HOSTILE:
        assert f">{html.escape(name, quote=False)}<" in dom
    assert set(re.findall(r"<(\w+)", dom)) == set(re.findall(r"<(\w+)", plain))
    assert dom.count("<title") == plain.count("<title")
    outside_quotes = re.sub(r">[^<]*<", "><", re.sub(r'"[^"]*"', '""', dom))
    assert "onerror" not in outside_quotes
