"""Several candidates beside the one baseline that all of them are compared to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analyzer.metrics import find_metric
from harness.gate import formatting
from harness.gate.cells import Align, Cell, Column, Reasons, Table, Tone
from harness.gate.comparison import Comparison, ComparisonTable, phrase
from harness.gate.comparison_table import HEADLINES, certainty
from harness.gate.tables import metric_name


def against_table(tables: Sequence[ComparisonTable]) -> Table:
    """The headline metrics of the baseline that `tables` share, and of each candidate its ratios.

    A metric that no side has is left out. Raises ValueError when there are no tables, or they have
    several baselines.
    """
    names = {table.baseline_name for table in tables}
    if len(names) != 1:
        msg = f"one table shows one baseline, these have {len(names)}: {sorted(names)}"
        raise ValueError(msg)
    (baseline,) = names
    reasons = Reasons()
    beside = {
        name: [row for table in tables for row in table.rows if row.metric == name]
        for name in HEADLINES
    }
    rows = tuple(
        tuple(_cells(tables, of_metric, reasons))
        for of_metric in beside.values()
        if any(row.baseline is not None or row.candidate is not None for row in of_metric)
    )
    columns = (
        Column("Metric"),
        Column(f"{baseline} (baseline)", Align.RIGHT, term="baseline"),
        *(Column(table.candidate_name, Align.RIGHT, term="candidate") for table in tables),
    )
    return Table(f"Compared to {baseline} ({tables[0].context})", columns, rows, reasons.notes)


def _cells(
    tables: Sequence[ComparisonTable], beside: Sequence[Comparison], reasons: Reasons
) -> Iterator[Cell]:
    """One metric: `beside` holds its row of each of `tables`, whose baselines are the same."""
    metric = find_metric(beside[0].metric)
    yield metric_name(metric)
    base = formatting.quantity(beside[0].baseline, metric.unit)
    is_known = beside[0].baseline is not None
    yield Cell(base) if is_known else reasons.cell(beside[0].reason)
    for table, row in zip(tables, beside, strict=True):
        yield _candidate(table, row, metric.unit, reasons)


def _candidate(table: ComparisonTable, row: Comparison, unit: str, reasons: Reasons) -> Cell:
    """Such as `1,240 tok/s, 0.93x (0.91x to 0.95x)`."""
    value = formatting.quantity(row.candidate, unit)
    if row.ratio is None:
        return reasons.cell(row.reason, value)
    interval = formatting.ratio_span(row.lo, row.hi)
    text = f"{value}, {row.ratio_text}" + (f" ({interval})" if interval else "")
    tone = Tone.MUTED if row.is_unclear else Tone.STRONG
    return Cell(text, f"{phrase(table, row)}; {certainty(row)}", tone, row.ratio)
