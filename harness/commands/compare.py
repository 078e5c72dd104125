"""`batchmark compare`: a run against a named baseline."""

from __future__ import annotations

from pathlib import Path

from harness import console
from harness.commands.judging import compare_saved, read_reported
from harness.core.errors import ExitCode
from harness.core.rundir import MANIFEST
from harness.gate.comparison import compare


def compare_run(run_path: Path, baseline: str, store: Path) -> ExitCode:
    """Print the ratios of the run to `baseline`: a saved baseline's name, or a run's folder."""
    candidate = read_reported(run_path).summary
    name = candidate.manifest.engine.name
    other = Path(baseline)
    if (other / MANIFEST).is_file():
        base = read_reported(other).summary
        table = compare(base.manifest.engine.name, [base], name, [candidate], paired=False)
    else:
        table = compare_saved(baseline, store, name, [candidate])
    console.print_comparison(table)
    console.print_cautions(table.cautions)
    return ExitCode.OK
