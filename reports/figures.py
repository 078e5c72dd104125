"""What a figure of a page is, and the colours of engines, which they keep from page to page.

Nothing is measured where figures are drawn: all requests and steps are read, and thinned only for
drawing. Text in a figure takes its colour from the page, so that light and dark need one drawing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import seaborn as sns

from reports.svg import Picture, SeriesPoints

# Seaborn's, without those hard to see on white or black.
_COLOURS = (0, 1, 2, 3, 4, 9, 5, 7)
# With this number no two of the engines that often meet in a report lead to one colour.
_SALT = 500_267
_DASHES = ("solid", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the page: a `picture`, or None with the `reason` that is printed in its place."""

    title: str
    caption: str
    picture: Picture | None
    reason: str = ""
    is_wide: bool = False

    @property
    def svg(self) -> str | None:
        """The drawing as an element of a page; None when there is none."""
        return None if self.picture is None else self.picture.svg

    @property
    def points(self) -> tuple[SeriesPoints, ...]:
        """What a reader may point at in the drawing."""
        return () if self.picture is None else self.picture.points


def engine_colours(engines: Sequence[str]) -> dict[str, str]:
    """A colour for each engine, in the order given: by its name alone, the same in every report.

    Where two names lead to one colour, the first by the alphabet has it and the other takes the
    next free one; more than eight engines have to share.
    """
    palette = [str(colour) for colour in sns.color_palette("colorblind").as_hex()]
    names = sorted(set(engines))
    places: dict[str, int] = {}
    for name in names:
        if (home := _home(name)) not in places.values():
            places[name] = home
    for name in names:
        if name not in places:
            rest = [(_home(name) + i) % len(_COLOURS) for i in range(len(_COLOURS))]
            places[name] = next((p for p in rest if p not in places.values()), rest[0])
    return {name: palette[_COLOURS[places[name]]] for name in dict.fromkeys(engines)}


def engine_lines(colours: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """How the line of each engine looks: by its dashes, too, it can be told from the others."""
    return {
        engine: {"color": colour, "linestyle": _DASHES[i % len(_DASHES)]}
        for i, (engine, colour) in enumerate(colours.items())
    }


def _home(name: str) -> int:
    digest = hashlib.sha256(f"{_SALT}:{name}".encode(errors="surrogateescape")).digest()
    return digest[-1] % len(_COLOURS)
