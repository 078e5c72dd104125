"""The glossary as plain strings: the words that tables use, all words, and one word by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from harness.analyzer.glossary import Entry, Kind
from harness.gate.cells import Cell, Column, Table

_FACTS: tuple[tuple[str, Callable[[Entry], str]], ...] = (
    ("Means", lambda entry: entry.definition),
    ("Formula", lambda entry: entry.formula),
    ("Unit", lambda entry: entry.unit),
    ("Better", lambda entry: entry.better),
    ("Weighting", lambda entry: entry.weighting),
    ("Read from", lambda entry: entry.source),
    ("Remedy", lambda entry: entry.remedy),
    ("In files", lambda entry: entry.name if entry.kind is Kind.METRIC else ""),
)


def words_in(tables: Iterable[Table]) -> Iterator[str]:
    """The words that explain heads and cells of `tables`, some of them more than once."""
    for table in tables:
        yield from (column.word for column in table.columns)
        yield from (cell.term for row in table.rows for cell in row if cell.term)


def glossary_table(entries: Sequence[Entry]) -> Table:
    """All that is said of each word; what none of them has, such as a unit, has no column."""
    shown = [(head, text) for head, text in _FACTS if any(map(text, entries))]
    rows = tuple(
        (Cell(entry.title, term=entry.name), *(Cell(text(entry)) for _, text in shown))
        for entry in entries
    )
    return Table("Definitions", (Column("Word"), *(Column(head) for head, _ in shown)), rows)


def word_table(entries: Sequence[Entry]) -> Table:
    """A list of words, each with what it means."""
    rows = tuple((Cell(entry.title), Cell(entry.definition)) for entry in entries)
    return Table("Glossary", (Column("Word"), Column("Means")), rows)


def entry_table(entry: Entry) -> Table:
    """All that is said of one word, a fact a row."""
    facts = [(head, text(entry)) for head, text in _FACTS]
    facts.append(("Also", ", ".join(entry.also)))
    rows = tuple((Cell(head), Cell(text)) for head, text in facts if text)
    return Table(entry.title, (Column("What"), Column("Value")), rows)
