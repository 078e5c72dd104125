"""What another tool's file said: each number, where it stood, and what it means there."""

from __future__ import annotations

from harness.core.imported import IMPORTED, Imported, ImportedMetric
from harness.gate import formatting
from harness.gate.cells import Align, Cell, Column, Table, Tone

_RECOMPUTED = "recomputed"


def imported_table(imported: Imported) -> Table:
    """A row for each number that is one of our metrics, or of a kind that we have none of.

    The rest, which are further statistics of the same, are counted below.
    """
    known = {_kind(metric) for metric in imported.metrics if metric.metric}
    shown = [m for m in imported.metrics if m.metric or _kind(m) not in known]
    rows = tuple(_row(metric, imported) for metric in shown)
    columns = (
        Column("In the file", is_id=True),
        Column("Value", Align.RIGHT),
        Column("Stands for"),
        Column("Definition"),
    )
    version = f" {imported.tool_version}" if imported.tool_version else ""
    title = f"What {imported.tool}{version} says in {imported.file}, as it defines it"
    notes = [f"tokens counted by {imported.tokens}"]
    if imported.recomputed:
        said = "the metric above is batchmark's own, computed from the requests in the file"
        notes.append(f"{_RECOMPUTED}: {said}")
    if others := len(imported.metrics) - len(shown):
        notes.append(f"{others} more statistics of these are in {IMPORTED}")
    return Table(title, columns, rows, tuple(notes))


def _kind(metric: ImportedMetric) -> str:
    """What a number is of, whichever statistic."""
    return metric.definition.partition(";")[0]


def _row(metric: ImportedMetric, imported: Imported) -> tuple[Cell, ...]:
    stands_for = metric.metric or "no metric of batchmark"
    if metric.metric in imported.recomputed:
        stands_for = f"{metric.metric}, {_RECOMPUTED}"
    return (
        Cell(metric.key, f"in {metric.file_unit}"),
        Cell(formatting.quantity(metric.value, metric.unit)),
        Cell(stands_for, tone=Tone.PLAIN if metric.metric else Tone.MUTED),
        Cell(metric.definition.removeprefix(f"as {imported.tool} defines it: ")),
    )
