"""`batchmark report`: runs to a self-contained page."""

from __future__ import annotations

from pathlib import Path

from harness import console
from harness.commands.judging import compare_all, read_reported, simulated_twins
from harness.commands.out_file import require_free
from harness.core.errors import ExitCode, UsageError
from harness.core.slo import parse_slos
from harness.gate.against_table import against_table
from harness.gate.agreement_table import agreement_table
from harness.gate.allowance import allowed_keys
from reports.page import write_report


def report(
    run_paths: tuple[Path, ...],
    baseline: str | None,
    out: Path | None,
    store: Path,
    allow: tuple[str, ...] = (),
    slos: tuple[str, ...] = (),
    *,
    replaces: bool = False,
) -> ExitCode:
    """Write the page of the runs at `run_paths`, compared with `baseline` when one is named.

    The comparison is printed too. `allow` are keys that may differ; `slos` are the limits,
    such as `ttft=500ms`, that goodput is judged by, or else those that were measured with. A page
    that is there already is kept unless `replaces`. `out` is report.html where it is None.
    """
    if not run_paths:
        raise UsageError("no run is named; name run folders, or a folder of many with --index")
    out = out or Path("report.html")
    allowed = allowed_keys(allow)
    limits = parse_slos(slos)
    require_free(out, replaces=replaces)
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
