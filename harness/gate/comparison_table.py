"""A comparison as plain strings, ratio by ratio."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analyzer.metric import Better
from harness.analyzer.metrics import find_metric
from harness.gate import formatting
from harness.gate.cells import Align, Cell, Column, Reasons, Table, Tone
from harness.gate.comparison import Comparison, ComparisonTable, phrase
from harness.gate.tables import metric_name, says_more

_P = Column("p", Align.RIGHT, term="p of all rows")
HEADLINES = ("output_tok_s", "decode_output_tok_s", "ttft_s_p50", "e2e_s_p50")


def headlines(table: ComparisonTable) -> tuple[Comparison, ...]:
    """The ratios that stand for the whole comparison, of those that there are."""
    rows = {row.metric: row for row in table.rows}
    return tuple(rows[n] for n in HEADLINES if n in rows and rows[n].ratio is not None)


def comparison_table(table: ComparisonTable) -> Table:
    """The metrics of a candidate beside its baseline's. Each ratio's note is its full phrase."""
    sides = [
        {row.metric: row.baseline for row in table.rows},
        {row.metric: row.candidate for row in table.rows},
    ]
    shown = [row for row in table.rows if says_more(find_metric(row.metric), sides)]
    has_intervals = any(row.lo is not None and row.hi is not None for row in shown)
    reasons = Reasons()
    rows = tuple(
        tuple(_comparison_cells(table, row, reasons, has_intervals=has_intervals)) for row in shown
    )
    columns = (
        Column("Metric"),
        Column(table.baseline_name, Align.RIGHT, term="baseline", is_mixed=True),
        Column(table.candidate_name, Align.RIGHT, term="candidate", is_mixed=True),
        Column("Ratio", Align.RIGHT),
        *((Column("95 % interval", Align.RIGHT), _P) if has_intervals else ()),
        Column("Candidate", term="reading"),
    )
    title = f"{table.candidate_name} against {table.baseline_name}"
    doubts = [certainty(row) for row in shown if row.ratio is not None and row.lo is None]
    return Table(title, columns, rows, (*reasons.notes, *dict.fromkeys(doubts)))


def _comparison_cells(
    table: ComparisonTable, row: Comparison, reasons: Reasons, *, has_intervals: bool
) -> Iterator[Cell]:
    metric = find_metric(row.metric)
    yield metric_name(metric)
    for value in (row.baseline, row.candidate):
        is_known = value is not None
        text = formatting.quantity(value, metric.unit)
        yield Cell(text, exact=value) if is_known else reasons.cell(row.reason)
    if row.ratio is None:
        yield reasons.cell(row.reason, "none")
    else:
        tone = Tone.MUTED if row.is_unclear else Tone.STRONG
        yield Cell(row.ratio_text, phrase(table, row), tone, row.ratio)
    if has_intervals:
        yield _interval(row)
        alone = "" if row.p is None else f"for this row by itself {formatting.p_value(row.p)}"
        yield Cell(formatting.p_value(row.p_table), alone, Tone.MUTED, row.p_table)
    yield reading(row)


def certainty(row: Comparison) -> str:
    """How sure the ratio of `row` is, in words: its interval, or why there is none."""
    if row.lo is None or row.hi is None:
        return row.reason or "no interval was computed"
    return f"95 % interval {formatting.ratio_span(row.lo, row.hi)}"


def _interval(row: Comparison) -> Cell:
    said = formatting.ratio_span(row.lo, row.hi)
    return Cell(said) if said else Cell("-", tone=Tone.MUTED)


def reading(row: Comparison) -> Cell:
    """Whether the ratio is good news for the candidate."""
    metric = find_metric(row.metric)
    if row.ratio is None or metric.better is Better.NEITHER:
        return Cell("")
    if row.ratio == 1:
        return Cell("equal", tone=Tone.MUTED)
    if row.is_unclear:
        return Cell("unclear", "the interval contains 1", Tone.MUTED)
    is_better = (row.ratio > 1) == (metric.better is Better.HIGHER)
    if row.lo is None or row.hi is None:
        return Cell(
            "better?" if is_better else "worse?", "no interval: it may be noise", Tone.MUTED
        )
    return Cell("better", tone=Tone.GOOD) if is_better else Cell("worse", tone=Tone.BAD)
