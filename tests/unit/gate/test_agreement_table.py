from __future__ import annotations

from collections.abc import Sequence

from harness.gate.agreement import Agreement, Answers
from harness.gate.agreement_table import ROWS, agreement_table
from harness.gate.comparison import ComparisonTable

SIDE = Answers(12, 64, 128, 0, 70.25, 32, 100, 400.0)
BASE = Answers(12, 1000, 2000, 3, 1070.0, 500, 1500, 400.0)
DIFFERING = Agreement(BASE, SIDE, "token", 12, 3, 18, (1, 0, 2, 4, 0, 2), 6, lengths_p=0.0001)
ALIKE = Agreement(SIDE, SIDE, "character", 12, 12, None, (0,) * 6, 0, lengths_p=0.51)
UNKNOWN = Agreement(Answers(1, None, None, None), SIDE, reason="the sides were sent other prompts")


def table(name: str, found: Agreement | None) -> ComparisonTable:
    return ComparisonTable("base", name, "m, h, w", (), 1, 1, (), (), agreement=found)


def column(tables: Sequence[ComparisonTable], at: int = 1) -> list[str]:
    return [row[at].text for row in agreement_table(tables).rows]


def test_a_side_that_answers_otherwise_is_shown_by_how_much_and_where() -> None:
    assert column([table("cand", DIFFERING)]) == [
        "12, by token",
        "3 (25.0 %)",
        "token 18 or before",
        "1 at 1; 2 at 5 to 15; 4 at 16 to 63; 2 at 236 or later",
        "6 (50.0 %)",
        "400.0 (and 400.0)",
        "70.2 (and 1,070.0)",
        "32 (and 500)",
        "64 (and 1,000)",
        "100 (and 1,500)",
        "128 (and 2,000)",
        "<0.001",
        "0 (and 3)",
    ]


def test_sides_that_answer_alike_have_no_first_difference() -> None:
    assert column([table("cand", ALIKE)])[:5] == [
        "12, by character",
        "12 (100.0 %)",
        "none",
        "none",
        "0 (0.0 %)",
    ]
    assert column([table("cand", ALIKE)])[-2] == "0.510"


def test_what_could_not_be_compared_says_why_below_the_table() -> None:
    drawn = agreement_table([table("cand", UNKNOWN)])
    assert [row[1].text for row in drawn.rows] == [
        "not compared¹",
        *["-"] * 4,
        *(f"{text} (and not measured)" for text in ("400.0", "70.2", "32", "64", "100", "128")),
        "-",
        "0 (and not measured)",
    ]
    assert drawn.notes == ("¹ the sides were sent other prompts",)


def test_each_candidate_has_a_column_and_one_that_nobody_looked_at_has_none() -> None:
    drawn = agreement_table([table("a", ALIKE), table("b", None), table("c", DIFFERING)])
    assert [c.title for c in drawn.columns] == ["Answers", "a", "c"]
    assert drawn.title == "Same work? Answers of each candidate (and of base)"
    assert {len(row) for row in drawn.rows} == {3}
    assert [row[0].text for row in drawn.rows] == [title for title, _ in ROWS]
    assert agreement_table([table("b", None)]).rows == ()
    assert agreement_table([]).rows == ()
