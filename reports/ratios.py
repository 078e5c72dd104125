"""The figure of a comparison: each ratio with its interval, on an axis where 2x and 0.5x mirror."""

from __future__ import annotations

from collections.abc import Sequence

import seaborn as sns
from matplotlib.axes import Axes

from harness.analyzer.metrics import find_metric
from harness.gate.cells import Tone
from harness.gate.comparison import Comparison, ComparisonTable
from harness.gate.comparison_table import certainty, reading
from reports.figures import Figure
from reports.scales import log_ends, show_log
from reports.svg import FAINT, INK, MUTED, Frame, Picture, Spots, label

SHOWN = (
    "output_tok_s",
    "request_s",
    "ttft_s_p50",
    "ttft_s_p90",
    "ttft_s_p99",
    "tpot_s_p50",
    "tpot_s_p99",
    "e2e_s_p50",
    "e2e_s_p99",
)
_CAPTION = (
    "Ratio {candidate} / {baseline}, on a logarithmic axis; thin line: its 95 % interval. Green: "
    "better. Orange: worse. Grey: no difference was shown, or there is no interval."
)
_GREEN, _ORANGE = (str(sns.color_palette("colorblind").as_hex()[i]) for i in (2, 3))
_COLOURS = {Tone.GOOD: _GREEN, Tone.BAD: _ORANGE}
_FURTHEST = 20.0  # times the outermost ratio: an interval that ends beyond would hide the others


def ratio_figures(comparisons: Sequence[ComparisonTable]) -> list[Figure]:
    """One for each candidate."""
    return [_figure(f"ratios-{i}", table) for i, table in enumerate(comparisons, 1)]


def _figure(name: str, table: ComparisonTable) -> Figure:
    title = f"{table.candidate_name} against {table.baseline_name}"
    caption = _CAPTION.format(candidate=table.candidate_name, baseline=table.baseline_name)
    found = {row.metric: row for row in table.rows if row.ratio is not None and row.ratio > 0}
    shown = [found[metric] for metric in SHOWN if metric in found]
    ends = log_ends([1.0, *(end for row in shown for end in _reach(row))])
    if not shown or ends is None:
        return Figure(title, caption, None, "no metric has a ratio", is_wide=True)

    def paint(rows: list[Axes]) -> list[Spots]:
        (axes,) = rows
        show_log(axes, "x", ends)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
        axes.axvline(1.0, color=MUTED, linewidth=1.0, zorder=1)
        spots = [_paint(axes, place, row) for place, row in enumerate(shown)]
        axes.set_yticks(range(len(shown)), [label(find_metric(r.metric).title) for r in shown])
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.grid(visible=True, axis="x", color=FAINT, linewidth=0.6)
        return spots

    spoken = "; ".join(f"{find_metric(row.metric).title}: {row.ratio_text}" for row in shown)
    frame = Frame(name, title, spoken, 10.4, 0.6 + 0.26 * len(shown))
    return Figure(title, caption, Picture(frame, paint), is_wide=True)


def _reach(row: Comparison) -> tuple[float, float]:
    """From where to where the row is drawn."""
    ratio = row.ratio or 1.0
    if row.lo is None or row.hi is None:
        return ratio, ratio
    return max(row.lo, ratio / _FURTHEST), min(row.hi, ratio * _FURTHEST)


def _paint(axes: Axes, place: int, row: Comparison) -> Spots:
    ratio, (low, high) = row.ratio or 1.0, _reach(row)
    colour = _COLOURS.get(reading(row).tone, MUTED)
    axes.plot((low, high), (place, place), color=colour, linewidth=1.4, zorder=2)
    axes.plot(ratio, place, "o", markersize=6, color=colour, zorder=3)
    axes.annotate(
        row.ratio_text,
        (1, place),
        xycoords=("axes fraction", "data"),
        xytext=(10, 0),
        textcoords="offset points",
        va="center",
        color=INK,
    )
    said = f"{row.ratio_text}, {certainty(row)}"
    return Spots(axes, find_metric(row.metric).title, [(ratio, float(place), said)])
