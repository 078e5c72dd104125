"""What runs measured, in each format of an export: rows for programs, tables for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from harness.core.cautions import Caution
from harness.core.errors import UsageError
from harness.core.export_flags import Format
from harness.gate import tables
from harness.gate.agreement_table import agreement_table
from harness.gate.allowance import allowed_line
from harness.gate.cells import Table
from harness.gate.comparison import ComparisonTable, context_of
from harness.gate.comparison_table import comparison_table
from harness.gate.turn_table import turn_table
from reports.page import ReportedRun
from reports.row_files import to_csv, to_parquet
from reports.rows import as_table, comparison_rows, metric_rows, request_rows
from reports.tables import latex_page, markdown_page

# More rows than these nobody reads.
MOST_REQUESTS_READ = 10_000


@dataclass(frozen=True, slots=True)
class Exported:
    """One thing to export, for programs and for people; only what is asked for is made.

    `said` comes before all else; `cautions` are in one of the tables.
    """

    rows: Callable[[], pd.DataFrame]
    tables: Callable[[], Sequence[Table]]
    said: tuple[str, ...] = ()
    cautions: tuple[Caution, ...] = ()

    def written(self, form: Format) -> bytes:
        """All of it in that format."""
        if form is Format.CSV:
            return to_csv(self.rows()).encode()
        if form is Format.PARQUET:
            return to_parquet(self.rows())
        page = markdown_page if form is Format.MARKDOWN else latex_page
        return page(self.said, self.tables()).encode()


def metrics_of(runs: Sequence[ReportedRun]) -> Exported:
    """Every metric of each run, and how far the runs may be trusted."""
    summaries = [run.summary for run in runs]
    labels = tables.run_labels([summary.manifest for summary in summaries])
    contexts = dict.fromkeys(context_of(summary.manifest) for summary in summaries)
    doubts = [(label, run.cautions) for label, run in zip(labels, summaries, strict=True)]
    return Exported(
        rows=lambda: metric_rows(summaries),
        tables=lambda: (
            tables.validity_table(summaries),
            tables.check_table(summaries),
            _in_context(tables.metric_table(summaries), "; ".join(contexts)),
            turn_table(summaries),
            tables.caution_table(doubts, len(summaries)),
        ),
        cautions=tuple(caution for summary in summaries for caution in summary.cautions),
    )


def requests_of(runs: Sequence[ReportedRun]) -> Exported:
    """Every request of each run."""
    return Exported(lambda: request_rows(runs), lambda: (_request_table(runs),))


def _request_table(runs: Sequence[ReportedRun]) -> Table:
    number = sum(len(run.folder.requests) for run in runs)
    if number > MOST_REQUESTS_READ:
        msg = (
            f"{number:,} requests are too many for a table to read, which has "
            f"{MOST_REQUESTS_READ:,} rows at most; use --format csv or parquet"
        )
        raise UsageError(msg)
    return as_table(request_rows(runs), "Requests")


def comparison_of(found: Sequence[ComparisonTable]) -> Exported:
    """Each candidate against its baseline; what was allowed to differ is said first."""
    pairs = [(f"{t.candidate_name} against {t.baseline_name}", t.cautions) for t in found]
    allowed = tuple(dict.fromkeys(word for table in found for word in table.allowed))
    return Exported(
        rows=lambda: comparison_rows(found),
        tables=lambda: (
            *(_in_context(comparison_table(table), table.context) for table in found),
            agreement_table(found),
            tables.caution_table(pairs, len(pairs)),
        ),
        said=(allowed_line(allowed),) if allowed else (),
        cautions=tuple(caution for table in found for caution in table.cautions),
    )


def _in_context(table: Table, context: str) -> Table:
    return replace(table, title=f"{table.title} ({context})")
