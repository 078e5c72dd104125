"""What explains single cells of a table, as a list that stands below it.

A page that says it on the cell itself says it to a pointer, and to nobody who reads by touch, by
keyboard or by ear. The script lets a pointer read it on the cell too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from harness.gate.cells import Cell, Table

# Of more rows that share a note the first are named, and the others counted.
MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class CellNote:
    """One note: its number on the page, and which cells it is about."""

    number: int
    where: str


@dataclass(slots=True)
class CellNotes:
    """The notes of a page, table by table, numbered through.

    `anchor` names the place of the page that defines a word, if one does, and `definitions` are all
    that it has: what they say is not said again.
    """

    anchor: Callable[[str], str]
    definitions: Collection[str]
    _count: int = field(default=0, init=False)

    def of(self, table: Table) -> dict[str, CellNote]:
        """The notes of the cells of `table`, each once, in the order in which they are met.

        Left out is what the page says elsewhere: below the table, or in its definitions.
        """
        said = {
            tail
            for below in table.notes
            for tail in (below, below.partition(" ")[2], below.partition(": ")[2])
        }
        places: dict[str, list[tuple[int, int]]] = {}
        for i, row in enumerate(table.rows):
            for j, cell in enumerate(row):
                if cell.note and cell.note not in said and not self._is_said(cell):
                    places.setdefault(cell.note, []).append((i, j))
        names = _row_names(table)
        heads = [column.title for column in table.columns]
        return {
            note: self._note("; ".join(_places(cells, names, heads)))
            for note, cells in places.items()
        }

    def _is_said(self, cell: Cell) -> bool:
        return (
            cell.note in self.definitions
            or bool(cell.term and self.anchor(cell.term))
            # The cell as a whole sentence, of which the heads and the caption say the rest.
            or cell.note.startswith(f"{cell.text} ")
        )

    def _note(self, where: str) -> CellNote:
        self._count += 1
        return CellNote(self._count, where)


def _places(
    cells: Sequence[tuple[int, int]], names: Sequence[str], heads: Sequence[str]
) -> Iterator[str]:
    """Such as `TTFT p50; TTFT p90 (a, b)`: rows, and in brackets the columns that they share."""
    by_row: dict[int, list[int]] = {}
    for row, column in cells:
        by_row.setdefault(row, []).append(column)
    alike: dict[tuple[int, ...], list[str]] = {}
    for row, columns in by_row.items():
        alike.setdefault(tuple(columns), []).append(names[row])
    for shared, named in alike.items():
        is_all = len(shared) > 1 and shared == tuple(range(1, len(heads)))
        listed = "all columns" if is_all else ", ".join(heads[j] for j in shared)
        yield _listed(named) + (f" ({listed})" if shared != (0,) else "")


def _row_names(table: Table) -> list[str]:
    """What each row begins with: its first cell, and the next one where several begin alike."""
    firsts = Counter(row[0].text for row in table.rows)
    return [
        ", ".join(cell.text for cell in row[: 1 if firsts[row[0].text] == 1 else 2])
        for row in table.rows
    ]


def _listed(names: list[str]) -> str:
    rest = len(names) - MOST_NAMED
    more = f" and {rest:,} more" if rest > 0 else ""
    return "; ".join(names[:MOST_NAMED]) + more
