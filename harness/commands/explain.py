"""`batchmark explain`: one run under the definitions of other benchmark tools."""

from __future__ import annotations

import json
from pathlib import Path

from harness import console
from harness.analyzer.dialects import read_dialects
from harness.commands.judging import read_reported
from harness.core.errors import ExitCode
from harness.core.jsonable import to_json
from harness.gate.comparison import context_of
from harness.gate.explain_table import explain


def explain_run(run_path: Path, *, as_json: bool) -> ExitCode:
    """Print the numbers of the run at `run_path` as six tools define them, and why they differ."""
    reported = read_reported(run_path)
    manifest = reported.summary.manifest
    if as_json:
        numbers = {
            "run_id": manifest.run_id,
            "batchmark": to_json(reported.summary.values),
            "others": to_json(read_dialects(reported.folder)),
        }
        console.print_line(json.dumps(numbers, indent=2, allow_nan=False))
        return ExitCode.OK
    console.print_line(f"{manifest.engine.name} ({context_of(manifest)})")
    for table in explain(reported.folder):
        console.draw(table)
    return ExitCode.OK
