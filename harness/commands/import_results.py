"""`batchmark import`: the result of another tool into a run folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness import console
from harness.analyzer.imports.document import read_document
from harness.analyzer.imports.formats import read_result
from harness.analyzer.imports.run import run_of
from harness.commands.judging import keep_summary, read_reported
from harness.commands.show import show
from harness.core.clock import utc_now
from harness.core.errors import ExitCode
from harness.core.imported import IMPORTED
from harness.core.rundir import (
    MANIFEST,
    REQUESTS,
    create_folder,
    open_lines,
    safe_name,
    write_json,
)


@dataclass(frozen=True, slots=True)
class ImportFlags:
    """The flags of `batchmark import`, as typed."""

    file: Path
    out: Path | None = None
    format: str | None = None
    result: int | None = None


def import_result(flags: ImportFlags, tool_version: str) -> ExitCode:
    """Make a run folder of the file, and show it.

    The format is known by the file's keys unless one is named; which it is is the first line.
    """
    document = read_document(flags.file)
    found = read_result(document, flags.format, flags.result)
    name = safe_name(flags.file.stem)
    if flags.result is not None:
        name = f"{name}-{flags.result}"
    run = run_of(document, found, name, utc_now(), tool_version)
    folder = create_folder(flags.out or Path("runs") / f"import-{name}")
    if run.records:
        with open_lines(folder / REQUESTS) as lines:
            for record in run.records:
                lines.append(record)
    write_json(folder / IMPORTED, run.imported)
    write_json(folder / MANIFEST, run.manifest)  # last: with it the folder is a run
    known = "as named" if flags.format else "by its keys"
    console.print_line(f"format: {found.format.name} ({known}), {found.format.tool}")
    console.print_line(f"folder: {folder}")
    keep_summary(read_reported(folder))
    return show(folder)
