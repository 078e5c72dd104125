from __future__ import annotations

import math
import re
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reports import bars, ecdf, figures, slots
from reports.bars import TimeParts
from reports.ecdf import Samples
from reports.figures import Figure
from reports.slots import Slots
from reports.svg import MOST_POINTS, MOST_SPOTS

COLOURS = figures.engine_colours(["a", "b"])


def steps(*rows: tuple[float, float, int, int, int]) -> pd.DataFrame:
    names = ["started_s", "duration_s", "slots", "running", "padded"]
    return pd.DataFrame(list(rows), columns=names)


def drawn(*values: float, engine: str = "a") -> Figure:
    sample = Samples(engine, np.array(values, dtype=float))
    return ecdf.distribution("d", "TTFT", [sample], figures.engine_colours([engine]))


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
    figure = drawn(*values)
    assert figure.svg is None
    assert figure.reason == "no request of any run has this time"


@pytest.mark.parametrize("values", [(0.5,), (0.5, 0.5, 0.5), (0.0, 0.0), (0.1, math.nan, math.inf)])
def test_a_distribution_of_one_point_equal_values_or_failures_is_drawn(
    values: tuple[float, ...],
) -> None:
    assert_drawn(drawn(*values))


def test_a_failed_request_keeps_the_curve_below_the_top() -> None:
    x, y = ecdf._steps(np.array([1.0, 2.0, math.inf, math.inf]), 0.5, 3.0)
    assert (x[-1], y[-1]) == (3.0, 0.5)


def test_a_hundred_thousand_requests_are_drawn_with_few_points_and_their_extremes() -> None:
    values = np.arange(1, 100_001) / 1000
    x, y = ecdf._steps(values, 0.0005, 101.0)
    assert len(x) <= MOST_POINTS + 2
    assert (x[1], x[-2]) == (0.001, 100.0)
    assert (y[1], y[-2]) == (1e-5, 1.0)


@pytest.mark.parametrize("value", [None, math.nan])
def test_an_output_rate_that_was_not_measured_gives_a_reason(value: float | None) -> None:
    figure = bars.throughput("t", "Rate", [("a", value)], COLOURS)
    assert (figure.svg, figure.reason) == (None, "no run has an output rate")


def test_bars_carry_the_mean_of_an_engines_runs() -> None:
    values = [("a", 10.0), ("a", 12.0), ("b", 33.3), ("b", None)]
    svg = assert_drawn(bars.throughput("t", "Rate", values, COLOURS))
    assert ">11.0<" in svg
    assert ">33.3<" in svg


def test_a_rate_of_zero_is_a_bar_of_no_length() -> None:
    assert_drawn(bars.throughput("t", "Rate", [("a", 0.0)], COLOURS))


def test_without_steps_the_slot_figure_gives_a_reason() -> None:
    figure = slots.slots_over_time("s", "Slots", [Slots("a", steps())], COLOURS)
    assert (figure.svg, figure.reason) == (None, "no engine wrote a step log")
    assert bars.time_split("p", "Time", [], COLOURS).svg is None


@pytest.mark.parametrize(
    "rows", [[(0, 0.1, 4, 4, 0)], [(0, 0, 4, 0, 4), (0, 1, 4, 4, 0)], [(1, 0.1, 8, 0, 0)] * 3]
)
def test_one_step_a_step_without_time_and_empty_slots_are_drawn(rows: list[Any]) -> None:
    assert_drawn(slots.slots_over_time("s", "Slots", [Slots("a", steps(*rows))], COLOURS))
    assert_drawn(bars.time_split("p", "Time", [TimeParts("a", 0, 0, 0)], COLOURS))


def test_steps_that_took_no_time_give_a_reason() -> None:
    figure = slots.slots_over_time("s", "Slots", [Slots("a", steps((0, 0, 4, 0, 4)))], COLOURS)
    assert (figure.svg, figure.reason) == (None, "no step took any time")


def test_between_steps_the_slots_are_empty_and_equal_steps_are_one_level() -> None:
    run = Slots("a", steps((0, 1, 4, 4, 0), (1, 1, 4, 4, 0), (3, 1, 4, 2, 2)))
    edges, running, padded = slots._occupancy(run, 4.0)
    assert edges.tolist() == [0, 2, 3, 4]
    assert running.tolist() == [4, 0, 2]
    assert padded.tolist() == [0, 0, 2]


def test_thinned_slots_keep_the_area_under_them() -> None:
    rng = np.random.default_rng(7)
    durations = rng.uniform(0.01, 0.05, 5000)
    starts = np.concatenate([[0], np.cumsum(durations)[:-1]])
    running = rng.integers(0, 9, 5000)
    run = Slots("a", steps(*zip(starts, durations, [8] * 5000, running, 8 - running, strict=True)))
    edges, busy, padded = slots._occupancy(run, float(durations.sum()))
    assert len(edges) == MOST_POINTS + 1
    assert (busy * np.diff(edges)).sum() == pytest.approx((running * durations).sum())
    assert np.allclose(busy + padded, 8)


def test_the_same_figure_is_the_same_text() -> None:
    assert drawn(1, 2, 3).svg == drawn(1, 2, 3).svg


def test_two_figures_share_no_id() -> None:
    sample = [Samples("a", np.array([1.0, 2.0]))]
    both = [ecdf.distribution(name, "TTFT", sample, COLOURS).svg or "" for name in ("x", "y")]
    first, second = (set(re.findall(r' id="([^"]+)"', svg)) for svg in both)
    assert first
    assert not first & second
    for svg, ids in zip(both, (first, second), strict=True):
        used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
        assert used <= ids


def test_a_figure_is_inline_svg_with_a_title_and_a_description() -> None:
    svg = drawn(1, 2).svg or ""
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
    svg = drawn(1, 2, engine=name).svg or ""
    legend = svg.rpartition("legend")[2]
    assert shown in re.sub("\u200b", "", legend)


def test_an_engine_keeps_its_colour_and_eight_of_them_differ() -> None:
    names = [f"engine-{i}" for i in range(8)]
    colours = figures.engine_colours([*names, *names])
    assert len(set(colours.values())) == len(names)
    assert list(colours) == names
    assert colours == figures.engine_colours(names[::-1])


@pytest.mark.parametrize("beside", [["vllm"], ["inhouse-static", "sglang"], []])
def test_an_engine_has_its_colour_whatever_it_is_compared_to(beside: list[str]) -> None:
    alone = figures.engine_colours(["inhouse-continuous"])
    assert figures.engine_colours(["inhouse-continuous", *beside]).items() >= alone.items()


@pytest.mark.parametrize(
    "others",
    [
        ["sglang", "tgi", "tensorrt-llm"],
        ["llama-cpp", "huggingface-static", "openvino", "transformers"],
    ],
)
def test_engines_that_often_meet_never_change_their_colours(others: list[str]) -> None:
    ours = ["inhouse-static", "inhouse-dynamic", "inhouse-continuous", "vllm"]
    together = figures.engine_colours([*ours, *others])
    for name in (*ours, *others):
        assert figures.engine_colours([name])[name] == together[name]


def test_nine_engines_share_eight_colours_and_differ_in_their_dashes() -> None:
    colours = figures.engine_colours([f"engine-{i}" for i in range(9)])
    assert len(set(colours.values())) == 8
    lines = figures.engine_lines(colours)
    assert len({(line["color"], str(line["linestyle"])) for line in lines.values()}) == 9


def said_by(figure: Figure) -> list[str]:
    return [said for series in figure.points for _, _, said in series.points]


def test_the_percentiles_that_are_said_are_those_of_all_requests() -> None:
    values = np.arange(1.0, 1001.0) / 1000
    said = said_by(drawn(*values))
    assert {"p50 500 ms", "p90 900 ms", "p99 990 ms"} <= set(said)
    assert len(said) <= MOST_SPOTS + 3


def test_a_percentile_that_too_few_requests_support_is_not_said() -> None:
    said = said_by(drawn(*[0.1 * i for i in range(1, 21)]))
    assert "p50 1.00 s" in said
    assert not any(text.startswith(("p90", "p99")) for text in said)


def test_a_percentile_that_failed_requests_hold_is_not_said() -> None:
    said = said_by(drawn(*[1.0] * 20, *[math.inf] * 30))
    assert "20 of 50 within 1.00 s" in said
    assert not any(text.startswith("p") for text in said)


def test_a_run_in_which_most_requests_failed_says_that_instead_of_a_median() -> None:
    figure = drawn(1.0, math.inf, math.inf)
    assert ">a: not half have it</desc>" in (figure.svg or "")
    assert "A failed request keeps its curve below the top." in figure.caption


def test_an_axis_that_does_not_begin_at_zero_says_so_and_one_with_zeros_begins_there() -> None:
    assert "logarithmic and does not begin at 0" in drawn(1.0, 2.0).caption
    figure = drawn(0.0, 2.0)
    assert "logarithmic" not in figure.caption
    assert ">0 s<" in assert_drawn(figure)


@pytest.mark.parametrize("values", [(0.37,), (1.0, 1.01), (0.001, 900.0), (3e-6, 4e-6)])
def test_every_logarithmic_axis_has_two_ticks_at_least(values: tuple[float, ...]) -> None:
    svg = assert_drawn(drawn(*values))
    assert len(set(re.findall(r">([\d.]+ (?:µs|ms|s))<", svg))) >= 2


def test_what_is_said_lies_inside_the_drawing_and_runs_of_one_engine_are_one_series() -> None:
    samples = [Samples("a", np.array([1.0, 2.0])), Samples("a", np.array([3.0]))]
    figure = ecdf.distribution("d", "TTFT", samples, figures.engine_colours(["a"]))
    svg = assert_drawn(figure)
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert box is not None
    (series,) = figure.points
    assert "run 2, 1 of 1 within 3.00 s" in said_by(figure)
    for x, y, _ in series.points:
        assert 0 < x < float(box.group(1))
        assert 0 < y < float(box.group(2))
    assert svg.count('<g data-series="a">') == 2


@pytest.mark.parametrize("name", ['"><img onerror="x">', "a #010203 url(#q) 1.2345", "a & b"])
def test_the_name_of_a_series_is_whole_and_is_only_an_attribute(name: str) -> None:
    svg = drawn(1.0, 2.0, engine=name).svg or ""
    assert f'<g data-series="{escape(name)}">' in svg
    assert [series.series for series in drawn(1.0, 2.0, engine=name).points] == [name]


def test_bars_say_their_mean_and_each_run() -> None:
    figure = bars.throughput("t", "Rate", [("a", 10.0), ("a", 12.0), ("b", 5.0)], COLOURS)
    assert said_by(figure) == [
        "mean 11.0 tok/s", "run 1, 10.0 tok/s", "run 2, 12.0 tok/s", "5.00 tok/s",
    ]  # fmt: skip


def test_slots_say_what_they_did_and_how_much_of_it_was_padding() -> None:
    run = Slots("a", steps((0, 1, 4, 4, 0), (1, 1, 4, 1, 3)))
    figure = slots.slots_over_time("s", "Slots", [run], COLOURS)
    assert said_by(figure) == [
        "0 to 1.00 s: 4.00 running, 0 padding",
        "1.00 to 2.00 s: 1.00 running, 3.00 padding",
    ]
    assert "a: 62.5 % running, 37.5 % padding" in assert_drawn(figure)
