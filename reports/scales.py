"""Axes of times, whose ends may lie so far apart that only logarithms show both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from harness.gate import formatting
from reports.svg import axis_end

Way = Literal["x", "y"]

LOG_NOTE = "Its axis of times is logarithmic and does not begin at 0."
# The steps between ticks, by how far the ends of a logarithmic axis are apart: two ticks at least.
_STEPS = (
    (3000.0, (1.0,)),
    (200.0, (1.0, 3.0)),
    (6.0, (1.0, 2.0, 5.0)),
    (0.0, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)),
)
_NARROWEST = 2.5
_MARGIN = 1.12


def log_ends(values: Iterable[float]) -> tuple[float, float] | None:
    """Ends of a logarithmic axis around finite `values`; None where one of them is not above 0.

    Equal values, too, get an axis, with at least two ticks.
    """
    known = list(values)
    if not known or min(known) <= 0:
        return None
    low, high = min(known) / _MARGIN, max(known) * _MARGIN
    stretch = max(np.sqrt(_NARROWEST / (high / low)), 1.0)
    return float(low / stretch), float(high * stretch)


def show_seconds(axes: Axes, name: Way, top_s: float, ends_s: tuple[float, float] | None) -> None:
    """Make an axis one of seconds: logarithmic between `ends_s`, or from 0 when that is None."""
    if ends_s is None:
        axes.set(**{f"{name}lim": (0, axis_end(top_s) * 1.05)})
    else:
        show_log(axes, name, ends_s)
    _axis(axes, name).set_major_formatter(lambda value, _: formatting.seconds(value))


def show_log(axes: Axes, name: Way, ends: tuple[float, float]) -> None:
    """Make an axis logarithmic between `ends`, both above 0."""
    axes.set(**{f"{name}scale": "log", f"{name}lim": ends})
    axis, apart = _axis(axes, name), ends[1] / ends[0]
    axis.set_major_locator(LogLocator(subs=next(s for least, s in _STEPS if apart >= least)))
    axis.set_minor_locator(NullLocator())


def _axis(axes: Axes, name: Way) -> Any:
    return axes.xaxis if name == "x" else axes.yaxis
