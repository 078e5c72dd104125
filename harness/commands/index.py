"""`batchmark report --index` and `batchmark view`: many runs on one page."""

from __future__ import annotations

import signal
from pathlib import Path

from harness import console
from harness.analyzer.run_index import RunIndexer
from harness.commands.out_file import require_free, write_out
from harness.core.errors import ExitCode, UsageError
from reports.index_page import INDEX, render_index
from reports.view_server import open_server


def index(
    folder: Path, out: Path | None, run_paths: tuple[Path, ...] = (), *, replaces: bool
) -> ExitCode:
    """Write the page of all runs below `folder`, to its index.html unless `out` is another file.

    A page that is there already is kept unless `replaces`. Raises UsageError where runs are named.
    """
    if run_paths:
        msg = f"{run_paths[0]} is named beside --index; name runs, or a folder to find them in"
        raise UsageError(msg)
    runs = RunIndexer(folder).read()
    path = folder / INDEX if out is None else out
    require_free(path, replaces=replaces)
    write_out(path, render_index(runs, path.parent).encode())
    unread = f"; folders that cannot be read: {len(runs.broken)}" if runs.broken else ""
    console.print_line(f"index: {path}, runs: {len(runs.runs)}{unread}")
    return ExitCode.OK


def view(folder: Path, port: int) -> ExitCode:
    """Serve the runs below `folder` to this machine's browser until interrupted."""
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell had them ignored
        signal.signal(number, signal.default_int_handler)
    with open_server(folder, port) as server:
        host, bound = server.server_address[:2]
        console.print_line(f"view: http://{host!s}:{bound}/ (Ctrl+C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:  # the way it is meant to end
            console.print_line("ended")
    return ExitCode.OK
