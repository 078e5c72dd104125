"""`batchmark export`: what runs measured, for spreadsheets, programs and papers."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

from harness import console
from harness.commands.judging import compare_all, read_reported
from harness.commands.out_file import require_free, write_out
from harness.core.errors import ExitCode, UsageError
from harness.core.export_flags import ExportFlags, Format, What
from harness.core.slo import parse_slos
from harness.gate.allowance import allowed_keys
from reports.exported import Exported, comparison_of, metrics_of, requests_of


def export(flags: ExportFlags, store: Path) -> ExitCode:
    """Write what the flags name to a file, or print it and nothing else.

    Saved baselines are in `store`.
    """
    what, form = flags.kind
    if form is Format.PARQUET and find_spec("pyarrow") is None:
        msg = "pyarrow, which writes parquet, is not here; pip install 'batchmark[parquet]'"
        raise UsageError(msg)
    if flags.out is not None:
        require_free(flags.out, replaces=flags.force)
    made = _exported(what, flags, store)
    data = made.written(form)
    if form in (Format.CSV, Format.PARQUET):
        _warn(made)
    if flags.out is None:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    else:
        write_out(flags.out, data)
        console.print_line(f"{what}: {flags.out}")
    return ExitCode.OK


def _exported(what: What, flags: ExportFlags, store: Path) -> Exported:
    limits = parse_slos(flags.slo)
    runs = [read_reported(path, limits) for path in flags.runs]
    if what is What.METRICS:
        return metrics_of(runs)
    if what is What.REQUESTS:
        return requests_of(runs)
    found = compare_all(runs, flags.baseline, store, allowed_keys(flags.allow))
    if not found:
        msg = f"no run is beside the baseline {flags.baseline}; name one of another engine too"
        raise UsageError(msg)
    return comparison_of(found)


def _warn(made: Exported) -> None:
    """Say on standard error what a file of rows has no room for."""
    with redirect_stdout(sys.stderr):
        for line in made.said:
            console.print_line(line)
        console.print_cautions(made.cautions)
