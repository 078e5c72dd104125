"""`batchmark show`: one run in numbers."""

from __future__ import annotations

from pathlib import Path

from harness import console
from harness.commands.judging import read_reported
from harness.core.errors import ExitCode


def show(run_path: Path) -> ExitCode:
    """Print validity, metrics, engine steps and cautions of the run at `run_path`."""
    summary = read_reported(run_path).summary
    console.print_summaries([summary])
    console.print_steps([summary], {})
    console.print_cautions(summary.cautions)
    return ExitCode.OK
