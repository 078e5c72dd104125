"""`batchmark explain`: a word of the glossary, or one run as other benchmark tools define it."""

from __future__ import annotations

import json
from pathlib import Path

from harness import console
from harness.analyzer.dialects import read_dialects
from harness.analyzer.glossary import GLOSSARY, find_entry
from harness.commands.judging import read_reported
from harness.core.errors import ExitCode
from harness.core.jsonable import to_json
from harness.gate.comparison import context_of
from harness.gate.explain_table import explain as explain_tables
from harness.gate.glossary_table import entry_table, word_table


def explain(subject: str | None, *, as_json: bool) -> ExitCode:
    """Explain a run folder, or else a word; without a subject print every word.

    Raises UsageError for what is neither.
    """
    if subject is not None and Path(subject).exists():
        return explain_run(Path(subject), as_json=as_json)
    found = GLOSSARY if subject is None else find_entry(subject)
    if as_json:
        console.print_line(json.dumps(to_json(found), indent=2, ensure_ascii=False))
    else:
        console.draw(word_table(found) if isinstance(found, tuple) else entry_table(found))
    return ExitCode.OK


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
    for table in explain_tables(reported.folder):
        console.draw(table)
    return ExitCode.OK
