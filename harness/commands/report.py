"""`batchmark report`: runs to a self-contained page."""

from __future__ import annotations

from pathlib import Path

from harness import console
from harness.commands.judging import compare_all, read_reported, simulated_twins
from harness.core.errors import ExitCode, UsageError
from harness.gate.against_table import against_table
from reports.page import write_report


def report(run_paths: tuple[Path, ...], baseline: str | None, out: Path, store: Path) -> ExitCode:
    """Write the page of the runs at `run_paths`, compared with `baseline` when one is named.

    The comparison is printed too.
    """
    runs = [read_reported(path) for path in run_paths]
    tables = compare_all(runs, baseline, store)
    try:
        write_report(out, runs, tables, simulated_twins(runs))
    except OSError as error:
        msg = f"cannot write {out}: {error.strerror}; name another file with --out"
        raise UsageError(msg) from error
    if tables:
        console.draw(against_table(tables))
        console.print_cautions([caution for table in tables for caution in table.cautions])
    console.print_line(f"report: {out}")
    return ExitCode.OK
