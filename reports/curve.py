"""The figures of a sweep and of a search for capacity: what more load gives, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from harness.analyzer.metrics import find_metric
from harness.core.load_points import Axis, name_of
from harness.gate import formatting
from harness.gate.capacity import Answer
from harness.gate.finding import Finding
from harness.gate.probing import Capacity, ProbeResult
from harness.gate.sweep import LATENCIES, THROUGHPUT, Sweep, SweepPoint
from reports.figures import Figure, engine_colours
from reports.svg import FAINT, INK, MUTED, SURFACE, Frame, axis_end, draw, label

# An axis of latencies is logarithmic when its ends are further apart than this: what a low load
# costs would lie on the axis otherwise.
LOG_FROM = 8.0
_LOG_STEPS = (1.0, 2.0, 5.0)
_MOST_LABELS = 16
_DASHES = ("solid", (0, (5, 1.5)))
_TITLES = {"ttft_s": "Time to first token", "tpot_s": "Time per output token"}
_MARKS = {Answer.MET: "o", Answer.NOT_MET: "X", Answer.UNRESOLVED: "D"}


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
    return [
        _curve(sweep, latency, tail) for latency, tail in zip(LATENCIES, sweep.tails, strict=True)
    ]


def _curve(sweep: Sweep, latency: str, tail: str) -> Figure:
    title = f"{_TITLES[latency]} against throughput"
    lines = list(_lines(sweep, tuple(dict.fromkeys((f"{latency}_p50", tail)))))
    values = [latency_s for line in lines for _, latency_s, _ in line.points]
    caption = (
        f"Each point is a load, from {_ends(sweep)}; further right and lower is better. "
        "Full: a choice. Hollow: another point is better. Cross: saturated."
    )
    if not values:
        return Figure(title, caption, None, "no point has both values", is_wide=True)
    is_log = min(values) > 0 and max(values) / min(values) > LOG_FROM

    def paint(rows: list[Axes]) -> None:
        (axes,) = rows
        for line in lines:
            _paint_line(axes, line, sweep.axis)
        _latency_axis(axes, max(values), is_log=is_log)
        most = max(rate for line in lines for rate, _, _ in line.points)
        axes.set_xlim(0, axis_end(most) * 1.05)
        axes.set(xlabel="output tok/s", ylabel=latency.removesuffix("_s").upper())
        _legend_below(axes)

    name = f"curve-{latency.removesuffix('_s')}"
    frame = Frame(name, title, "; ".join(map(_spoken, lines)), 10.4, 4.2)
    return Figure(title, caption, draw(frame, paint), is_wide=True)


def _ends(sweep: Sweep) -> str:
    levels = [point.level for point in sweep.points]
    return f"{min(levels):g} to {name_of(sweep.axis, max(levels))}"


def _lines(sweep: Sweep, metrics: Sequence[str]) -> list[_Line]:
    colours = engine_colours(sweep.engines)
    found = []
    for engine in sweep.engines:
        for i, metric in enumerate(metrics):
            pairs = ((p.value(THROUGHPUT), p.value(metric), p) for p in sweep.of_engine(engine))
            known = tuple((r, t, p) for r, t, p in pairs if r is not None and t is not None)
            if known:
                title = find_metric(metric).title
                found.append(_Line(engine, title, colours[engine], i == len(metrics) - 1, known))
    return found


def _paint_line(axes: Axes, line: _Line, axis: Axis) -> None:
    rates = [rate for rate, _, _ in line.points]
    latencies = [latency_s for _, latency_s, _ in line.points]
    dash = _DASHES[0] if line.is_tail else _DASHES[1]
    axes.plot(rates, latencies, color=line.colour, linestyle=dash, linewidth=1.4, zorder=2)
    for rate, latency_s, point in line.points:
        mark = "X" if point.is_saturated else "o"
        face = line.colour if point.is_choice or point.is_saturated else SURFACE
        looks: dict[str, Any] = {"color": line.colour, "markerfacecolor": face}
        axes.plot([rate], [latency_s], mark, markersize=6, zorder=3, **looks)
        if line.is_tail and len(line.points) <= _MOST_LABELS:
            axes.annotate(
                f"{point.level:g}" + ("/s" if axis is Axis.RATE else ""),
                (rate, latency_s),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
                fontsize=7.5,
                color=MUTED,
            )
    title = label(f"{line.engine}, {line.title}")
    axes.plot([], [], "o", linestyle=dash, color=line.colour, label=title, linewidth=1.4)


def _latency_axis(axes: Axes, top_s: float, *, is_log: bool) -> None:
    if is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=_LOG_STEPS))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.margins(y=0.12)
    else:
        axes.set_ylim(0, axis_end(top_s) * 1.1)
    axes.yaxis.set_major_formatter(lambda value, _: formatting.seconds(value))
    axes.grid(visible=True, which="major", color=FAINT, linewidth=0.6)


def _legend_below(axes: Axes) -> None:
    drawing = axes.get_figure(root=True)
    if drawing is not None:
        drawing.legend(
            loc="outside lower center", ncols=3, frameon=False, labelcolor=INK, handlelength=2.8
        )


def _spoken(line: _Line) -> str:
    said = (
        f"{formatting.significant(rate)} tok/s at {formatting.seconds(latency_s)}"
        for rate, latency_s, _ in line.points
    )
    return f"{line.engine}, {line.title}: {', '.join(said)}"


def shares(found: Capacity) -> list[Figure]:
    """Which share of the requests kept to each objective, against the load; a figure for each."""
    return [_share(found, i, title) for i, title in enumerate(found.objectives)]


def _share(found: Capacity, place: int, title: str) -> Figure:
    caption = (
        "Share of the requests due that kept to it, with its 95 % interval; the line is the share "
        "needed. Circle: the load met everything. Cross: it did not. Diamond: unresolved."
    )
    if not found.probes:
        return Figure(title, caption, None, "no load was tried", is_wide=True)
    levels = [probe.level for probe in found.probes]
    colour = engine_colours([found.engine])[found.engine]

    def paint(rows: list[Axes]) -> None:
        (axes,) = rows
        for probe in found.probes:
            _paint_share(axes, probe, probe.findings[place], colour)
        axes.axhline(found.probes[0].findings[place].needed, color=MUTED, linewidth=1.0, zorder=1)
        if max(levels) / min(levels) > LOG_FROM:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=_LOG_STEPS))
            axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set(ylim=(-0.03, 1.03), ylabel="requests", xlabel=_axis_title(found.axis))
        axes.grid(visible=True, color=FAINT, linewidth=0.6)

    spoken = "; ".join(
        f"{name_of(found.axis, p.level)}: "
        f"{formatting.share(p.findings[place].met / p.findings[place].due)}, {p.answer.value}"
        for p in found.probes
    )
    frame = Frame(f"share-{place + 1}", title, spoken, 10.4, 3.4)
    return Figure(title, caption, draw(frame, paint), is_wide=True)


def _paint_share(axes: Axes, probe: ProbeResult, finding: Finding, colour: str) -> None:
    axes.plot([probe.level] * 2, [finding.lo, finding.hi], color=colour, linewidth=1.4, zorder=2)
    face = SURFACE if probe.answer is Answer.UNRESOLVED else colour
    axes.plot(
        [probe.level],
        [finding.met / finding.due],
        _MARKS[probe.answer],
        color=colour,
        markerfacecolor=face,
        markersize=6,
        zorder=3,
    )


def _axis_title(axis: Axis) -> str:
    return "requests a second" if axis is Axis.RATE else "requests in flight"
