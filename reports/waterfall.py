"""The figure of an ablation: bars from 0, and on each the part that its step added or took away."""

from __future__ import annotations

from dataclasses import dataclass

import seaborn as sns
from matplotlib.axes import Axes

from harness.analyzer.metric import Better, Metric
from harness.analyzer.metrics import find_metric
from harness.gate import formatting
from harness.gate.ablation import Ablation, LevelValue
from harness.gate.ablation_table import ratio_text
from reports.figures import Figure
from reports.svg import FAINT, INK, MUTED, Frame, Picture, Spots, axis_end, label

LEGEND = (
    "Blue: the first level. Green: what a step gains; orange: what it costs; grey: its interval "
    "holds 1, or there is none. The thin line is the 95 % interval of where the step ends."
)
_ROOM = 1.5  # for what is written behind the longest bar
_BLUE, _GREEN, _ORANGE = (sns.color_palette("colorblind").as_hex()[i] for i in (0, 2, 3))


@dataclass(frozen=True, slots=True)
class _Bar:
    """One level: its bar, and the part of it from `start` on that its step is worth.

    `start` None where there is no step to show; `ends` is where its interval puts the end.
    """

    title: str
    end: float | None
    start: float | None = None
    ends: tuple[float, float] | None = None
    text: str = ""
    colour: str = FAINT


def waterfalls(ablation: Ablation) -> list[Figure]:
    """One figure for each metric that is shown."""
    return list(waterfall_of(ablation).values())


def waterfall_of(ablation: Ablation) -> dict[str, Figure]:
    """The figure of each metric that is shown, by its name."""
    return {name: waterfall(ablation, find_metric(name)) for name in ablation.shown}


def waterfall(ablation: Ablation, metric: Metric) -> Figure:
    """What each step of the ladder is worth in `metric`, a level a row."""
    caption = f"{'Longer' if metric.better is Better.HIGHER else 'Shorter'} is better."
    values = ablation.values_of(metric.name)
    titles = [("+ " if i else "") + " + ".join(v.adds) for i, v in enumerate(ablation.levels)]
    bars = [_bar(t, value, metric) for t, value in zip(titles, values, strict=True)]
    tops = [max(b.end or 0, *(b.ends or (0,)), b.start or 0) for b in bars if b.end is not None]
    if not tops:
        return Figure(metric.title, caption, None, values[0].reason or "no level has it")
    scale, unit = _scale(metric.unit, max(tops))

    def paint(rows: list[Axes]) -> list[Spots]:
        (axes,) = rows
        for row, bar in enumerate(bars):
            _paint(axes, row, bar, scale)
        axes.set_yticks(range(len(bars)), [label(bar.title) for bar in bars])
        axes.set_ylim(len(bars) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.grid(visible=True, axis="x", color=FAINT, linewidth=0.6)
        axes.set_xlim(0, axis_end(max(tops) * scale) * _ROOM)
        axes.set_xlabel(unit)
        return [
            Spots(axes, bar.title, [(bar.end * scale, float(row), bar.text)])
            for row, bar in enumerate(bars)
            if bar.end is not None
        ]

    spoken = "; ".join(f"{bar.title}: {bar.text}" for bar in bars)
    name = f"waterfall-{metric.name.replace('_', '-')}"
    frame = Frame(name, metric.title, spoken, 5.6, 0.8 + 0.44 * len(bars))
    return Figure(metric.title, caption, Picture(frame, paint))


def _bar(title: str, value: LevelValue, metric: Metric) -> _Bar:
    if value.value is None:
        return _Bar(title, None, text="no value")
    said = formatting.quantity(value.value, metric.unit)
    step = value.to_before
    if step is None:
        return _Bar(title, value.value, start=0.0, text=said, colour=_BLUE)
    if step.ratio is None:
        return _Bar(title, value.value, text=said)
    is_gain = (step.ratio > 1) == (metric.better is Better.HIGHER)
    start = value.value / step.ratio
    return _Bar(
        title,
        value.value,
        start,
        None if step.lo is None or step.hi is None else (start * step.lo, start * step.hi),
        f"{said}, {ratio_text(step)}",
        (_GREEN if is_gain else _ORANGE) if step.is_clear else MUTED,
    )


def _paint(axes: Axes, row: int, bar: _Bar, scale: float) -> None:
    end = 0.0 if bar.end is None else bar.end * scale
    start = end if bar.start is None else bar.start * scale
    axes.barh(row, end, height=0.6, color=FAINT, zorder=2)
    axes.barh(row, end - start, left=start, height=0.6, color=bar.colour, zorder=3)
    right = max(start, end)
    if row and bar.start is not None:  # where the level above ended
        axes.plot([start, start], [row - 0.7, row + 0.3], color=MUTED, linewidth=0.8, zorder=4)
    if bar.ends is not None:
        low, high = (end_of * scale for end_of in bar.ends)
        axes.plot([low, high], [row, row], color=INK, linewidth=1.2, zorder=5)
        right = max(right, high)
    axes.annotate(
        bar.text, (right, row), xytext=(6, 0), textcoords="offset points", va="center", color=INK
    )


def _scale(unit: str, top: float) -> tuple[float, str]:
    """By what values are multiplied for the axis, and the unit that they then have."""
    if unit != "s" or top >= 1:
        return 1.0, unit
    return 1e3, "ms"
