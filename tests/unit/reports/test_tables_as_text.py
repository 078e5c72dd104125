from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from harness.gate.cells import Align, Cell, Column, Table
from reports.tables import to_csv, to_markdown

COLUMNS = (Column("Metric"), Column("Value", Align.RIGHT))


def table(*texts: str) -> Table:
    return Table("t", COLUMNS, tuple((Cell(text), Cell("1")) for text in texts), ("¹ why",))


def test_numbers_stand_right_in_markdown_and_notes_below() -> None:
    assert to_markdown(table("tok/s")) == (
        "| Metric | Value |\n| --- | ---: |\n| tok/s | 1 |\n\n¹ why\n"
    )


def test_markup_in_a_cell_is_shown_and_not_followed() -> None:
    line = to_markdown(table("a|b <img> `c` [d](e) *f*\ng")).splitlines()[2]
    assert line == r"| a\|b &lt;img&gt; \`c\` \[d\](e) \*f\* g | 1 |"


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\0"))))
def test_any_text_comes_back_from_csv(texts: list[str]) -> None:
    rows = list(csv.reader(io.StringIO(to_csv(table(*texts)), newline="")))
    assert rows == [["Metric", "Value"], *([text, "1"] for text in texts)]


@given(st.text())
def test_a_cell_never_breaks_a_markdown_row(text: str) -> None:
    lines = to_markdown(table(text)).split("\n")
    assert len(lines) == 6
    assert lines[2].endswith(" | 1 |")
