"""Latency against throughput, of a sweep or of any runs: what more load gives, and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from harness.analyzer.metrics import find_metric
from harness.analyzer.summary import Summary
from harness.core.load_points import Axis, name_of
from harness.gate import formatting
from harness.gate.attempt import Attempt
from harness.gate.sweep import (
    LATENCIES,
    THROUGHPUT,
    Sweep,
    SweepPoint,
    point_of,
    tails_of,
    with_choices,
)
from reports.figures import Figure, engine_colours
from reports.labels import Labels
from reports.scales import LOG_NOTE, log_ends, show_seconds
from reports.svg import (
    FAINT,
    SURFACE,
    Frame,
    Picture,
    Spots,
    axis_end,
    in_series,
    label,
    legend_below,
)

# An axis of latencies is logarithmic when its ends are further apart than this: what a low load
# costs would lie on the axis otherwise.
LOG_FROM = 8.0
_MOST_LABELS = 16
_MOST_COLUMNS = 3
_DASHES = ("solid", (0, (5, 1.5)))
_TITLES = {"ttft_s": "Time to first token", "tpot_s": "Time per output token"}


@dataclass(frozen=True, slots=True)
class _Chart:
    """What is drawn: points, what their load is called, and the percentiles of one latency.

    `is_course`: the points of an engine are one course of rising load, joined by a line.
    """

    latency: str
    metrics: tuple[str, ...]
    points: tuple[SweepPoint, ...]
    name_of: Callable[[SweepPoint], str]
    caption: str
    is_course: bool = True

    @property
    def has_labels(self) -> bool:
        """Whether each point has its load beside it: few enough, and not the same for all."""
        loads = [self.name_of(point) for point in self.points]
        is_telling = self.is_course or len(set(loads)) > 1
        return is_telling and len(loads) <= _MOST_LABELS * len(self.engines)

    @property
    def engines(self) -> tuple[str, ...]:
        """Their names, each once."""
        return tuple(dict.fromkeys(point.engine for point in self.points))


@dataclass(frozen=True, slots=True)
class _Line:
    """One percentile of one engine: its points with both values, by load."""

    engine: str
    title: str
    colour: str
    is_tail: bool
    points: tuple[tuple[float, float, SweepPoint], ...]


def curves(sweep: Sweep) -> list[Figure]:
    """Latency against throughput, one figure for each latency."""

    def name(point: SweepPoint) -> str:
        return f"{point.level:g}" + ("/s" if sweep.axis is Axis.RATE else "")

    caption = f"Each point is a load, from {_ends(sweep)}"
    return [
        _figure(_Chart(latency, (f"{latency}_p50", tail), sweep.points, name, caption))
        for latency, tail in zip(LATENCIES, sweep.tails, strict=True)
    ]


def curves_of_runs(summaries: Sequence[Summary]) -> list[Figure]:
    """The same of any runs, a point a run; those that do not count are named, and not drawn."""
    attempts = [Attempt(s.manifest.run_id, summary=s) for s in summaries]
    engines = [summary.manifest.engine.name for summary in summaries]
    made = [
        point_of(e, float(i), 0, a) for i, (e, a) in enumerate(zip(engines, attempts, strict=True))
    ]
    tails = tails_of(made)
    points = with_choices(made, tails)

    def name(point: SweepPoint) -> str:
        return str(summaries[int(point.level)].manifest.workload.load)

    caption = "Each point is a run"
    left_out = [f"{a.run} is {a.outcome.outcome}" for a in attempts if a.counted is None]
    if left_out:
        caption += f" ({', '.join(left_out)}, and not shown)"
    return [
        _figure(_Chart(latency, (tail,), points, name, caption, is_course=False))
        for latency, tail in zip(LATENCIES, tails, strict=True)
    ]


def _figure(chart: _Chart) -> Figure:
    title = f"{_TITLES[chart.latency]} against throughput"
    lines = list(_lines(chart))
    values = [latency_s for line in lines for _, latency_s, _ in line.points]
    caption = (
        f"{chart.caption}; further right and lower is better. Full: no other point beats it in "
        "throughput and both latencies. Hollow: one does. Cross: saturated."
    )
    if not values:
        return Figure(title, caption, None, "no point has both values", is_wide=True)
    ends_s = log_ends(values)
    if ends_s is not None and max(values) / min(values) <= LOG_FROM:
        ends_s = None
    if ends_s is not None:
        caption += f" {LOG_NOTE}"

    def paint(rows: list[Axes]) -> list[Spots]:
        (axes,) = rows
        show_seconds(axes, "y", max(values), ends_s)
        most = max(rate for line in lines for rate, _, _ in line.points)
        axes.set_xlim(0, axis_end(most) * 1.05)
        latency = chart.latency.removesuffix("_s").upper()
        axes.set(xlabel="output tok/s", ylabel=latency if chart.is_course else lines[0].title)
        axes.grid(visible=True, which="major", color=FAINT, linewidth=0.6)
        labels = Labels(axes, tuple((r, t) for line in lines for r, t, _ in line.points))
        spots = [_paint_line(axes, line, chart, labels) for line in lines]
        legend_below(axes, min(len(chart.engines), _MOST_COLUMNS))
        return spots

    name = f"curve-{chart.latency.removesuffix('_s')}"
    frame = Frame(name, title, "; ".join(map(_spoken, lines)), 10.4, 4.2)
    return Figure(title, caption, Picture(frame, paint), is_wide=True)


def _ends(sweep: Sweep) -> str:
    levels = [point.level for point in sweep.points]
    return f"{min(levels):g} to {name_of(sweep.axis, max(levels))}"


def _lines(chart: _Chart) -> Iterator[_Line]:
    colours = engine_colours(chart.engines)
    metrics = tuple(dict.fromkeys(chart.metrics))
    for engine in chart.engines:
        for metric in metrics:
            of_engine = (point for point in chart.points if point.engine == engine)
            pairs = ((p.value(THROUGHPUT), p.value(metric), p) for p in of_engine)
            known = tuple((r, t, p) for r, t, p in pairs if r is not None and t is not None)
            if known:
                title = find_metric(metric).title
                yield _Line(engine, title, colours[engine], metric == metrics[-1], known)


def _paint_line(axes: Axes, line: _Line, chart: _Chart, labels: Labels) -> Spots:
    rates = [rate for rate, _, _ in line.points]
    latencies = [latency_s for _, latency_s, _ in line.points]
    looks: dict[str, Any] = {"color": line.colour, "linewidth": 1.4}
    looks["linestyle"] = _DASHES[0 if line.is_tail else 1] if chart.is_course else "none"
    in_series(line.engine, *axes.plot(rates, latencies, zorder=2, **looks))
    points = []
    for rate, latency_s, point in line.points:
        _paint_point(axes, line, (rate, latency_s), point)
        load = chart.name_of(point)
        if line.is_tail and chart.has_labels:
            in_series(line.engine, labels.place(label(load), (rate, latency_s)))
        said = f"{load}: {formatting.significant(rate)} tok/s, {line.title} "
        points.append((rate, latency_s, said + formatting.seconds(latency_s)))
    title = label(line.engine) + (f", {line.title}" if chart.is_course else "")
    axes.plot([], [], "o", label=title, **looks)
    return Spots(axes, line.engine, points)


def _paint_point(axes: Axes, line: _Line, at: tuple[float, float], point: SweepPoint) -> None:
    mark = "X" if point.is_saturated else "o"
    face = line.colour if point.is_choice or point.is_saturated else SURFACE
    looks: dict[str, Any] = {"color": line.colour, "markerfacecolor": face}
    in_series(line.engine, *axes.plot(*at, mark, markersize=6, zorder=3, **looks))


def _spoken(line: _Line) -> str:
    said = (
        f"{formatting.significant(rate)} tok/s at {formatting.seconds(latency_s)}"
        for rate, latency_s, _ in line.points
    )
    return f"{line.engine}, {line.title}: {', '.join(said)}"
