"""Runs as rows for other programs: a column a fact, a value a cell, units last in the names.

A number is as exact as it was measured, and empty where there is none. `shown` beside it is what
a report says of it: rounded, with its unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from harness.analyzer.frame import frame_of
from harness.analyzer.metric import Better
from harness.analyzer.metrics import find_metric
from harness.analyzer.sessions import DURATION
from harness.analyzer.summary import MetricValue, Summary
from harness.core.manifest import RunManifest
from harness.gate import formatting
from harness.gate.allowance import allowed_line
from harness.gate.cells import Align, Cell, Column, Table
from harness.gate.comparison import Comparison, ComparisonTable
from harness.gate.tables import value_text
from reports.page import ReportedRun

_COUNTS = ("events", "prompt_tokens", "output_tokens_asked", "output_tokens")


def metric_rows(summaries: Sequence[Summary]) -> pd.DataFrame:
    """A row for each metric of each run, and of each turn of sessions, which counts from 1."""
    rows = [
        {**_about(summary), "turn": turn, **_value(value)}
        for summary in summaries
        for turn, value in _values(summary)
    ]
    kinds = dict.fromkeys(("value", "ci_within_lo", "ci_within_hi"), "float64")
    return pd.DataFrame(rows).astype({**kinds, "turn": "Int64", "n_eff": "Int64"})


def request_rows(runs: Sequence[ReportedRun]) -> pd.DataFrame:
    """A row for each request of each run, in the order in which they were sent."""
    return pd.concat([_requests(run) for run in runs], ignore_index=True)


def comparison_rows(tables: Sequence[ComparisonTable]) -> pd.DataFrame:
    """A row for each metric of each candidate against its baseline."""
    rows = pd.DataFrame([_ratio(table, row) for table in tables for row in table.rows])
    numbers = ("baseline_value", "candidate_value", "ratio", "ratio_lo", "ratio_hi")
    return rows.astype(dict.fromkeys(numbers, "float64"))


def as_table(rows: pd.DataFrame, title: str) -> Table:
    """`rows` for people: a column named in seconds in the unit that reads best, blanks empty."""
    numbers = {name: pd.api.types.is_numeric_dtype(kind) for name, kind in rows.dtypes.items()}
    columns = tuple(
        Column(str(name), Align.RIGHT if is_number else Align.LEFT)
        for name, is_number in numbers.items()
    )
    cells = tuple(
        tuple(Cell(_shown(str(n), v)) for n, v in zip(numbers, row, strict=True))
        for row in rows.itertuples(index=False, name=None)
    )
    return Table(title, columns, cells)


def _about(summary: Summary) -> dict[str, Any]:
    return {**_named(summary.manifest), "validity": summary.validity.value}


def _named(manifest: RunManifest) -> dict[str, Any]:
    return {
        "run": manifest.run_id,
        "engine": manifest.engine.name,
        "model": manifest.model_title,
        "machine": manifest.machine.title,
        "workload": manifest.workload.title,
    }


def _values(summary: Summary) -> Iterator[tuple[int | None, MetricValue]]:
    """Every value, behind the turn that it is of."""
    yield from ((None, value) for value in summary.values)  # noqa: PD011 - of no frame
    if summary.sessions is not None:
        for turn in summary.sessions.turns:
            yield from ((turn.turn + 1, value) for value in turn.values)  # noqa: PD011
        yield from ((None, value) for value in summary.sessions.durations)


def _value(found: MetricValue) -> dict[str, Any]:
    unit, better = _kind(found.metric)
    within = found.ci_within
    return {
        "metric": found.metric,
        "unit": unit,
        "better": better.value,
        "value": found.value,
        "shown": value_text(found, unit),
        "ci_within_lo": within.lo if within else None,
        "ci_within_hi": within.hi if within else None,
        "n_eff": within.n_eff if within else None,
        "reason": found.reason,
    }


def _kind(metric: str) -> tuple[str, Better]:
    """The unit of a metric, and which direction is better."""
    if metric.startswith(f"{DURATION}_"):
        return "s", Better.LOWER
    known = find_metric(metric)
    return known.unit, known.better


def _requests(run: ReportedRun) -> pd.DataFrame:
    frame = frame_of(run.folder)
    words, numbers = frame.records.words, frame.records.numbers
    manifest = run.folder.manifest
    rows = frame.requests.astype(dict.fromkeys(_COUNTS, "Int64"))
    rows.insert(0, "run", manifest.run_id)
    rows.insert(1, "engine", manifest.engine.name)
    sessions = pd.Series(words["session"], dtype="str")
    messages = [error.message if error else None for error in frame.records.errors]
    return rows.assign(
        session=sessions,
        turn=pd.Series(numbers["turn"] + 1, dtype="Int64").where(sessions.notna()),
        error_message=pd.Series(messages, dtype="str"),
    )


def _ratio(table: ComparisonTable, row: Comparison) -> dict[str, Any]:
    metric = find_metric(row.metric)
    return {
        "candidate": table.candidate_name,
        "baseline": table.baseline_name,
        "context": table.context,
        "allowed": allowed_line(table.allowed),
        "metric": row.metric,
        "unit": metric.unit,
        "better": metric.better.value,
        "baseline_value": row.baseline,
        "candidate_value": row.candidate,
        "ratio": row.ratio,
        "ratio_lo": row.lo,
        "ratio_hi": row.hi,
        "baseline_runs": table.baseline_runs,
        "candidate_runs": table.candidate_runs,
        "shown": row.ratio_text,
        "reason": row.reason,
    }


def _shown(name: str, value: Any) -> str:
    if pd.isna(value):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return formatting.seconds(value) if name.endswith("_s") else formatting.significant(value)
    return formatting.count(value)
