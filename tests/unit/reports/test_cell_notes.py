"""Notes on cells: where they are found on a page, and that nothing is said twice."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from harness.analyzer.glossary import find_entry
from harness.gate.cells import Cell, Column, Reasons, Table
from harness.gate.duel import Duel
from reports.cell_notes import MOST_NAMED, CellNotes
from reports.duel_page import render_duel

COLUMNS = (Column("Run"), Column("a"), Column("b"))


def notes(*rows: tuple[Cell, ...], below: tuple[str, ...] = (), known: str = "") -> dict[str, str]:
    """What each note is about, by its text."""
    found = CellNotes(lambda word: word * (word == known), {"said before"})
    return {text: n.where for text, n in found.of(Table("", COLUMNS, rows, below)).items()}


def row(name: str, a: str = "", b: str = "") -> tuple[Cell, ...]:
    return Cell(name), Cell("1", a), Cell("2", b)


def test_a_note_names_its_row_and_its_column() -> None:
    assert notes(row("x", a="slow"), row("y", b="quick")) == {"slow": "x (a)", "quick": "y (b)"}


def test_cells_with_one_note_share_it() -> None:
    rows = [row(name, a="noise", b="noise") for name in "xyz"]
    assert notes(*rows, row("w", a="noise")) == {"noise": "x; y; z (all columns); w (a)"}


def test_of_many_rows_the_first_are_named_and_the_others_counted() -> None:
    found = notes(*(row(f"run {i}", a="gone") for i in range(2_000)))
    names = "; ".join(f"run {i}" for i in range(MOST_NAMED))
    assert found == {"gone": f"{names} and 1,994 more (a)"}


def test_the_note_of_a_name_of_a_row_needs_no_column() -> None:
    assert notes((Cell("x", "its name"), Cell("1"), Cell("2"))) == {"its name": "x"}


def test_rows_that_begin_alike_are_told_apart_by_what_comes_next() -> None:
    rows = [(Cell("4 req/s"), Cell(name), Cell("", why)) for name, why in (("x", ""), ("y", "no"))]
    assert notes(*rows) == {"no": "4 req/s, y (b)"}


def test_what_the_page_says_elsewhere_is_not_said_again() -> None:
    reasons = Reasons()
    missing = reasons.cell("too few")
    word = Cell("x", "what x means", term="x")
    rows = ((word, missing, Cell("2", "said before")),)
    assert notes(*rows, below=reasons.notes, known="x") == {}
    assert notes(*rows) == {"what x means": "x", "too few": "x (a)"}
    assert notes((Cell("x"), Cell("1.5x", "1.5x output tok/s vs y (m, h)"), Cell(""))) == {}


def test_every_note_of_a_page_is_in_a_list_and_its_cells_know_its_number(
    build: Any, clear_duel: Any
) -> None:
    found: Duel = clear_duel()
    text = render_duel(found, [build.manifest()])
    listed = dict(re.findall(r'<span id="note-(\d+)">(.*?)</span>', text))
    assert set(re.findall(r'data-note="(\d+)"', text)) == set(listed)
    assert len(listed) == text.count('<span id="note-')
    by_pair = next(n for n in listed.values() if n.startswith("by pair: ") and "tok/s" in n)
    assert by_pair.count("tok/s") == 5
    said = [unescape(note) for note in listed.values()]
    assert find_entry("output_tok_s").definition not in "".join(said)
    assert " title=" not in text.partition("<main")[2]
