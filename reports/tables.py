"""Tables of harness.gate as text to be pasted elsewhere: Markdown, and LaTeX for papers."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from harness.gate import formatting
from harness.gate.cells import Align, Table

# Names and messages that are longer are cut.
_CELL_CHARS = 1000
# Longer text than this is broken into lines on paper.
_LINE_CHARS = 40
_PREAMBLE = r"% In the preamble: \usepackage[T1]{fontenc} \usepackage{booktabs}"
# What LaTeX reads as more than itself; brackets and stars do so after the end of a row.
_LATEX = {
    **{c: f"\\{c}" for c in "{}$&#%_"},
    **{c: f"{{{c}}}" for c in "[]*"},
    **{c: f"\\textsuperscript{{{i}}}" for i, c in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "µ": r"\textmu{}",
}


def to_markdown(table: Table) -> str:
    """`table` as a GitHub table, its notes below. Text is shown as it is, never as markup."""
    rules = ["---:" if column.align is Align.RIGHT else "---" for column in table.columns]
    lines = [[column.title for column in table.columns]]
    lines += [[cell.text for cell in row] for row in table.rows]
    rendered = [_markdown_row([_literal(text) for text in line]) for line in lines]
    rendered.insert(1, _markdown_row(rules))
    notes = "".join(f"\n{_literal(note)}\n" for note in table.notes)
    return "\n".join(rendered) + "\n" + notes


def markdown_page(said: Sequence[str], tables: Iterable[Table]) -> str:
    """Sentences that come before all else, then each of `tables` that has rows below its title."""
    parts = [f"**{_literal(line)}**\n" for line in said]
    parts += [f"### {_literal(t.title)}\n\n{to_markdown(t)}" for t in tables if t.rows]
    return "\n".join(parts)


def to_latex(table: Table) -> str:
    """`table` with the rules of booktabs, its title as the caption and its notes below.

    Text is shown as it is, never as a command.
    """
    aligned = "".join(_alignments(table))
    lines = [
        r"\begin{table}",
        r"\centering",
        f"\\caption{{{as_latex(table.title)}}}",
        f"\\begin{{tabular}}{{{aligned}}}",
        r"\toprule",
        _latex_row(column.title for column in table.columns),
        r"\midrule",
        *(_latex_row(cell.text for cell in row) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        *(f"\n{{\\footnotesize {as_latex(note)}}}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex_page(said: Sequence[str], tables: Iterable[Table]) -> str:
    """Sentences that come before all else, then each of `tables` that has rows."""
    parts = [f"\\textbf{{{as_latex(line)}}}\n" for line in said]
    parts += [to_latex(table) for table in tables if table.rows]
    return "\n".join([_PREAMBLE, *parts])


def as_latex(text: str) -> str:
    """`text` on one line, with every sign that LaTeX reads as more than itself escaped."""
    escaped = "".join(_LATEX.get(c, c) for c in formatting.one_line(text, _CELL_CHARS))
    return re.sub(r"([-,])(?=\1)", r"\1{}", escaped)  # two of them would become one sign


def _alignments(table: Table) -> list[str]:
    """What each column is to tabular: long text is broken into lines, numbers stand right."""
    texts = [[row[i].text for row in table.rows] for i in range(len(table.columns))]
    is_long = [max(map(len, column), default=0) > _LINE_CHARS for column in texts]
    broken = f"p{{{0.8 / max(sum(is_long), 1):.2g}\\linewidth}}"
    plain = ["r" if column.align is Align.RIGHT else "l" for column in table.columns]
    return [broken if long else plain[i] for i, long in enumerate(is_long)]


def _latex_row(texts: Iterable[str]) -> str:
    return " & ".join(map(as_latex, texts)) + r" \\"


def _markdown_row(texts: list[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _literal(text: str) -> str:
    """`text` on one line, with nothing in it that Markdown would read as markup."""
    line = html.escape(formatting.one_line(text, _CELL_CHARS), quote=False)
    return re.sub(r"([\\`*_{}\[\]|~#@!$])", r"\\\1", line)
