from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.analyzer.frame import frame_of
from harness.analyzer.summarize import summarize
from harness.core.engine import EngineSample
from harness.core.units import ms_to_ns
from reports.figures import Figure, engine_colours
from reports.page import ReportedRun, render_report
from reports.server_timeline import Sides, server_timeline, sides_of
from reports.svg import MOST_POINTS

COLOURS = engine_colours(["a", "b"])


def at(ms: float, **values: Any) -> EngineSample:
    return EngineSample(ms_to_ns(ms), **values)


def sides(build: Any, *samples: EngineSample, engine: str = "a") -> Sides:
    """Three requests at once, that end after 1, 2 and 3 s."""
    records = [build.record(i, (100, 1000 * (i + 1))) for i in range(3)]
    return sides_of(engine, frame_of(replace(build.run(records), samples=samples)))


def drawn(*runs: Sides) -> Figure:
    return server_timeline("server", "In flight", runs, COLOURS)


def assert_drawn(figure: Figure) -> str:
    assert figure.svg is not None, figure.reason
    paths = " ".join(re.findall(r' d="([^"]*)"', figure.svg))
    numbers = re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", paths)
    assert numbers
    assert all(math.isfinite(float(number)) for number in numbers)
    assert "nan" not in paths
    return figure.svg


EVERY_HALF_SECOND = [
    at(ms, running=2.0, waiting=1.0, kv_share=0.25) for ms in range(500, 3000, 500)
]


def test_the_client_counts_what_it_has_sent_and_not_seen_end(build: Any) -> None:
    run = sides(build)
    assert run.at_s[[0, -1]].tolist() == [0.0, 3.0]
    for instant_s, expected in ((0.5, 3), (1.5, 2), (2.5, 1), (3.0, 0)):
        assert run.in_flight[np.searchsorted(run.at_s, instant_s)] == expected


def test_readings_from_before_the_run_are_not_on_its_time_line(build: Any) -> None:
    run = sides(build, at(-20, running=9.0), at(500, running=1.0))
    assert run.gauges["running"].tolist() == [1.0]


def test_both_sides_and_the_cache_are_drawn_and_said_aloud(build: Any) -> None:
    figure = drawn(sides(build, *EVERY_HALF_SECOND))
    svg = assert_drawn(figure)
    assert figure.is_wide
    assert ">KV use<" in svg
    assert ">peak 25.0 %<" in svg
    assert (
        "a: at most 3 in flight by the client, at most 3 by the engine, KV use up to 25.0 %" in svg
    )
    assert "No readings" not in figure.caption


def test_an_engine_that_says_nothing_of_its_cache_gets_no_row_for_it(build: Any) -> None:
    svg = assert_drawn(drawn(sides(build, at(500, running=2.0))))
    assert "KV use" not in svg


def test_a_reading_that_failed_is_a_gap_not_a_zero(build: Any) -> None:
    whole = drawn(sides(build, *EVERY_HALF_SECOND))
    with_gap = [*EVERY_HALF_SECOND[:2], at(1500), *EVERY_HALF_SECOND[3:]]
    gap = drawn(sides(build, *with_gap))
    assert assert_drawn(gap) != assert_drawn(whole)


def test_an_engine_without_readings_is_named_and_its_client_is_drawn(build: Any) -> None:
    silent = sides(build, at(500), engine="b")
    figure = drawn(sides(build, *EVERY_HALF_SECOND), silent)
    assert figure.caption.endswith("No readings of: b.")
    alone = drawn(silent)
    assert alone.caption == (
        "Line: requests in flight as the client counts them. No readings of: b."
    )
    assert "b: at most 3 in flight by the client<" in assert_drawn(alone)


def test_both_sides_tell_their_values(build: Any) -> None:
    figure = drawn(sides(build, *EVERY_HALF_SECOND))
    said = {text for series in figure.points for _, _, text in series.points}
    assert "0 s: 3 in flight" in said
    assert "500 ms: 2.00 running, 1.00 waiting by the engine" in said
    assert "500 ms: 25.0 % of the KV cache" in said


def test_runs_without_a_request_give_a_reason(build: Any) -> None:
    figure = drawn(sides_of("a", frame_of(build.run([]))))
    assert (figure.svg, figure.reason) == (None, "no request was in flight in any run")


def test_the_same_runs_give_the_same_drawing(build: Any) -> None:
    run = sides(build, *EVERY_HALF_SECOND)
    assert drawn(run).svg == drawn(run).svg


@pytest.mark.parametrize("count", [MOST_POINTS, 10 * MOST_POINTS])
def test_a_long_run_is_thinned_to_what_can_be_told_apart(build: Any, count: int) -> None:
    samples = [at(3000 * i / count, running=float(i % 2)) for i in range(count)]
    run = sides(build, *samples)
    assert len(run.gauges) == MOST_POINTS
    assert run.gauges["running"].mean() == pytest.approx(0.5)
    assert_drawn(drawn(run))


def test_a_run_whose_requests_all_failed_at_once_gives_a_reason(build: Any) -> None:
    folder = build.run([build.failed(0)])
    run = sides_of("a", frame_of(replace(folder, samples=(at(0, running=0.0),))))
    assert drawn(run).reason == "no request was in flight in any run"


def test_the_page_shows_the_figure_with_and_without_readings(build: Any) -> None:
    def page(*samples: EngineSample) -> str:
        folder = replace(build.run([build.record(0, (100, 3000))]), samples=samples)
        return render_report([ReportedRun(folder, summarize(folder))], [])

    assert 'id="server-title"' in page(*EVERY_HALF_SECOND)
    assert "No readings of: inhouse-static." in page()
