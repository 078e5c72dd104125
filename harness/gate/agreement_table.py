"""Whether both sides did the same work, as plain strings: a column for each candidate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from harness.gate import formatting
from harness.gate.agreement import BIN_ENDS, Agreement, Answers
from harness.gate.cells import Align, Cell, Column, Reasons, Table, Tone

ROWS = (
    ("answers compared", "prompts that both sides answered well, and by what they were compared"),
    ("the same", "answers that are equal on both sides from end to end"),
    ("first difference, median", "of the others: the two differ at or before this position"),
    ("first differences", "how many of the others first differ from position to position"),
    ("of another length", "answers with another number of tokens on the two sides"),
    ("tokens of a prompt, mean", "as the engine counts them, over all prompts of a side"),
    ("tokens of an answer, mean", "over all answers of a side"),
    *((f"tokens of an answer, p{p}", "over all answers of a side") for p in (10, 50, 90, 99)),
    ("lengths of one distribution, p", "how likely lengths that part so far are (K-S)"),
    ("empty answers", "answers that ended without any text, or any token"),
)


class Compared(Protocol):
    """Two sides that were compared: a ComparisonTable, or a duel."""

    @property
    def baseline_name(self) -> str: ...
    @property
    def candidate_name(self) -> str: ...
    @property
    def agreement(self) -> Agreement | None: ...


def agreement_table(tables: Sequence[Compared]) -> Table:
    """How far the answers of each candidate are those of its baseline; no rows where not known."""
    found = [(table, table.agreement) for table in tables if table.agreement is not None]
    reasons = Reasons()
    columns = [tuple(_cells(agreed, reasons)) for _, agreed in found]
    rows = tuple(
        (Cell(title, note), *cells)
        for (title, note), *cells in zip(ROWS, *columns, strict=True)
        if cells
    )
    heads = (
        Column(table.candidate_name, Align.RIGHT, term="candidate", is_mixed=True)
        for table, _ in found
    )
    baselines = ", ".join(dict.fromkeys(table.baseline_name for table, _ in found))
    title = f"Same work? Answers of each candidate (and of {baselines})"
    return Table(title, (Column("Answers"), *heads), rows, reasons.notes)


def _cells(found: Agreement, reasons: Reasons) -> Iterator[Cell]:
    """The cells of one candidate, as many as ROWS."""
    if found.reason is not None:
        yield reasons.cell(found.reason, "not compared")
        yield from [Cell("-", tone=Tone.MUTED)] * 4
    else:
        yield Cell(f"{formatting.count(found.prompts)}, by {found.unit}")
        yield Cell(_part(found.same, found.prompts), tone=Tone.STRONG)
        yield from _differences(found)
        yield Cell(_part(found.other_length, found.prompts))
    sides = (found.candidate, found.baseline)
    yield _both(*(_length(side.prompt_tokens_mean) for side in sides))
    yield _both(*(_length(side.tokens_mean) for side in sides))
    for name in ("tokens_p10", "tokens_p50", "tokens_p90", "tokens_p99"):
        yield _both(*(formatting.count(getattr(side, name)) for side in sides))
    yield Cell(formatting.p_value(found.lengths_p), exact=found.lengths_p)
    yield _both(*map(_empty, sides))


def _differences(found: Agreement) -> Iterator[Cell]:
    if found.first_difference_p50 is None:
        yield from [Cell("none", tone=Tone.MUTED)] * 2
        return
    yield Cell(f"{found.unit} {formatting.count(found.first_difference_p50)} or before")
    starts = [1, *(end + 1 for end in BIN_ENDS)]
    ends = [*(f" to {end}" if end > 1 else "" for end in BIN_ENDS), " or later"]
    named = zip(starts, ends, found.first_differences, strict=True)
    yield Cell("; ".join(f"{formatting.count(n)} at {a}{b}" for a, b, n in named if n))


def _part(number: int, total: int) -> str:
    return f"{formatting.count(number)} ({formatting.share(number / total)})"


def _length(tokens: float | None) -> str:
    return formatting.NOT_MEASURED if tokens is None else f"{tokens:,.1f}"


def _empty(side: Answers) -> str:
    return formatting.count(side.empty)


def _both(candidate: str, baseline: str) -> Cell:
    return Cell(f"{candidate} (and {baseline})")
