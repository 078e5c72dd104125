"""The figures of sessions: whether an answer takes longer as its conversation grows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from harness.analyzer.metrics import find_metric
from harness.analyzer.summary import Summary
from harness.gate import formatting
from reports.figures import Figure, engine_colours, engine_lines
from reports.svg import (
    FAINT,
    Frame,
    Picture,
    Spots,
    axis_end,
    in_series,
    label,
    legend_below,
    legend_columns,
    thinned,
)

METRICS = ("ttft_s_p50", "e2e_s_p50")
_MOST_MARKED = 40
_TITLES = {"ttft_s_p50": "Time to first token, by turn", "e2e_s_p50": "Time to last token, by turn"}


@dataclass(frozen=True, slots=True)
class _Line:
    """One run in one metric: turns from 1, the value of each, and of how many requests it is."""

    engine: str
    run: str
    points: tuple[tuple[int, float, int], ...]


def turn_figures(summaries: Sequence[Summary]) -> list[Figure]:
    """Median latency of each turn, a line a run; nothing where no run has sessions."""
    if all(summary.sessions is None for summary in summaries):
        return []
    colours = engine_colours([summary.manifest.engine.name for summary in summaries])
    return [_figure(metric, list(_lines(metric, summaries)), colours) for metric in METRICS]


def _lines(metric: str, summaries: Sequence[Summary]) -> Iterator[_Line]:
    engines = [summary.manifest.engine.name for summary in summaries]
    for place, (engine, summary) in enumerate(zip(engines, summaries, strict=True)):
        turns = () if summary.sessions is None else summary.sessions.turns
        values = ((t, v.value) for t in turns for v in t.values if v.metric == metric)
        known = tuple(
            (turn.turn + 1, value, turn.requests)
            for turn, value in values
            if value is not None and math.isfinite(value)
        )
        number = engines[: place + 1].count(engine)
        if known:
            yield _Line(engine, f"run {number}, " if engines.count(engine) > 1 else "", known)


def _figure(metric: str, lines: Sequence[_Line], colours: Mapping[str, str]) -> Figure:
    title = _TITLES[metric]
    caption = f"{find_metric(metric).title} of the requests that were that turn of their sessions."
    if not lines:
        return Figure(title, caption, None, "no turn has requests enough for a median")
    engines = list(dict.fromkeys(line.engine for line in lines))
    looks, columns = engine_lines(colours), legend_columns(engines)
    tops = [value for line in lines for _, value, _ in line.points]
    last = max(turn for line in lines for turn, _, _ in line.points)

    def paint(rows: list[Axes]) -> list[Spots]:
        (axes,) = rows
        mark = "o" if last <= _MOST_MARKED else ""
        for line in lines:
            turns, values, _ = zip(*line.points, strict=True)
            drawn = axes.plot(
                turns, values, marker=mark, markersize=4, linewidth=1.5, **looks[line.engine]
            )
            in_series(line.engine, *drawn)
        for engine in engines:
            axes.plot([], [], label=label(engine), **looks[engine])
        axes.set(xlim=(0.5, last + 0.5), ylim=(0, axis_end(max(tops)) * 1.05), xlabel="turn")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.yaxis.set_major_formatter(lambda value, _: formatting.seconds(value))
        axes.grid(visible=True, color=FAINT, linewidth=0.6)
        legend_below(axes, columns)
        return [Spots(axes, line.engine, _points(line)) for line in lines]

    spoken = "; ".join(
        f"{line.engine}: {line.run}{formatting.seconds(line.points[0][1])} at turn "
        f"{line.points[0][0]}, {formatting.seconds(line.points[-1][1])} at {line.points[-1][0]}"
        for line in lines
    )
    height_in = 3.1 + 0.2 * -(-len(engines) // columns)
    frame = Frame(f"turns-{metric.partition('_')[0]}", title, spoken, 5.2, height_in)
    return Figure(title, caption, Picture(frame, paint))


def _points(line: _Line) -> list[tuple[float, float, str]]:
    chosen = (line.points[i] for i in thinned(range(len(line.points))))
    return [
        (float(turn), value, f"{line.run}turn {turn}, {formatting.seconds(value)} of {requests:,}")
        for turn, value, requests in chosen
    ]
