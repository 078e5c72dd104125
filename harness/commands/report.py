"""`batchmark report`: runs to a self-contained page."""

from __future__ import annotations

from pathlib import Path

from harness import console
from harness.commands.judging import compare_all, read_reported, simulated_twins
from harness.core.errors import ExitCode, UsageError
from harness.core.slo import parse_slos
from harness.gate.against_table import against_table
from harness.gate.agreement_table import agreement_table
from harness.gate.allowance import allowed_keys
from reports.page import write_report


def report(
    run_paths: tuple[Path, ...],
    baseline: str | None,
    out: Path,
    store: Path,
    allow: tuple[str, ...] = (),
    slos: tuple[str, ...] = (),
) -> ExitCode:
    """Write the page of the runs at `run_paths`, compared with `baseline` when one is named.

    The comparison is printed too. `allow` are keys that may differ; `slos` are the limits,
    such as `ttft=500ms`, that goodput is judged by, or else those that were measured with.
    """
    allowed = allowed_keys(allow)
    limits = parse_slos(slos)
    runs = [read_reported(path, limits) for path in run_paths]
    tables = compare_all(runs, baseline, store, allowed)
    try:
        write_report(out, runs, tables, simulated_twins(runs))
    except OSError as error:
        msg = f"cannot write {out}: {error.strerror}; name another file with --out"
        raise UsageError(msg) from error
    if tables:
        console.print_allowed(tables)
        console.draw(against_table(tables))
        console.draw(agreement_table(tables))
        console.print_cautions([caution for table in tables for caution in table.cautions])
    console.print_line(f"report: {out}")
    return ExitCode.OK
