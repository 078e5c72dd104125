"""The figure of how a time is distributed over the requests of each run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from harness.analyzer.estimators import floor_n, percentile
from harness.gate import formatting
from reports.figures import Figure, engine_lines
from reports.scales import LOG_NOTE, log_ends, show_seconds
from reports.svg import (
    FAINT,
    MOST_POINTS,
    Floats,
    Frame,
    Picture,
    Spots,
    in_series,
    label,
    legend_below,
    legend_columns,
    thinned,
)

PERCENTS = (50, 90, 99)
_TICKS = {0.0: "0 %", 0.25: "25 %", 0.5: "p50", 0.75: "75 %", 0.9: "p90", 0.99: "p99"}


@dataclass(frozen=True, slots=True)
class Samples:
    """One value per request that was sent, in seconds; `inf` for a request that failed."""

    engine: str
    values_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """The values of one run in their order, +inf last; `run` says which of several it is."""

    engine: str
    run: str
    ordered: Floats

    @property
    def finite(self) -> int:
        """How many requests have a time."""
        return int(np.isfinite(self.ordered).sum())


def distribution(
    name: str, title: str, samples: Sequence[Samples], colours: Mapping[str, str]
) -> Figure:
    """Which share of requests took at most so long, a curve a run. A failed one never arrives."""
    caption = "Share of the requests sent that took at most so long; further left is better."
    curves = list(_curves(samples))
    ended = [curve.ordered[: curve.finite] for curve in curves if curve.finite]
    if not ended:
        return Figure(title, caption, None, "no request of any run has this time")
    ends_s = log_ends(value for times in ended for value in (times[0], times[-1]))
    top_s = max(float(times[-1]) for times in ended)
    engines = list(dict.fromkeys(curve.engine for curve in curves))
    caption += _notes(curves, is_log=ends_s is not None)
    looks, columns = engine_lines(colours), legend_columns(engines)

    def paint(rows: list[Axes]) -> list[Spots]:
        (axes,) = rows
        show_seconds(axes, "x", top_s, ends_s)
        spots = [_paint_curve(axes, curve, dict(looks[curve.engine])) for curve in curves]
        for engine in engines:
            axes.plot([], [], label=label(engine), **looks[engine])
        axes.set(ylim=(0, 1.02), ylabel="requests", yticks=list(_TICKS))
        axes.set_yticklabels(list(_TICKS.values()))
        axes.grid(visible=True, color=FAINT, linewidth=0.6)
        legend_below(axes, columns)
        return spots

    height_in = 3.1 + 0.2 * -(-len(engines) // columns)
    frame = Frame(name, title, "; ".join(_spoken(curves)), 5.2, height_in)
    return Figure(title, caption, Picture(frame, paint))


def _curves(samples: Sequence[Samples]) -> Iterator[_Curve]:
    counts: dict[str, int] = {}
    totals = [sample.engine for sample in samples]
    for sample in samples:
        counts[sample.engine] = counts.get(sample.engine, 0) + 1
        run = f"run {counts[sample.engine]}, " if totals.count(sample.engine) > 1 else ""
        ordered = np.sort(sample.values_s[~np.isnan(sample.values_s)])
        if ordered.size:
            yield _Curve(sample.engine, run, ordered)


def _notes(curves: Sequence[_Curve], *, is_log: bool) -> str:
    """What else the caption says of what is drawn."""
    said = []
    if is_log:
        said.append(LOG_NOTE)
    if any(curve.run for curve in curves):
        said.append("One curve a run.")
    if any(curve.ordered.size >= floor_n(PERCENTS[0]) for curve in curves):
        said.append("Dots: percentiles that the number of requests supports.")
    if any(curve.finite < curve.ordered.size for curve in curves):
        said.append("A failed request keeps its curve below the top.")
    return "".join(f" {sentence}" for sentence in said)


def _paint_curve(axes: Axes, curve: _Curve, looks: dict[str, object]) -> Spots:
    x, y = _steps(curve.ordered, *axes.get_xlim())
    lines = axes.step(x, y, where="post", linewidth=1.6, **looks)  # type: ignore[arg-type]
    marks = list(_marks(curve.ordered))
    dots = axes.plot(
        [value for _, value in marks],
        [percent / 100 for percent, _ in marks],
        "o",
        markersize=4,
        color=str(looks["color"]),
    )
    in_series(curve.engine, *lines, *dots)
    size = curve.ordered.size
    points = [
        (float(curve.ordered[i]), (i + 1) / size, f"{i + 1} of {size} within")
        for i in thinned(range(curve.finite))
    ]
    points += [(value, percent / 100, f"p{percent}") for percent, value in marks]
    said = [(x, y, f"{curve.run}{what} {formatting.seconds(x)}") for x, y, what in sorted(points)]
    return Spots(axes, curve.engine, said)


def _marks(ordered: Floats) -> Iterator[tuple[int, float]]:
    """The percentiles that are no failure and that so many values support."""
    for percent in PERCENTS:
        if ordered.size >= floor_n(percent):
            value = percentile(ordered, percent)
            if math.isfinite(value):
                yield percent, value


def _steps(ordered: Floats, start_s: float, end_s: float) -> tuple[Floats, Floats]:
    """The empirical distribution as steps: at most MOST_POINTS of them, the first and last kept."""
    finite = int(np.isfinite(ordered).sum())
    ranks = np.unique(np.linspace(1, finite, min(finite, MOST_POINTS)).astype(int))
    x = np.concatenate([[start_s], ordered[ranks - 1], [end_s]])
    y = np.concatenate([[0.0], ranks / ordered.size, [finite / ordered.size]])
    return x, y


def _spoken(curves: Sequence[_Curve]) -> Iterator[str]:
    for curve in curves:
        middle_s = percentile(curve.ordered, 50)
        within = formatting.seconds(middle_s)
        half = "not half have it" if math.isinf(middle_s) else f"half within {within}"
        yield f"{curve.engine}: {curve.run}{half}"
