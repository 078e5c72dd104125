"""A matplotlib figure that becomes an SVG which can stand inside an HTML page beside others."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Drawing

from harness.gate import formatting

Floats = npt.NDArray[np.float64]

# Stand-ins that the drawing uses and the page's own colours replace.
INK, MUTED, FAINT, SURFACE = "#010203", "#010204", "#010205", "#010206"
_PAGE_COLOURS = {
    INK: "var(--ink, #1c2024)",
    MUTED: "var(--muted, #5b646d)",
    FAINT: "var(--faint, #dfe3e7)",
    SURFACE: "var(--surface, #ffffff)",
}
# Requests and steps are thinned to this many before they are drawn: more cannot be told apart.
MOST_POINTS = 600
_LABEL_CHARS = 34
_STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "figure.facecolor": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "hatch.linewidth": 0.9,
    "legend.fontsize": 8.5,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",  # text stays text: it can be searched, and takes the page's font
    "text.parse_math": False,  # a $ in a name is a $
    "xtick.color": MUTED,
    "xtick.labelsize": 8.5,
    "ytick.color": MUTED,
    "ytick.labelsize": 8.5,
}


def axis_end(top: float) -> float:
    """An axis end above `top`, never 0: equal values, or only zeros, still make an axis."""
    return top * 1.02 if top > 0 else 1.0


def label(text: str) -> str:
    """`text` as a label in a drawing: one line, short, and never hidden by a leading underscore."""
    line = formatting.one_line(text, _LABEL_CHARS) or "unnamed"
    return f"\u200b{line}" if line.startswith("_") else line


@dataclass(frozen=True, slots=True)
class Frame:
    """What surrounds a drawing: its size, the rows of axes in it, and what is read aloud.

    `name` begins every id, which keeps the ids of several drawings on one page apart. `heights` are
    those of the rows to each other; all alike when it is empty.
    """

    name: str
    title: str
    description: str
    width_in: float
    height_in: float
    rows: int = 1
    heights: tuple[float, ...] = ()


def draw(frame: Frame, paint: Callable[[list[Axes]], None]) -> str:
    """The drawing that `paint` makes on the frame's axes, as one `<svg>` element for a page.

    The same drawing always gives the same text. The rows of axes share one x axis.
    """
    buffer = io.StringIO()
    style: Any = {**_STYLE, "svg.hashsalt": frame.name}
    with mpl.rc_context(style), warnings.catch_warnings():
        # A name in a script that the font lacks only makes its width a guess.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        drawing = Drawing(figsize=(frame.width_in, frame.height_in), layout="constrained")
        FigureCanvasSVG(drawing)
        grid = drawing.subplots(
            frame.rows, 1, sharex=True, squeeze=False, height_ratios=frame.heights or None
        )
        for axes in grid[:, 0]:
            sns.despine(ax=axes)
        paint(list(grid[:, 0]))
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        drawing.savefig(buffer, format="svg", metadata=nothing)
    return _for_page(buffer.getvalue(), frame)


def _for_page(text: str, frame: Frame) -> str:
    """`text` without prologue and namespaces, with ids and colours of its own, and a title."""
    head, _, inner = text.partition("<svg")[2].partition(">")
    box = re.search(r'viewBox="([^"]+)"', head)
    # matplotlib escapes < and > in names, so whatever is between them is its own.
    inner = re.sub(r"<style.*?</style>\s*|<!--.*?-->\s*", "", inner, flags=re.DOTALL)
    inner = re.sub(r"<[^>]+>", lambda tag: _own_tag(tag.group(), frame.name), inner)
    return (
        f'<svg role="img" aria-labelledby="{frame.name}-title {frame.name}-description" '
        f'viewBox="{box.group(1) if box else ""}" style="stroke-linejoin: round">'
        f'<title id="{frame.name}-title">{escape(frame.title)}</title>'
        f'<desc id="{frame.name}-description">{escape(frame.description)}</desc>{inner.strip()}\n'
    )


def _own_tag(tag: str, name: str) -> str:
    tag = tag.replace("xlink:href=", "href=").replace(' id="', f' id="{name}-')
    tag = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", tag)
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = re.sub(r"(\.\d\d)\d+", r"\1", tag)  # a hundredth of a point cannot be seen
    tag = re.sub(r' transform="rotate\(-?0 [^"]*"', "", tag)
    for stand_in, colour in _PAGE_COLOURS.items():
        tag = tag.replace(stand_in, colour)
    return tag
