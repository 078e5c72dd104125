"""The figures of a search for capacity: which share of the requests kept to each objective."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from harness.core.load_points import Axis, name_of
from harness.gate import formatting
from harness.gate.capacity import Answer
from harness.gate.finding import Finding
from harness.gate.probing import Capacity, ProbeResult
from reports.figures import Figure, engine_colours
from reports.svg import FAINT, MUTED, SURFACE, Frame, Picture, Spots

# Loads stand on a logarithmic axis when its ends are further apart than this.
LOG_FROM = 8.0
_LOG_STEPS = (1.0, 2.0, 5.0)
_MARKS = {Answer.MET: "o", Answer.NOT_MET: "X", Answer.UNRESOLVED: "D"}


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
    said = [
        f"{name_of(found.axis, p.level)}: {formatting.share(_met(p, place))}, {p.answer.value}"
        for p in found.probes
    ]

    is_log = max(levels) / min(levels) > LOG_FROM
    if is_log:
        caption += " The axis of loads is logarithmic."

    def paint(rows: list[Axes]) -> list[Spots]:
        (axes,) = rows
        for probe in found.probes:
            _paint_share(axes, probe, probe.findings[place], colour)
        axes.axhline(found.probes[0].findings[place].needed, color=MUTED, linewidth=1.0, zorder=1)
        if is_log:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=_LOG_STEPS))
            axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set(ylim=(-0.03, 1.03), ylabel="requests", xlabel=_axis_title(found.axis))
        axes.grid(visible=True, color=FAINT, linewidth=0.6)
        points = [
            (probe.level, _met(probe, place), text)
            for probe, text in zip(found.probes, said, strict=True)
        ]
        return [Spots(axes, found.engine, points)]

    frame = Frame(f"share-{place + 1}", title, "; ".join(said), 10.4, 3.4)
    return Figure(title, caption, Picture(frame, paint), is_wide=True)


def _met(probe: ProbeResult, place: int) -> float:
    finding = probe.findings[place]
    return finding.met / finding.due


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
