from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reports import figures, slots
from reports.figures import Figure, Samples, TimeParts
from reports.slots import Slots
from reports.svg import MOST_POINTS

COLOURS = figures.engine_colours(["a", "b"])


def steps(*rows: tuple[float, float, int, int, int]) -> pd.DataFrame:
    names = ["started_s", "duration_s", "slots", "running", "padded"]
    return pd.DataFrame(list(rows), columns=names)


def ecdf(*values: float, engine: str = "a") -> Figure:
    sample = Samples(engine, np.array(values, dtype=float))
    return figures.distribution("d", "TTFT", [sample], figures.engine_colours([engine]))


def numbers(svg: str) -> list[float]:
    found: list[float] = []
    for path in re.findall(r' d="([^"]*)"', svg):
        found += [float(text) for text in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", path)]
    return found


def assert_drawn(figure: Figure) -> str:
    assert figure.svg is not None, figure.reason
    assert "nan" not in figure.svg.lower()
    assert "inf" not in figure.svg.lower().replace("infinite", "")
    assert all(math.isfinite(number) for number in numbers(figure.svg))
    return figure.svg


@pytest.mark.parametrize("values", [(), (math.nan,), (math.inf, math.inf)])
def test_a_distribution_of_nothing_gives_a_reason_instead(values: tuple[float, ...]) -> None:
    figure = ecdf(*values)
    assert figure.svg is None
    assert figure.reason == "no request of any run has this time"


@pytest.mark.parametrize("values", [(0.5,), (0.5, 0.5, 0.5), (0.0, 0.0), (0.1, math.nan, math.inf)])
def test_a_distribution_of_one_point_equal_values_or_failures_is_drawn(
    values: tuple[float, ...],
) -> None:
    assert_drawn(ecdf(*values))


def test_a_failed_request_keeps_the_curve_below_the_top() -> None:
    x, y = figures._curve(np.array([1.0, 2.0, math.inf, math.inf]), 3.0)
    assert (x[-1], y[-1]) == (3.0, 0.5)


def test_a_hundred_thousand_requests_are_drawn_with_few_points_and_their_extremes() -> None:
    values = np.arange(1, 100_001) / 1000
    x, y = figures._curve(values, 101.0)
    assert len(x) <= MOST_POINTS + 2
    assert (x[1], x[-2]) == (0.001, 100.0)
    assert (y[1], y[-2]) == (1e-5, 1.0)


@pytest.mark.parametrize("value", [None, math.nan])
def test_an_output_rate_that_was_not_measured_gives_a_reason(value: float | None) -> None:
    figure = figures.throughput("t", "Rate", [("a", value)], COLOURS)
    assert (figure.svg, figure.reason) == (None, "no run has an output rate")


def test_bars_carry_the_mean_of_an_engines_runs() -> None:
    values = [("a", 10.0), ("a", 12.0), ("b", 33.3), ("b", None)]
    svg = assert_drawn(figures.throughput("t", "Rate", values, COLOURS))
    assert ">11.0<" in svg
    assert ">33.3<" in svg


def test_a_rate_of_zero_is_a_bar_of_no_length() -> None:
    assert_drawn(figures.throughput("t", "Rate", [("a", 0.0)], COLOURS))


def test_without_steps_the_slot_figure_gives_a_reason() -> None:
    figure = slots.slots_over_time("s", "Slots", [Slots("a", steps())], COLOURS)
    assert (figure.svg, figure.reason) == (None, "no engine wrote a step log")
    assert figures.time_split("p", "Time", [], COLOURS).svg is None


@pytest.mark.parametrize("rows", [[(0, 0.1, 4, 4, 0)], [(0, 0, 4, 0, 4)], [(1, 0.1, 8, 0, 0)] * 3])
def test_one_step_no_time_and_empty_slots_are_drawn(rows: list[Any]) -> None:
    assert_drawn(slots.slots_over_time("s", "Slots", [Slots("a", steps(*rows))], COLOURS))
    assert_drawn(figures.time_split("p", "Time", [TimeParts("a", 0, 0, 0)], COLOURS))


def test_between_steps_the_slots_are_empty_and_equal_steps_are_one_level() -> None:
    run = Slots("a", steps((0, 1, 4, 4, 0), (1, 1, 4, 4, 0), (3, 1, 4, 2, 2)))
    edges, running, padded = slots._occupancy(run, 4.0)
    assert edges.tolist() == [0, 2, 3, 4]
    assert running.tolist() == [4, 0, 2, 0]
    assert padded.tolist() == [0, 0, 2, 0]


def test_thinned_slots_keep_the_area_under_them() -> None:
    rng = np.random.default_rng(7)
    durations = rng.uniform(0.01, 0.05, 5000)
    starts = np.concatenate([[0], np.cumsum(durations)[:-1]])
    running = rng.integers(0, 9, 5000)
    run = Slots("a", steps(*zip(starts, durations, [8] * 5000, running, 8 - running, strict=True)))
    edges, drawn, padded = slots._occupancy(run, float(durations.sum()))
    assert len(edges) == MOST_POINTS + 1
    assert (drawn[:-1] * np.diff(edges)).sum() == pytest.approx((running * durations).sum())
    assert np.allclose((drawn + padded)[:-1], 8)


def test_the_same_figure_is_the_same_text() -> None:
    assert ecdf(1, 2, 3).svg == ecdf(1, 2, 3).svg


def test_two_figures_share_no_id() -> None:
    sample = [Samples("a", np.array([1.0, 2.0]))]
    drawn = [figures.distribution(name, "TTFT", sample, COLOURS).svg or "" for name in ("x", "y")]
    first, second = (set(re.findall(r' id="([^"]+)"', svg)) for svg in drawn)
    assert first
    assert not first & second
    for svg, ids in zip(drawn, (first, second), strict=True):
        used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
        assert used <= ids


def test_a_figure_is_inline_svg_with_a_title_and_a_description() -> None:
    svg = ecdf(1, 2).svg or ""
    assert svg.startswith("<svg role=")
    assert "<title id=" in svg
    assert ">a: half within 1.00 s</desc>" in svg
    for forbidden in ("<?xml", "<!DOCTYPE", "<metadata", "http", "<style", "dc:date"):
        assert forbidden not in svg


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("$x$ & <b>", "$x$ &amp; &lt;b&gt;"),
        ('a id="z" url(#q)', 'a id="z" url(#q)'),
        ("</svg><script>x</script>", "&lt;/svg&gt;&lt;script&gt;x&lt;/script&gt;"),
        ("日本語", "日本語"),
        ("_hidden", "_hidden"),
        ("#010203", "#010203"),
    ],
)
def test_a_name_is_shown_as_it_is(name: str, shown: str) -> None:
    svg = ecdf(1, 2, engine=name).svg or ""
    legend = svg.rpartition("legend")[2]
    assert shown in re.sub("\u200b", "", legend)


def test_an_engine_keeps_its_colour_and_the_first_eight_differ() -> None:
    names = [f"engine-{i}" for i in range(8)]
    colours = figures.engine_colours([*names, *names])
    assert len(set(colours.values())) == len(names)
