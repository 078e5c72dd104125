"""The pages of a sweep and of a search for capacity, and their figures."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.summary import MetricValue, Validity
from harness.commands.plot import plot
from harness.commands.sweep import SWEEP
from harness.core.engine import EngineSpec
from harness.core.load_points import Axis
from harness.core.plot_flags import PlotFlags
from harness.core.rundir import write_json
from harness.gate.attempt import RunOutcome
from harness.gate.capacity import Answer, Search, Tried, bracket
from harness.gate.finding import Finding
from harness.gate.probing import METRICS as PROBE_METRICS
from harness.gate.probing import Capacity, ProbeResult
from harness.gate.sweep import METRICS, Sweep, SweepPoint, tails_of, with_choices
from reports.capacity_page import render_capacity
from reports.curve import curves, curves_of_runs
from reports.shares import shares
from reports.sweep_page import render_sweep

HOSTILE = '<b>x</b>"&{{y}}'


class Outline(HTMLParser):
    """Which ids there are, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def point(level: float, rate: float | None, ttft_s: float, engine: str = "inhouse") -> SweepPoint:
    values = {} if rate is None else {"output_tok_s": rate, "goodput_frac": 1.0}
    if rate is not None:
        for name, seconds in (("ttft_s", ttft_s), ("tpot_s", 0.01)):
            values |= {
                f"{name}_p50": seconds,
                f"{name}_p90": 2 * seconds,
                f"{name}_p99": 3 * seconds,
            }
    return SweepPoint(
        engine=engine,
        level=level,
        seed=1,
        run=RunOutcome(f"{engine}-rate-{level:g}", "VALID" if rate else "FAILED"),
        is_saturated=False,
        values=tuple(
            MetricValue(m, values.get(m), None if m in values else "why") for m in METRICS
        ),
    )


def sweep(*points: SweepPoint) -> Sweep:
    tails = tails_of(points)
    return Sweep(
        axis=Axis.RATE,
        context="SmolLM2 bf16, 2-core <AMD>, eight-agents",
        engines=tuple(dict.fromkeys(one.engine for one in points)),
        tails=tails,
        points=with_choices(points, tails),
        command=("batchmark", "sweep", "eight-agents", "--seed", "7"),
        tool_version="1",
        created_utc="now",
        cautions=(),
    )


STEEP = (point(1, 10, 0.1), point(2, 20, 0.2), point(4, 30, 4.0))
FLAT = (point(1, 10, 0.1), point(2, 20, 0.2), point(4, 30, 0.21))


def test_the_page_shows_both_latencies_and_the_choices(build: Any) -> None:
    text = render_sweep(sweep(*STEEP), [build.manifest()])
    outline = Outline(text)

    assert outline.open == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert "Time to first token against throughput" in text
    assert "Time per output token against throughput" in text
    assert "30.0 tok/s" in text
    assert "2-core &lt;AMD&gt;" in text
    assert "--seed 7" in text


def test_the_same_sweep_gives_the_same_page(build: Any) -> None:
    made = sweep(*STEEP)

    assert render_sweep(made, [build.manifest()]) == render_sweep(made, [build.manifest()])


def test_a_steep_latency_stands_on_a_logarithmic_axis_and_a_flat_one_does_not() -> None:
    steep, flat = (curves(sweep(*points))[0].svg or "" for points in (STEEP, FLAT))

    ticks = re.findall(r">([\d.]+ m?s)<", steep)
    assert {"100 ms", "200 ms", "500 ms", "1.00 s", "2.00 s", "5.00 s", "10.0 s"} <= set(ticks)
    assert ">0 s<" in flat
    assert ">0 s<" not in steep


def test_every_point_of_the_tail_has_its_load_beside_it() -> None:
    svg = curves(sweep(*STEEP))[0].svg or ""

    assert [svg.count(f">{level}/s<") for level in (1, 2, 4)] == [1, 1, 1]


def test_a_point_without_a_value_is_left_out() -> None:
    svg = curves(sweep(*STEEP, point(8, None, 0)))[0].svg or ""

    assert ">8/s<" not in svg


def test_a_curve_without_a_point_says_why() -> None:
    (ttft, _) = curves(sweep(point(1, None, 0), point(2, None, 0)))

    assert (ttft.svg, ttft.reason) == (None, "no point has both values")


def test_what_is_read_aloud_has_the_numbers() -> None:
    svg = curves(sweep(*STEEP))[0].svg or ""

    assert "inhouse, TTFT p99: 10.0 tok/s at 300 ms, 20.0 tok/s at 600 ms" in svg


@pytest.mark.parametrize("name", [HOSTILE, "$x_1$", "_hidden"])
def test_names_are_text_wherever_they_stand(build: Any, name: str) -> None:
    made = sweep(*(replace(p, engine=name) for p in STEEP))
    text = render_sweep(made, [build.manifest()])

    assert Outline(text).open == []
    assert "<b>x" not in text


def test_several_engines_have_a_colour_each() -> None:
    theirs = (
        point(level, rate, ttft, "theirs") for level, rate, ttft in ((1, 8, 0.2), (2, 15, 0.4))
    )
    svg = curves(sweep(*STEEP, *theirs))[0].svg or ""

    assert "theirs, TTFT p99" in svg
    assert len(set(re.findall(r"stroke: (#[0-9a-f]{6})", svg))) >= 2


def probe(level: float, met: int, answer: Answer) -> ProbeResult:
    finding = Finding("ttft_p90=500ms", 0.9, met, 200, met / 200 - 0.05, met / 200, 1.0, 0.4)
    values = tuple(MetricValue(name, None, "why") for name in PROBE_METRICS)
    return ProbeResult(f"01-rate-{level:g}", level, 0, 7, "VALID", answer, "", (finding,), values)


def capacity(*probes: ProbeResult) -> Capacity:
    search = Search(1)
    return Capacity(
        axis=Axis.RATE,
        engine="inhouse",
        context="SmolLM2 bf16, 2-core <AMD>, eight-agents",
        objectives=("ttft_p90=500ms",),
        search=search,
        bracket=bracket([Tried(p.level, p.answer) for p in probes], search),
        ended="",
        probes=probes,
        command=("batchmark", "capacity", "eight-agents", "--seed", "7"),
        tool_version="1",
        created_utc="now",
        cautions=(),
    )


PROBES = (
    probe(1, 200, Answer.MET),
    probe(16, 20, Answer.NOT_MET),
    probe(4, 180, Answer.UNRESOLVED),
)


def test_the_page_of_a_search_says_the_bracket_and_shows_each_probe(build: Any) -> None:
    text = render_capacity(capacity(*PROBES), [build.manifest()])
    outline = Outline(text)

    assert outline.open == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert "1 req/s met, 4 req/s unresolved, 16 req/s did not" in text
    assert "4 req/s: 90.0 %, unresolved" in text


def test_a_search_that_tried_nothing_is_still_a_page(build: Any) -> None:
    assert "no load was tried" in render_capacity(capacity(), [])


def test_loads_far_apart_stand_on_a_logarithmic_axis() -> None:
    far, near = (shares(capacity(*probes))[0].svg or "" for probes in (PROBES, PROBES[:1]))

    assert ">2<" in far
    assert ">5<" in far
    assert near


def test_the_points_of_a_curve_tell_their_load_and_both_values() -> None:
    (series,) = curves(sweep(*STEEP))[0].points
    said = [text for _, _, text in series.points]

    assert series.series == "inhouse"
    assert "1/s: 10.0 tok/s, TTFT p50 100 ms" in said
    assert "4/s: 30.0 tok/s, TTFT p99 12.0 s" in said


def test_a_curve_says_when_its_axis_does_not_begin_at_zero() -> None:
    steep, flat = (curves(sweep(*points))[0].caption for points in (STEEP, FLAT))

    assert "logarithmic" in steep
    assert "logarithmic" not in flat


def test_runs_without_a_sweep_are_points_of_their_engines(build: Any) -> None:
    runs = [
        build.summary(
            [build.record(i, (speed * 100, speed * 110)) for i in range(8)],
            engine=EngineSpec("inhouse", name, "m"),
            run_id=name,
        )
        for speed, name in ((1, "fast"), (2, "slow"))
    ]
    broken = replace(runs[1], validity=Validity.INVALID)
    ttft, tpot = curves_of_runs([*runs, broken])

    assert [series.series for series in ttft.points] == ["fast", "slow"]
    assert ttft.points[0].points[0][2] == "backlog: 145 tok/s, TTFT p50 100 ms"
    assert "slow is INVALID, and not shown" in ttft.caption
    assert ">backlog<" not in (ttft.svg or ""), "one load for all is no news of any"
    assert tpot.svg is not None


def test_the_shares_of_a_search_tell_their_values() -> None:
    (series,) = shares(capacity(*PROBES))[0].points

    assert [text for _, _, text in series.points] == [
        "1 req/s: 100.0 %, met",
        "16 req/s: 10.0 %, not met",
        "4 req/s: 90.0 %, unresolved",
    ]


def test_a_sweep_that_was_kept_is_drawn_into_a_file(tmp_path: Path) -> None:
    write_json(tmp_path / SWEEP, sweep(*STEEP))
    plot(PlotFlags((tmp_path,), "pareto", metric="tpot", out=tmp_path / "curve.svg"))

    text = (tmp_path / "curve.svg").read_text()
    assert "Time per output token against throughput" in text
    assert "inhouse at 1 to 4 req/s" in text
