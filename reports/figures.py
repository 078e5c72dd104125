"""Bars and distributions, each as one inline SVG, or the reason why it cannot be drawn.

Nothing is measured here: all requests and steps are read, and thinned only for drawing. Text in a
figure takes its colour from the page, so that light and dark need one drawing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes

from harness.gate import formatting
from reports.svg import FAINT, INK, MOST_POINTS, SURFACE, Floats, Frame, axis_end, draw, label

MOST_INSIDE = 4
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
    engines = list(dict.fromkeys(sample.engine for sample in samples))
    if len(samples) > len(engines):
        caption += " One curve a run."
    curves = [(sample.engine, _without_nan(sample.values_s)) for sample in samples]
    tops = [float(v[np.isfinite(v)].max()) for _, v in curves if np.isfinite(v).any()]
    if not tops:
        return Figure(title, caption, None, "no request of any run has this time")
    end_s = axis_end(max(tops))
    looks: dict[str, dict[str, Any]] = {
        engine: {"color": colour, "linestyle": _DASHES[i % len(_DASHES)]}
        for i, (engine, colour) in enumerate(colours.items())
    }

    def paint(rows: list[Axes]) -> None:
        (axes,) = rows
        for engine, values in curves:
            if values.size:
                axes.step(*_curve(values, end_s), where="post", linewidth=1.6, **looks[engine])
        for engine in engines:
            axes.plot([], [], label=label(engine), **looks[engine])
        axes.set(xlim=(0, end_s), ylim=(0, 1.02), xlabel="seconds", ylabel="requests")
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axes.grid(visible=True, color=FAINT, linewidth=0.6)
        _legend(axes, len(engines))

    height_in = 3.1 if len(engines) <= MOST_INSIDE else 3.1 + 0.1 * len(engines)
    frame = Frame(name, title, _medians(curves), 5.2, height_in)
    return Figure(title, caption, draw(frame, paint))


def _legend(axes: Axes, entries: int) -> None:
    looks: dict[str, Any] = {"frameon": False, "labelcolor": INK, "handlelength": 2.4}
    drawing = axes.get_figure(root=True)
    if entries <= MOST_INSIDE or drawing is None:
        axes.legend(loc="lower right", **looks)
    else:  # a longer legend would cover the curves
        drawing.legend(loc="outside lower center", ncols=2, **looks)


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
        axes.set_xlim(0, axis_end(max(map(max, runs.values()))) * 1.14)
        axes.set_xlabel("output tok/s")

    spoken = "; ".join(f"{e}: {formatting.significant(m)} tok/s" for e, m in means.items())
    frame = Frame(name, title, spoken, 5.2, 0.75 + 0.42 * len(runs))
    return Figure(title, caption, draw(frame, paint))


def time_split(
    name: str, title: str, parts: Sequence[TimeParts], colours: Mapping[str, str]
) -> Figure:
    """Bars from 0, one an engine: the time inside its steps as prefill, decode and the rest."""
    caption = (
        "Seconds inside the engine's steps, strong to pale: reading prompts, decoding, the rest."
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
        axes.set_xlim(0, axis_end(max(p.prefill_s + p.decode_s + p.other_s for p in parts)) * 1.14)
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


def _medians(curves: Sequence[tuple[str, Floats]]) -> str:
    parts = []
    for engine, values in curves:
        if values.size:
            middle = float(np.sort(values)[(values.size - 1) // 2])
            parts.append(f"{engine}: half within {formatting.seconds(middle)}")
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
