"""A table as plain strings: what a page, a terminal and a text file all draw from.

A cell's `note` explains it (a definition, a phrase, a reason); its `tone` says what it means for
the reader, never how that looks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from harness.gate import formatting


class Align(StrEnum):
    """Where the text of a column stands. Numbers stand right, so that digits line up."""

    LEFT = "left"
    RIGHT = "right"


class Tone(StrEnum):
    """What a cell means for the reader."""

    PLAIN = "plain"
    MUTED = "muted"
    STRONG = "strong"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column. `is_id`: what stands in it is copied, so it stays on one line.

    `term` is the word of the glossary that explains it, where the title is not that word itself.
    `is_mixed`: the unit changes from row to row, so that its cells have no order.
    """

    title: str
    align: Align = Align.LEFT
    is_id: bool = False
    term: str = ""
    is_mixed: bool = False

    @property
    def word(self) -> str:
        """What to look up to have the column explained."""
        return self.term or self.title


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text, what explains it, and its tone.

    `exact` is the number that the text was rounded from, in the unit of the metric: by it rows are
    sorted. `term` is the word of the glossary that explains it. `link` is the address of a page
    about it, from where the table's own page is.
    """

    text: str
    note: str = ""
    tone: Tone = Tone.PLAIN
    exact: float | None = field(default=None, compare=False)
    term: str = field(default="", compare=False)
    link: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under columns; the first cell of a row names the row. `notes` stand below."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


class Reasons:
    """Numbers the reasons why values are missing, so that each is written once, below the table."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def cell(self, reason: str | None, text: str = formatting.NOT_MEASURED) -> Cell:
        """The cell of a value that does not exist: `text`, and the number of its reason."""
        said = reason or "no reason was recorded"
        number = self._numbers.setdefault(said, len(self._numbers) + 1)
        return Cell(f"{text}{_raised(number)}", said, Tone.MUTED)

    @property
    def notes(self) -> tuple[str, ...]:
        """The reasons, each behind its number."""
        return tuple(f"{_raised(number)} {reason}" for reason, number in self._numbers.items())


def _raised(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
