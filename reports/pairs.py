"""The figure of a duel: both values of each pair on one line, and of the whole below them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import seaborn as sns
from matplotlib.axes import Axes

from harness.analyzer.metric import Better, Metric
from harness.analyzer.metrics import find_metric
from harness.gate import formatting
from harness.gate.duel import Duel, DuelMetric
from harness.gate.duel_table import ratio_text
from reports.figures import Figure
from reports.svg import FAINT, INK, MUTED, SURFACE, Frame, Picture, Spots, label

SHOWN = ("output_tok_s", "ttft_s_p50", "tpot_s_p50", "e2e_s_p50")
LEGEND = (
    "A pair a row: the hollow dot is {baseline}, the full one {candidate}; green where the "
    "candidate did better, orange where it did worse. The last row has the geometric means, grey "
    "where no difference was shown. The axes do not begin at 0."
)
_EDGE, _ROOM = 0.08, 0.45  # of the width that the dots take: left of them, and for the words right
_GREEN, _ORANGE = (str(sns.color_palette("colorblind").as_hex()[i]) for i in (2, 3))


@dataclass(frozen=True, slots=True)
class _Row:
    """Two dots on a line: what it is called, where they are, and what stands beside them."""

    title: str
    baseline: float
    candidate: float
    text: str
    colour: str


def legend_of(duel: Duel) -> str:
    """What the dots of the figures are."""
    return LEGEND.format(baseline=duel.baseline_name, candidate=duel.candidate_name)


def pair_figures(duel: Duel) -> list[Figure]:
    """One figure for each metric of SHOWN that the duel measured."""
    return [pair_figure(found) for found in duel.metrics if found.metric in SHOWN]


def pair_figure(found: DuelMetric) -> Figure:
    """Where the sides of each pair came out in one metric."""
    metric = find_metric(found.metric)
    side = "right" if metric.better is Better.HIGHER else "left"
    caption = f"Further {side} is better."
    if found.ratio is None:
        return Figure(metric.title, caption, None, found.reason or "it has no ratio")
    rows = _rows(metric, found)
    ends = [value for row in rows for value in (row.baseline, row.candidate)]
    factor, unit = (1e3, "ms") if metric.unit == "s" and max(ends) < 1 else (1.0, metric.unit)
    low, high = min(ends) * factor, max(ends) * factor
    width = max(high - low, 0.02 * high)

    def paint(grid: list[Axes]) -> list[Spots]:
        (axes,) = grid
        for place, row in enumerate(rows):
            _paint(axes, place, row, factor)
        axes.axhline(len(rows) - 1.5, color=FAINT, linewidth=0.8)
        axes.set_yticks(range(len(rows)), [label(row.title) for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.grid(visible=True, axis="x", color=FAINT, linewidth=0.6)
        axes.set_xlim(low - _EDGE * width, high + _ROOM * width)
        axes.set_xlabel(unit)
        return [
            Spots(axes, row.title, _points(metric, row, place, factor))
            for place, row in enumerate(rows)
        ]

    spoken = "; ".join(f"{row.title}: {row.text}" for row in rows)
    name = f"pairs-{metric.name.replace('_', '-')}"
    frame = Frame(name, metric.title, spoken, 5.6, 0.8 + 0.3 * len(rows))
    return Figure(metric.title, caption, Picture(frame, paint))


def _rows(metric: Metric, found: DuelMetric) -> list[_Row]:
    """One row a pair, then that of the whole."""
    rows = []
    for number, (baseline, candidate) in enumerate(found.values, 1):
        if baseline and candidate:
            text = formatting.ratio(candidate / baseline)
            colour = _colour(metric, candidate / baseline)
            rows.append(_Row(f"pair {number}", baseline, candidate, text, colour))
    if found.baseline and found.candidate and found.ratio:
        colour = _colour(metric, found.ratio) if found.is_clear else MUTED
        rows.append(_Row("all", found.baseline, found.candidate, ratio_text(found), colour))
    return rows


def _points(metric: Metric, row: _Row, place: int, factor: float) -> list[tuple[float, float, str]]:
    """Both dots of the row, and what is said of each."""
    sides = (("baseline", row.baseline), ("candidate", row.candidate))
    return [
        (value * factor, float(place), f"{side} {formatting.quantity(value, metric.unit)}")
        for side, value in sides
    ]


def _colour(metric: Metric, ratio: float) -> str:
    if ratio == 1:
        return MUTED
    is_better = (ratio > 1) == (metric.better is Better.HIGHER)
    return _GREEN if is_better else _ORANGE


def _paint(axes: Axes, place: int, row: _Row, factor: float) -> None:
    ends = (row.baseline * factor, row.candidate * factor)
    axes.plot(ends, (place, place), color=row.colour, linewidth=2, zorder=2)
    hollow: dict[str, Any] = {"markerfacecolor": SURFACE, "markeredgecolor": INK}
    axes.plot(ends[0], place, "o", markersize=6, zorder=3, **hollow)
    axes.plot(ends[1], place, "o", markersize=6, color=row.colour, zorder=4)
    axes.annotate(
        row.text,
        (max(ends), place),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        color=INK,
    )
