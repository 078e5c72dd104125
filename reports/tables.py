"""Tables of harness.gate as text to be pasted elsewhere: Markdown and CSV."""

from __future__ import annotations

import csv
import html
import io
import re

from harness.gate import formatting
from harness.gate.cells import Align, Table


def to_markdown(table: Table) -> str:
    """`table` as a GitHub table, its notes below. Text is shown as it is, never as markup."""
    rules = ["---:" if column.align is Align.RIGHT else "---" for column in table.columns]
    lines = [[column.title for column in table.columns]]
    lines += [[cell.text for cell in row] for row in table.rows]
    rendered = [_markdown_row([_literal(text) for text in line]) for line in lines]
    rendered.insert(1, _markdown_row(rules))
    notes = "".join(f"\n{_literal(note)}\n" for note in table.notes)
    return "\n".join(rendered) + "\n" + notes


def to_csv(table: Table) -> str:
    """`table` as CSV with a header row: what the cells show, their units included."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(column.title for column in table.columns)
    writer.writerows([cell.text for cell in row] for row in table.rows)
    return buffer.getvalue()


def _markdown_row(texts: list[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _literal(text: str) -> str:
    """`text` on one line, with nothing in it that Markdown would read as markup."""
    line = html.escape(formatting.one_line(text, chars=1000), quote=False)
    return re.sub(r"([\\`*_{}\[\]|~#@!$])", r"\\\1", line)
