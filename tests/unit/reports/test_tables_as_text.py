from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.gate.cells import Align, Cell, Column, Table
from harness.gate.formatting import one_line
from reports.tables import as_latex, latex_page, markdown_page, to_latex, to_markdown

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


@given(st.text())
def test_a_cell_never_breaks_a_markdown_row(text: str) -> None:
    lines = to_markdown(table(text)).split("\n")
    assert len(lines) == 6
    assert lines[2].endswith(" | 1 |")


def test_a_page_says_first_what_was_allowed_and_leaves_empty_tables_out() -> None:
    tables = (table("a"), table())
    assert markdown_page(["NOT *ALIKE*"], tables).splitlines()[0] == r"**NOT \*ALIKE\***"
    assert markdown_page([], tables).count("### t") == 1
    assert latex_page(["NOT_ALIKE"], tables).splitlines()[1] == r"\textbf{NOT\_ALIKE}"
    assert latex_page([], tables).count(r"\begin{table}") == 1


def test_a_latex_table_has_the_rules_of_booktabs() -> None:
    assert to_latex(table("50 % of $x_1$")) == (
        "\\begin{table}\n\\centering\n\\caption{t}\n\\begin{tabular}{lr}\n\\toprule\n"
        "Metric & Value \\\\\n\\midrule\n50 \\% of \\$x\\_1\\$ & 1 \\\\\n\\bottomrule\n"
        "\\end{tabular}\n\n{\\footnotesize \\textsuperscript{1} why}\n\\end{table}\n"
    )


def test_long_text_is_broken_into_lines_on_paper() -> None:
    assert r"\begin{tabular}{p{0.8\linewidth}r}" in to_latex(table("long " * 20))


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("--attach", "-{}-attach"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("*[2em]", "{*}{[}2em{]}"),
        ("a\n\nb", "a b"),
        ("74 µs¹²", r"74 \textmu{}s\textsuperscript{1}\textsuperscript{2}"),
        ("`''\"", r"\textasciigrave{}\textquotesingle{}\textquotesingle{}\textquotedbl{}"),
    ],
)
def test_what_means_something_to_latex_is_escaped(text: str, escaped: str) -> None:
    assert as_latex(text) == escaped


@given(st.text(st.sampled_from("\\{}$&#%_[]*^~<>|\"'`µ-,¹ ab\n")))
def test_latex_gives_every_text_back(text: str) -> None:
    named = {
        "textbackslash": "\\", "textasciicircum": "^", "textasciitilde": "~", "textless": "<",
        "textgreater": ">", "textbar": "|", "textquotedbl": '"', "textquotesingle": "'",
        "textasciigrave": "`", "textmu": "µ",
    }  # fmt: skip
    given_back = re.sub(
        r"\\(text[a-z]+)\{(\d?)\}|\\([{}$&#%_])|\{([\[\]*])\}|\{\}|([\\{}$&#%_^~])",
        lambda m: named.get(m[1] or "") or ("¹" if m[2] else m[3] or m[4] or ("!" if m[5] else "")),
        as_latex(text),
    )
    assert given_back == one_line(text, 1000)
