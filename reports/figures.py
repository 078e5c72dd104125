"""The figures of a report, each as one inline SVG, or the reason why it cannot be drawn.

Nothing is measured here: all requests and steps are read, and thinned only for drawing. Text in a
figure takes its colour from the page, so that light and dark need one drawing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from harness.gate import formatting
from reports.svg import FAINT, INK, MUTED, SURFACE, Frame, draw, label

Floats = npt.NDArray[np.float64]

MOST_POINTS = 600
_COLOURS = (
    0,
    1,
    2,
    3,
    4,
    9,
    5,
    7,
)  # seaborn's, without those hard to see on white or black
_DASHES = ("solid", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the page: `svg`, or None with the `reason` that is printed in its place."""

    title: str
    caption: str
    svg: str | None
    reason: str = ""
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Samples:
    """One value per request that was sent, in seconds; `inf` for a request that failed."""

    engine: str
    values_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """The steps of the measured part of a run, with the columns that a RunFrame's steps have."""

    engine: str
    steps: pd.DataFrame


@dataclass(frozen=True, slots=True)
class TimeParts:
    """Where the time inside an engine's steps went, in seconds."""

    engine: str
    prefill_s: float
    decode_s: float
    other_s: float


def engine_colours(engines: Sequence[str]) -> dict[str, str]:
    """A colour for each engine, the same in every figure; they repeat after eight engines."""
    palette = [sns.color_palette("colorblind").as_hex()[i] for i in _COLOURS]
    return {name: palette[i % len(palette)] for i, name in enumerate(dict.fromkeys(engines))}


def distribution(
    name: str, title: str, samples: Sequence[Samples], colours: Mapping[str, str]
) -> Figure:
    """Which share of requests took at most so long, a curve a run. A failed one never arrives."""
    caption = "Share of the requests sent that took at most so long. Further left is better."
    if len(samples) > len({sample.engine for sample in samples}):
        caption += " One curve a run."
    curves = [(s, _without_nan(s.values_s)) for s in samples]
    tops = [float(v[np.isfinite(v)].max()) for _, v in curves if np.isfinite(v).any()]
    if not tops:
        return Figure(title, caption, None, "no request of any run has this time")
    end_s = _above(max(tops))
    dashes = {engine: _DASHES[i % len(_DASHES)] for i, engine in enumerate(colours)}

    def paint(rows: list[Axes]) -> None:
        (axes,) = rows
        for sample, values in curves:
            if values.size:
                axes.step(
                    *_curve(values, end_s),
                    where="post",
                    color=colours[sample.engine],
                    linestyle=dashes[sample.engine],
                    linewidth=1.6,
                )
        axes.set(xlim=(0, end_s), ylim=(0, 1.02), xlabel="seconds", ylabel="requests")
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axes.grid(visible=True, color=FAINT, linewidth=0.6)
        for engine in dict.fromkeys(sample.engine for sample in samples):
            axes.plot([], [], color=colours[engine], linestyle=dashes[engine], label=label(engine))
        axes.legend(loc="lower right", frameon=False, labelcolor=INK, handlelength=2.4)

    return Figure(title, caption, draw(Frame(name, title, _medians(curves), 5.2, 3.1), paint))


def throughput(
    name: str, title: str, values: Sequence[tuple[str, float | None]], colours: Mapping[str, str]
) -> Figure:
    """Bars from 0, one an engine: the mean of its runs, and a dot for each run when it has several.

    `values` are (engine, output tokens a second), one a run.
    """
    caption = "Output tokens a second over the measured part. Longer is better."
    runs: dict[str, list[float]] = {}
    for engine, value in values:
        if value is not None and math.isfinite(value):
            runs.setdefault(engine, []).append(value)
    if not runs:
        return Figure(title, caption, None, "no run has an output rate")
    if any(len(of_engine) > 1 for of_engine in runs.values()):
        caption += " Bar: mean of the engine's runs. Dots: each run."
    means = {engine: float(np.mean(of_engine)) for engine, of_engine in runs.items()}

    def paint(rows: list[Axes]) -> None:
        (axes,) = rows
        for row, (engine, of_engine) in enumerate(runs.items()):
            axes.barh(row, means[engine], height=0.6, color=colours[engine], zorder=2)
            if len(of_engine) > 1:
                axes.plot(of_engine, [row] * len(of_engine), "o", color=INK, markersize=3, zorder=3)
            _value_label(axes, formatting.significant(means[engine]), max(of_engine), row)
        _engine_rows(axes, list(runs))
        axes.set_xlim(0, _above(max(map(max, runs.values()))) * 1.14)
        axes.set_xlabel("output tok/s")

    spoken = "; ".join(f"{e}: {formatting.significant(m)} tok/s" for e, m in means.items())
    frame = Frame(name, title, spoken, 5.2, 0.75 + 0.42 * len(runs))
    return Figure(title, caption, draw(frame, paint))


def time_split(
    name: str, title: str, parts: Sequence[TimeParts], colours: Mapping[str, str]
) -> Figure:
    """Bars from 0, one an engine: the time inside its steps as prefill, decode and the rest."""
    caption = (
        "Seconds inside the engine's steps. Dark: reading prompts. Middle: decoding. Pale: other."
    )
    if not parts:
        return Figure(title, caption, None, "no engine wrote a step log")

    def paint(rows: list[Axes]) -> None:
        (axes,) = rows
        for row, part in enumerate(parts):
            end_s = part.prefill_s + part.decode_s + part.other_s
            axes.barh(row, end_s, height=0.6, color=SURFACE)  # the grid must not shine through
            start_s = 0.0
            for part_s, alpha in ((part.prefill_s, 1), (part.decode_s, 0.6), (part.other_s, 0.25)):
                colour = colours[part.engine]
                axes.barh(row, part_s, left=start_s, height=0.6, color=colour, alpha=alpha)
                start_s += part_s
            _value_label(axes, formatting.significant(end_s), end_s, row)
        _engine_rows(axes, [part.engine for part in parts])
        axes.set_xlim(0, _above(max(p.prefill_s + p.decode_s + p.other_s for p in parts)) * 1.14)
        axes.set_xlabel("seconds")

    spoken = "; ".join(
        f"{p.engine}: {formatting.seconds(p.prefill_s)} prefill, "
        f"{formatting.seconds(p.decode_s)} decode, {formatting.seconds(p.other_s)} other"
        for p in parts
    )
    frame = Frame(name, title, spoken, 5.2, 0.75 + 0.42 * len(parts))
    return Figure(title, caption, draw(frame, paint))


def _value_label(axes: Axes, text: str, end: float, row: int) -> None:
    axes.annotate(
        text, (end, row), xytext=(6, 0), textcoords="offset points", va="center", color=INK
    )


def _engine_rows(axes: Axes, engines: Sequence[str]) -> None:
    axes.set_yticks(range(len(engines)), [label(engine) for engine in engines])
    axes.set_ylim(len(engines) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(visible=True, axis="x", color=FAINT, linewidth=0.6)


def slots_over_time(
    name: str, title: str, runs: Sequence[Slots], colours: Mapping[str, str]
) -> Figure:
    """What the slots did: running, padding, empty, stacked; a row a run, all on one time line."""
    caption = (
        "Solid: slots that produced a token. Hatched: slots held by answers that had ended. "
        "Blank below the line: empty slots. Dashed: the run's last step. The time line is the same "
        "in all rows and starts with the measured part."
    )
    drawn = [run for run in runs if len(run.steps)]
    if not drawn:
        return Figure(title, caption, None, "no engine wrote a step log", is_wide=True)
    end_s = max(_end_s(run) for run in drawn)

    def paint(rows: list[Axes]) -> None:
        for axes, run in zip(rows, drawn, strict=True):
            _paint_slots(axes, run, end_s, colours[run.engine])
            axes.tick_params(axis="x", labelbottom=axes is rows[-1])
        rows[-1].set_xlim(0, _above(end_s))
        rows[-1].set_xlabel("seconds")

    spoken = "One row for each of: " + ", ".join(run.engine for run in drawn)
    frame = Frame(name, title, spoken, 10.4, 0.5 + 1.15 * len(drawn), rows=len(drawn))
    return Figure(title, caption, draw(frame, paint), is_wide=True)


def _paint_slots(axes: Axes, run: Slots, end_s: float, colour: str) -> None:
    edges_s, running, padded = _occupancy(run, end_s)
    slots = int(run.steps["slots"].max())
    axes.fill_between(edges_s, running, step="post", color=colour, linewidth=0, zorder=2)
    axes.fill_between(
        edges_s,
        running + padded,
        running,
        step="post",
        facecolor="none",
        edgecolor=colour,
        hatch="/////",
        linewidth=0,
        zorder=2,
    )
    axes.axhline(slots, color=MUTED, linewidth=0.8, zorder=1)
    axes.axvline(_end_s(run), color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    axes.set(ylim=(0, slots * 1.04), ylabel="slots")
    axes.set_yticks([0, slots])
    axes.set_title(label(run.engine), loc="left", color=INK, pad=4)


def _medians(curves: Sequence[tuple[Samples, Floats]]) -> str:
    parts = []
    for sample, values in curves:
        if values.size:
            middle = float(np.sort(values)[(values.size - 1) // 2])
            parts.append(f"{sample.engine}: half within {formatting.seconds(middle)}")
    return "; ".join(parts)


def _without_nan(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _curve(values: Floats, end_s: float) -> tuple[Floats, Floats]:
    """The empirical distribution as steps: at most MOST_POINTS of them, the first and last kept."""
    ordered = np.sort(values)
    finite = int(np.isfinite(ordered).sum())
    ranks = np.unique(np.linspace(1, finite, min(finite, MOST_POINTS)).astype(int))
    x = np.concatenate([[0.0], ordered[ranks - 1], [end_s]])
    y = np.concatenate([[0.0], ranks / ordered.size, [finite / ordered.size]])
    return x, y


def _occupancy(run: Slots, end_s: float) -> tuple[Floats, Floats, Floats]:
    """Edges in seconds, and running and padded slots from each edge to the next; 0 between steps.

    With more steps than can be seen, each of MOST_POINTS equal spans shows its mean over time.
    """
    begins = _column(run, "started_s")
    ends = begins + _column(run, "duration_s")
    running, padded = _column(run, "running"), _column(run, "padded")
    if len(run.steps) <= MOST_POINTS:
        # A step that starts where the one before ended (to 1 µs) leaves no gap to be drawn.
        ends[:-1] = np.where(begins[1:] - ends[:-1] < 1e-6, begins[1:], ends[:-1])
        edges = np.column_stack([begins, ends]).ravel()
        levels = np.zeros((edges.size, 2))
        levels[::2] = np.column_stack([running, padded])
        return _changes(edges, levels)
    edges = np.linspace(0.0, end_s, MOST_POINTS + 1)
    return edges, _means(edges, begins, ends, running), _means(edges, begins, ends, padded)


def _changes(edges: Floats, levels: Floats) -> tuple[Floats, Floats, Floats]:
    """The edges at which a level changes, and the last one; `levels` has a row for each edge."""
    is_span = np.append(np.diff(edges) > 0, True)
    edges, levels = edges[is_span], levels[is_span]
    is_change = np.append(True, np.any(np.diff(levels, axis=0) != 0, axis=1))
    is_change[-1] = True
    return edges[is_change], levels[is_change, 0], levels[is_change, 1]


def _means(edges: Floats, begins: Floats, ends: Floats, values: Floats) -> Floats:
    """Mean over time of a step function in each span between `edges`; a 0 closes the last one."""
    knots = np.column_stack([begins, ends]).ravel()
    area = np.column_stack([np.zeros_like(values), values * (ends - begins)]).ravel().cumsum()
    spans = np.diff(np.interp(edges, knots, area, left=0.0)) / np.diff(edges)
    return np.append(spans, 0.0)


def _column(run: Slots, name: str) -> Floats:
    return run.steps[name].to_numpy(dtype=np.float64)


def _end_s(run: Slots) -> float:
    return float((run.steps["started_s"] + run.steps["duration_s"]).max())


def _above(top: float) -> float:
    """An axis end above `top`, never 0: equal values, or only zeros, still make an axis."""
    return top * 1.02 if top > 0 else 1.0
