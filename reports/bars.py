"""Bars from 0, an engine a row: its output rate, and where the time inside its steps went."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from harness.gate import formatting
from reports.figures import Figure
from reports.svg import FAINT, INK, SURFACE, Frame, Picture, Spots, axis_end, in_series, label

_ROOM = 1.14  # for the number behind the longest bar


@dataclass(frozen=True, slots=True)
class TimeParts:
    """Where the time inside an engine's steps went, in seconds."""

    engine: str
    prefill_s: float
    decode_s: float
    other_s: float

    @property
    def named(self) -> tuple[tuple[str, float, float], ...]:
        """Each part by its name, with its seconds and how strong its colour is."""
        return (
            ("prefill", self.prefill_s, 1.0),
            ("decode", self.decode_s, 0.6),
            ("other", self.other_s, 0.25),
        )

    @property
    def whole_s(self) -> float:
        """All of it."""
        return self.prefill_s + self.decode_s + self.other_s


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

    def paint(rows: list[Axes]) -> list[Spots]:
        (axes,) = rows
        spots = []
        for row, (engine, of_engine) in enumerate(runs.items()):
            bars = axes.barh(row, means[engine], height=0.6, color=colours[engine], zorder=2)
            points = [(means[engine], float(row), f"{_rate(means[engine])}")]
            if len(of_engine) > 1:
                places = [row] * len(of_engine)
                dots = axes.plot(of_engine, places, "o", color=INK, markersize=3, zorder=3)
                in_series(engine, *dots)
                points = [(means[engine], float(row), f"mean {_rate(means[engine])}")]
                points += [
                    (v, float(row), f"run {i}, {_rate(v)}") for i, v in enumerate(of_engine, 1)
                ]
            in_series(engine, *bars)
            _value_label(axes, formatting.significant(means[engine]), max(of_engine), row)
            spots.append(Spots(axes, engine, points))
        _engine_rows(axes, list(runs))
        axes.set_xlim(0, axis_end(max(map(max, runs.values()))) * _ROOM)
        axes.set_xlabel("output tok/s")
        return spots

    spoken = "; ".join(f"{engine}: {_rate(mean)}" for engine, mean in means.items())
    frame = Frame(name, title, spoken, 5.2, 0.75 + 0.42 * len(runs))
    return Figure(title, caption, Picture(frame, paint))


def time_split(
    name: str, title: str, parts: Sequence[TimeParts], colours: Mapping[str, str]
) -> Figure:
    """Bars from 0, one an engine: the time inside its steps as prefill, decode and the rest."""
    caption = (
        "Seconds inside the engine's steps, strong to pale: reading prompts, decoding, the rest."
    )
    if not parts:
        return Figure(title, caption, None, "no engine wrote a step log")

    def paint(rows: list[Axes]) -> list[Spots]:
        (axes,) = rows
        spots = []
        for row, part in enumerate(parts):
            # The grid must not shine through.
            in_series(part.engine, *axes.barh(row, part.whole_s, height=0.6, color=SURFACE))
            start_s, points = 0.0, []
            for what, part_s, alpha in part.named:
                look: dict[str, Any] = {"color": colours[part.engine], "alpha": alpha}
                bars = axes.barh(row, part_s, left=start_s, height=0.6, **look)
                in_series(part.engine, *bars)
                said = f"{what} {formatting.seconds(part_s)}"
                points.append((start_s + part_s / 2, float(row), said))
                start_s += part_s
            _value_label(axes, formatting.significant(part.whole_s), part.whole_s, row)
            spots.append(Spots(axes, part.engine, points))
        _engine_rows(axes, [part.engine for part in parts])
        axes.set_xlim(0, axis_end(max(part.whole_s for part in parts)) * _ROOM)
        axes.set_xlabel("seconds")
        return spots

    spoken = "; ".join(
        f"{part.engine}: "
        + ", ".join(f"{formatting.seconds(part_s)} {what}" for what, part_s, _ in part.named)
        for part in parts
    )
    frame = Frame(name, title, spoken, 5.2, 0.75 + 0.42 * len(parts))
    return Figure(title, caption, Picture(frame, paint))


def _rate(value: float) -> str:
    return f"{formatting.significant(value)} tok/s"


def _value_label(axes: Axes, text: str, end: float, row: int) -> None:
    axes.annotate(
        text, (end, row), xytext=(6, 0), textcoords="offset points", va="center", color=INK
    )


def _engine_rows(axes: Axes, engines: Sequence[str]) -> None:
    axes.set_yticks(range(len(engines)), [label(engine) for engine in engines])
    axes.set_ylim(len(engines) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(visible=True, axis="x", color=FAINT, linewidth=0.6)
