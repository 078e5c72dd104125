"""`batchmark show`: one run in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import console
from harness.commands.judging import read_reported
from harness.core.errors import ExitCode
from harness.core.slo import parse_slos
from harness.gate.imported_table import imported_table


def show(run_path: Path, slos: Sequence[str] = ()) -> ExitCode:
    """Print validity, metrics, engine steps and cautions of the run at `run_path`.

    Its goodput is by the limits `slos`, such as `ttft=500ms`, or else those it was measured with.
    """
    run = read_reported(run_path, parse_slos(slos))
    summary = run.summary
    console.print_summaries([summary])
    if run.folder.imported is not None:
        console.draw(imported_table(run.folder.imported))
    console.print_steps([summary], {})
    console.print_cautions(summary.cautions)
    return ExitCode.OK
