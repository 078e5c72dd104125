"""The figure of what an engine's slots did over time, which is where policies differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from harness.gate import formatting
from reports.figures import Figure
from reports.svg import (
    INK,
    MOST_POINTS,
    MUTED,
    Floats,
    Frame,
    Picture,
    Spots,
    axis_end,
    in_series,
    label,
    thinned,
)


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """The steps of the measured part of a run, with the columns that a RunFrame's steps have."""

    engine: str
    steps: pd.DataFrame


def slots_over_time(
    name: str, title: str, runs: Sequence[Slots], colours: Mapping[str, str]
) -> Figure:
    """What the slots did: running, padding, empty, stacked; a row a run, all on one time line."""
    caption = (
        "Solid: slots that produced a token. Hatched: slots held by answers that had ended. "
        "Blank below the line: empty slots. Dashed: the run's last step. The time line is the same "
        "in all rows and starts with the measured part."
    )
    drawn = [run for run in runs if _column(run, "duration_s").any()]
    if not drawn:
        has_steps = any(len(run.steps) for run in runs)
        reason = "no step took any time" if has_steps else "no engine wrote a step log"
        return Figure(title, caption, None, reason, is_wide=True)
    end_s = max(_end_s(run) for run in drawn)

    def paint(rows: list[Axes]) -> list[Spots]:
        spots = []
        for axes, run in zip(rows, drawn, strict=True):
            spots.append(_paint_slots(axes, run, end_s, colours[run.engine]))
            axes.tick_params(axis="x", labelbottom=axes is rows[-1])
        rows[-1].set_xlim(0, axis_end(end_s))
        rows[-1].set_xlabel("seconds")
        return spots

    spoken = "; ".join(map(_in_words, drawn))
    frame = Frame(name, title, spoken, 10.4, 0.5 + 1.15 * len(drawn), rows=len(drawn))
    return Figure(title, caption, Picture(frame, paint), is_wide=True)


def _paint_slots(axes: Axes, run: Slots, end_s: float, colour: str) -> Spots:
    edges_s, running, padded = _occupancy(run, end_s)
    slots = int(run.steps["slots"].max())
    looks: dict[str, Any] = {"fill": True, "linewidth": 0, "zorder": 2}
    busy = axes.stairs(running, edges_s, color=colour, **looks)
    in_series(run.engine, busy)
    if padded.any():
        held: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "hatch": "/////"}
        padding = axes.stairs(running + padded, edges_s, baseline=running, **looks, **held)
        in_series(run.engine, padding)
    axes.axhline(slots, color=MUTED, linewidth=0.8, zorder=1)
    axes.axvline(_end_s(run), color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    axes.set(ylim=(0, slots * 1.04), ylabel="slots")
    axes.set_yticks([0, slots])
    axes.set_title(label(run.engine), loc="left", color=INK, pad=4)
    middles_s = (edges_s[:-1] + edges_s[1:]) / 2
    points = [
        (float(middles_s[i]), float(running[i] + padded[i]), _said(edges_s, running, padded, i))
        for i in thinned(range(len(middles_s)))
    ]
    return Spots(axes, run.engine, points)


def _said(edges_s: Floats, running: Floats, padded: Floats, i: int) -> str:
    """What the slots did from edge `i` to the next."""
    span = formatting.span(float(edges_s[i]), float(edges_s[i + 1]), "s")
    busy, held = (formatting.significant(float(part[i])) for part in (running, padded))
    return f"{span}: {busy} running, {held} padding"


def _in_words(run: Slots) -> str:
    """How much of the time that slots could be busy they were."""
    weights = _column(run, "duration_s") * _column(run, "slots")
    busy, held = (
        float((_column(run, name) * _column(run, "duration_s")).sum() / weights.sum())
        for name in ("running", "padded")
    )
    return f"{run.engine}: {formatting.share(busy)} running, {formatting.share(held)} padding"


def _occupancy(run: Slots, end_s: float) -> tuple[Floats, Floats, Floats]:
    """Edges in seconds, and running and padded slots between them; 0 between steps.

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
    levels = np.zeros((edges.size, 2))
    for column, values in enumerate((running, padded)):
        # Rounded, as spans that were busy throughout are alike but for their last digits.
        levels[:-1, column] = np.round(_means(edges, begins, ends, values), 6)
    return _changes(edges, levels)


def _changes(edges: Floats, levels: Floats) -> tuple[Floats, Floats, Floats]:
    """The edges at which a level changes, and the last one; `levels` has a row for each edge."""
    is_span = np.append(np.diff(edges) > 0, True)
    edges, levels = edges[is_span], levels[is_span]
    is_change = np.append(True, np.any(np.diff(levels, axis=0) != 0, axis=1))
    is_change[-1] = True
    spans = levels[is_change][:-1]
    return edges[is_change], spans[:, 0], spans[:, 1]


def _means(edges: Floats, begins: Floats, ends: Floats, values: Floats) -> Floats:
    """Mean over time of a step function in each span between `edges`."""
    knots = np.column_stack([begins, ends]).ravel()
    area = np.column_stack([np.zeros_like(values), values * (ends - begins)]).ravel().cumsum()
    spans: Floats = np.diff(np.interp(edges, knots, area, left=0.0)) / np.diff(edges)
    return spans


def _column(run: Slots, name: str) -> Floats:
    return run.steps[name].to_numpy(dtype=np.float64)


def _end_s(run: Slots) -> float:
    return float((run.steps["started_s"] + run.steps["duration_s"]).max())
