"""A drawing that stands inside an HTML page beside others, or alone in a file of its own."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from textwrap import fill
from typing import IO, Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import get_named_colors_mapping
from matplotlib.figure import Figure as Drawing

from harness.core.plot_flags import Form
from harness.gate import formatting
from reports.inline_svg import inline, series_id, with_series

Floats = npt.NDArray[np.float64]

# Colours that painters name, and that are known only once it is known where the drawing will stand.
INK, MUTED, FAINT, SURFACE = ("page:ink", "page:muted", "page:faint", "page:surface")
_LIGHT = {INK: "#1c2024", MUTED: "#5b646d", FAINT: "#dfe3e7", SURFACE: "#ffffff"}
_DARK = {INK: "#e6e9ec", MUTED: "#9aa4ad", FAINT: "#2c3238", SURFACE: "#14171a"}
# Stand-ins inside a page, where the page's own colours replace them.
_STAND_INS = {INK: "#010203", MUTED: "#010204", FAINT: "#010205", SURFACE: "#010206"}
_PAGE_COLOURS = {
    stand_in: f"var(--{name.removeprefix('page:')}, {_LIGHT[name]})"
    for name, stand_in in _STAND_INS.items()
}
# Requests and steps are thinned to this many before they are drawn: more cannot be told apart.
MOST_POINTS = 600
# So many places of a series tell their value; more would lie closer than a pointer can tell.
MOST_SPOTS = 100
_LABEL_CHARS = 34
_SHORT_LABEL = 26
_FILE_DPI = 200
_CHARS_AN_INCH = 15
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
    "pdf.fonttype": 42,  # whole fonts, which journals ask for
    "savefig.facecolor": "none",
    "svg.fonttype": "none",  # text stays text: it can be searched, and takes the page's font
    "text.parse_math": False,  # a $ in a name is a $
    "xtick.color": MUTED,
    "xtick.labelsize": 8.5,
    "ytick.color": MUTED,
    "ytick.labelsize": 8.5,
}
# What each format calls the title and the words that are written into it beside the drawing, and
# what it would write by itself and must not, so that the same drawing is the same file.
_SAID = {
    Form.SVG: ("Title", "Description", ("Creator", "Date")),
    Form.PNG: ("Title", "Description", ("Software",)),
    Form.PDF: ("Title", "Subject", ("Creator", "Producer", "CreationDate")),
}


def axis_end(top: float) -> float:
    """An axis end above `top`, never 0: equal values, or only zeros, still make an axis."""
    return top * 1.02 if top > 0 else 1.0


def label(text: str) -> str:
    """`text` as a label in a drawing: one line, short, and never hidden by a leading underscore."""
    line = formatting.one_line(text, _LABEL_CHARS) or "unnamed"
    return f"\u200b{line}" if line.startswith("_") else line


def legend_columns(names: Sequence[str]) -> int:
    """How many names of a legend have room beside each other below a drawing of usual width."""
    return 1 if max(map(len, names)) > _SHORT_LABEL else 2


def legend_below(axes: Axes, columns: int) -> None:
    """A legend of what is on `axes`, below them, where it covers nothing that is drawn."""
    drawing = axes.get_figure(root=True)
    if drawing is not None:
        drawing.legend(
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            labelcolor=INK,
            handlelength=2.8,
        )


def in_series(name: str, *artists: Artist) -> None:
    """Make `artists` part of the series `name`, which a reader of a page can switch off."""
    for artist in artists:
        artist.set_gid(series_id(name))


@dataclass(frozen=True, slots=True)
class Spots:
    """Where a series tells its value: x and y in the numbers of `axes`, and what is said there."""

    axes: Axes
    series: str
    points: Sequence[tuple[float, float, str]]


@dataclass(frozen=True, slots=True)
class SeriesPoints:
    """What a reader may point at in one series: the `<g data-series="NAME">` of the same name.

    `points` are (x, y, what is said there), at most MOST_POINTS of them; x and y are those of the
    SVG's viewBox. A series without a `<g>` cannot be switched off.
    """

    series: str
    points: tuple[tuple[float, float, str], ...]


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


Paint = Callable[[list[Axes]], Sequence[Spots]]


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawing that is made when it is asked for: `paint` draws it on the axes of `frame`.

    The rows of axes share one x axis. The same picture always gives the same text.
    """

    frame: Frame
    paint: Paint

    @property
    def svg(self) -> str:
        """One `<svg>` element for a page; its text takes colours and font from the page."""
        return self._for_page[0]

    @property
    def points(self) -> tuple[SeriesPoints, ...]:
        """What a reader may point at in `svg`, one for each series that has any."""
        return self._for_page[1]

    def write(self, file: IO[bytes], form: Form, context: str, *, is_dark: bool = False) -> None:
        """Write the drawing, alone, to `file`; `context` stands below its title.

        Colours are fixed: a program that shows the file may not know those of a page.
        """
        colours = _DARK if is_dark else _LIGHT
        title, words, unsaid = _SAID[form]
        metadata: dict[str, Any] = {title: self.frame.title, words: self.frame.description}
        metadata |= dict.fromkeys(unsaid)
        with _styled(self.frame, colours):
            drawing, _ = self._painted()
            wrapped = fill(formatting.one_line(context), int(self.frame.width_in * _CHARS_AN_INCH))
            heading = f"{formatting.one_line(self.frame.title)}\n{wrapped}"
            drawing.suptitle(heading, x=0.01, ha="left", color=INK, fontsize=9)
            whole = io.BytesIO()
            drawing.savefig(
                whole, format=form, dpi=_FILE_DPI, facecolor=colours[SURFACE], metadata=metadata
            )
        is_text = form is Form.SVG
        file.write(with_series(whole.getvalue().decode()).encode() if is_text else whole.getvalue())

    @cached_property
    def _for_page(self) -> tuple[str, tuple[SeriesPoints, ...]]:
        with _styled(self.frame, _STAND_INS):
            drawing, spots = self._painted()
            buffer = io.StringIO()
            nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
            drawing.savefig(buffer, format="svg", metadata=nothing)
            title, words = self.frame.title, self.frame.description
            svg = inline(buffer.getvalue(), self.frame.name, (title, words), _PAGE_COLOURS)
            return svg, tuple(_pointed_at(drawing, spots))

    def _painted(self) -> tuple[Drawing, Sequence[Spots]]:
        frame = self.frame
        size_in = (frame.width_in, frame.height_in)
        drawing = Drawing(figsize=size_in, dpi=72, layout="constrained")  # an SVG has 72 too
        FigureCanvasSVG(drawing)
        grid = drawing.subplots(
            frame.rows, 1, sharex=True, squeeze=False, height_ratios=frame.heights or None
        )
        rows = list(grid[:, 0])
        for axes in rows:
            sns.despine(ax=axes)
        return drawing, self.paint(rows)


def thinned(places: Sequence[int] | npt.NDArray[np.int64], most: int = MOST_SPOTS) -> list[int]:
    """At most `most` of `places`, evenly spread, the first and the last among them."""
    if len(places) <= most:
        return [int(place) for place in places]
    return [int(places[i]) for i in np.linspace(0, len(places) - 1, most).astype(int)]


@contextmanager
def _styled(frame: Frame, colours: Mapping[str, str]) -> Iterator[None]:
    """Our style, with `colours` for the names that painters use."""
    style: Any = {**_STYLE, "svg.hashsalt": frame.name}
    known = get_named_colors_mapping()
    for name, colour in colours.items():  # not update(): each set empties a cache
        known[name] = colour
    with mpl.rc_context(style), warnings.catch_warnings():
        # A name in a script that the font lacks only makes its width a guess.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        yield


def _pointed_at(drawing: Drawing, spots: Iterable[Spots]) -> Iterator[SeriesPoints]:
    """The spots of each series in the numbers of the viewBox; those outside the axes are left out.

    `drawing` has been drawn, so its layout is known.
    """
    height_pt = float(drawing.bbox.height)
    found: dict[str, list[tuple[float, float, str]]] = {}
    for group in spots:
        places = np.array([(x, y) for x, y, _ in group.points], dtype=np.float64).reshape(-1, 2)
        frame = group.axes.bbox.padded(1.0)
        for (x, y), (_, _, said) in zip(
            group.axes.transData.transform(places), group.points, strict=True
        ):
            if frame.contains(x, y):
                there = (round(float(x), 1), round(height_pt - float(y), 1), said)
                found.setdefault(group.series, []).append(there)
    for name, points in found.items():
        yield SeriesPoints(name, tuple(points[i] for i in thinned(range(len(points)), MOST_POINTS)))
