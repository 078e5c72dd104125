"""Figures as files of their own: SVG, PNG and PDF, light and dark."""

from __future__ import annotations

import io
from xml.etree import ElementTree as ET

import matplotlib.image
import numpy as np
import pytest

from harness.core.plot_flags import Form
from reports.ecdf import Samples, distribution
from reports.figures import engine_colours
from reports.svg import MOST_SPOTS, Picture, thinned

HOSTILE = '</svg><script>x</script>"$&{{y}}'
SVG = "{http://www.w3.org/2000/svg}"


def picture(engine: str = "a", title: str = "Time to first token") -> Picture:
    samples = [Samples(engine, np.arange(1.0, 50.0))]
    found = distribution("ttft", title, samples, engine_colours([engine])).picture
    assert found is not None
    return found


def written(
    form: Form, made: Picture | None = None, context: str = "SmolLM2", **how: bool
) -> bytes:
    file = io.BytesIO()
    (made or picture()).write(file, form, context, **how)
    return file.getvalue()


@pytest.mark.parametrize(
    ("form", "begins"), [(Form.SVG, b"<?xml"), (Form.PNG, b"\x89PNG"), (Form.PDF, b"%PDF")]
)
def test_every_form_is_what_it_says_and_the_same_each_time(form: Form, begins: bytes) -> None:
    data = written(form)

    assert data.startswith(begins)
    assert data == written(form)


@pytest.mark.parametrize("is_dark", [False, True])
def test_the_ground_of_a_file_is_light_or_dark(is_dark: bool) -> None:
    pixels = matplotlib.image.imread(io.BytesIO(written(Form.PNG, is_dark=is_dark)))

    corner = pixels[0, 0, :3].mean()
    assert bool(corner < 0.2) is is_dark
    assert pixels[:, :, 3].min() == 1.0, "a file with a clear ground is unreadable on some pages"
    assert pixels.std() > 0.05


def test_a_file_needs_no_colours_from_a_page() -> None:
    text = written(Form.SVG).decode()

    assert "var(--" not in text
    assert "page:" not in text
    assert "#1c2024" in text


def test_title_and_context_stand_in_the_file_and_hostile_names_are_text() -> None:
    root = ET.fromstring(written(Form.SVG, picture(HOSTILE, HOSTILE), context=HOSTILE))

    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert texts.count(HOSTILE) == 3  # title, context, legend
    assert not list(root.iter(f"{SVG}script"))
    assert HOSTILE in {group.get("data-series") for group in root.iter(f"{SVG}g")}


@pytest.mark.parametrize("form", list(Form))
def test_a_hostile_name_is_written_in_every_form(form: Form) -> None:
    assert written(form, picture(f"{HOSTILE} 日本語 \u2028_"), context="\x07 \ud7ff")


def test_a_page_and_a_file_leave_no_trace_in_each_other() -> None:
    made = picture()
    before = picture().svg
    written(Form.PNG, made, is_dark=True)

    assert made.svg == before


@pytest.mark.parametrize("count", [0, 1, MOST_SPOTS, MOST_SPOTS + 1, 10_000])
def test_thinned_places_keep_their_ends(count: int) -> None:
    kept = thinned(range(count))

    assert len(kept) == min(count, MOST_SPOTS)
    assert kept[:1] == list(range(count))[:1]
    assert kept[-1:] == list(range(count))[-1:]
    assert sorted(set(kept)) == kept
