"""The figure of a run as both sides saw it: requests in flight and waiting, and the KV cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from harness.analyzer.columns import MISSING
from harness.analyzer.flow import in_flight_at
from harness.analyzer.frame import RunFrame
from harness.analyzer.server_samples import gauge_table, span_ns
from harness.core.units import NS_PER_S
from harness.gate import formatting
from reports.figures import Figure
from reports.svg import (
    FAINT,
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
class Sides:
    """One run: the engine's gauges over time, and how many requests the client had in flight.

    `gauges` are a table of `server_samples.gauge_table`; `at_s` and `in_flight` are the client's.
    """

    engine: str
    gauges: pd.DataFrame
    at_s: Floats
    in_flight: Floats

    @property
    def has_kv(self) -> bool:
        """Whether the engine says how much of its KV cache is in use."""
        return bool(self.gauges["kv_share"].notna().any())

    @property
    def is_read(self) -> bool:
        """Whether the engine says how many requests it has, or how full its KV cache is."""
        return self.has_kv or bool(self.gauges["running"].notna().any())


def sides_of(engine: str, frame: RunFrame) -> Sides:
    """What both sides say of `frame`, a run of `engine`."""
    gauges = _thinned(gauge_table([sample for sample in frame.samples if sample.at_ns >= 0]))
    span = span_ns(frame) or (0, 0)
    sent_ns, closed_ns = frame.records.numbers["sent_ns"], frame.records.numbers["closed_ns"]
    instants = np.linspace(0, span[1], MOST_POINTS).astype(np.int64)
    ended_ns = np.where(closed_ns == MISSING, span[1], closed_ns)
    in_flight = in_flight_at(sent_ns, ended_ns, instants).astype(np.float64)
    return Sides(engine, gauges, instants / NS_PER_S, in_flight)


def server_timeline(
    name: str, title: str, runs: Sequence[Sides], colours: Mapping[str, str]
) -> Figure:
    """Requests in flight by the client's count and the engine's, and KV use below; a run a block.

    All runs are on one time line.
    """
    drawn = [run for run in runs if run.in_flight.any()]
    caption = _caption(drawn)
    if not drawn:
        return Figure(title, caption, None, "no request was in flight in any run", is_wide=True)
    end_s = max(float(run.at_s[-1]) for run in drawn)
    heights = [height for run in drawn for height in ((1.0, 0.5) if run.has_kv else (1.0,))]

    def paint(rows: list[Axes]) -> list[Spots]:
        left = iter(rows)
        spots = []
        for run in drawn:
            spots.append(_paint_requests(next(left), run, colours[run.engine]))
            if run.has_kv:
                spots.append(_paint_kv(next(left), run, colours[run.engine]))
        for axes in rows:
            axes.tick_params(axis="x", labelbottom=axes is rows[-1])
        rows[-1].set_xlim(0, axis_end(end_s))
        rows[-1].set_xlabel("seconds")
        return spots

    spoken = "; ".join(map(_in_words, drawn))
    height_in = 0.5 + 1.25 * sum(heights)
    frame = Frame(name, title, spoken, 10.4, height_in, len(heights), tuple(heights))
    return Figure(title, caption, Picture(frame, paint), is_wide=True)


def _caption(runs: Sequence[Sides]) -> str:
    said = "Line: requests in flight as the client counts them."
    if any(run.is_read for run in runs):
        said += " Solid: those that the engine says it runs. Pale: those it says are waiting."
    if any(run.has_kv for run in runs):
        said += " Below: share of the engine's KV cache in use."
    if silent := [run.engine for run in runs if not run.is_read]:
        said += f" No readings of: {', '.join(silent)}."
    return said


def _paint_requests(axes: Axes, run: Sides, colour: str) -> Spots:
    gauges = run.gauges
    running = gauges["running"]
    whole = running + gauges["waiting"].fillna(0.0)
    for low, high, alpha in ((0.0 * running, running, 1.0), (running, whole, 0.35)):
        area = axes.fill_between(
            gauges["at_s"],
            low,
            high,
            where=running.notna(),
            step="mid",
            color=colour,
            alpha=alpha,
            linewidth=0,
            zorder=2,
        )
        in_series(run.engine, area)
    line = axes.step(run.at_s, run.in_flight, where="post", color=INK, linewidth=1.0, zorder=3)
    in_series(run.engine, *line)
    top = max(float(run.in_flight.max(initial=0)), float(np.nan_to_num(whole).max(initial=0)))
    axes.set(ylim=(0, axis_end(top) * 1.04), ylabel="requests")
    axes.set_yticks([0, top] if top else [0])
    axes.set_title(label(run.engine), loc="left", color=INK, pad=4)
    points = [
        (at_s, count, f"{formatting.seconds(at_s)}: {formatting.count(count)} in flight")
        for at_s, count in (
            (float(run.at_s[i]), float(run.in_flight[i])) for i in thinned(range(len(run.at_s)))
        )
    ]
    points += [
        (float(row.at_s), float(row.running), f"{formatting.seconds(row.at_s)}: {_theirs(row)}")
        for row in _rows(gauges[running.notna()])
    ]
    return Spots(axes, run.engine, points)


def _theirs(row: Any) -> str:
    """What the engine says of its requests."""
    said = f"{formatting.significant(row.running)} running"
    waiting = "" if np.isnan(row.waiting) else f", {formatting.significant(row.waiting)} waiting"
    return f"{said}{waiting} by the engine"


def _rows(gauges: pd.DataFrame) -> list[Any]:
    """Some of the readings, as many as can be pointed at."""
    return list(gauges.iloc[thinned(range(len(gauges)))].itertuples())


def _paint_kv(axes: Axes, run: Sides, colour: str) -> Spots:
    at_s, share = run.gauges["at_s"], run.gauges["kv_share"]
    area = axes.fill_between(
        at_s, share, step="mid", color=colour, alpha=0.6, linewidth=0, zorder=2
    )
    in_series(run.engine, area)
    axes.set(ylim=(0, 1), ylabel="KV use")
    axes.set_yticks([0, 1])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(visible=True, axis="y", color=FAINT, linewidth=0.6)
    peak = f"peak {formatting.share(float(share.max()))}"
    axes.set_title(peak, loc="right", color=MUTED, fontsize=8.5, pad=3)
    points = [
        (float(row.at_s), float(row.kv_share), f"{formatting.seconds(row.at_s)}: {_full(row)}")
        for row in _rows(run.gauges[share.notna()])
    ]
    return Spots(axes, run.engine, points)


def _full(row: Any) -> str:
    return f"{formatting.share(row.kv_share)} of the KV cache"


def _thinned(gauges: pd.DataFrame) -> pd.DataFrame:
    """`gauges`, or where there are more than can be told apart, the means of as many stretches."""
    if len(gauges) <= MOST_POINTS:
        return gauges
    stretch = np.arange(len(gauges)) * MOST_POINTS // len(gauges)
    return gauges.groupby(stretch).mean()


def _in_words(run: Sides) -> str:
    kv = f", KV use up to {formatting.share(float(run.gauges['kv_share'].max()))}"
    most = formatting.count(float(run.in_flight.max(initial=0)))
    theirs = (run.gauges["running"] + run.gauges["waiting"].fillna(0.0)).max()
    said = "" if np.isnan(theirs) else f", at most {formatting.count(theirs)} by the engine"
    return f"{run.engine}: at most {most} in flight by the client{said}{kv if run.has_kv else ''}"
