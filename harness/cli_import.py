"""`batchmark import`: its words to flags; no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli_exit import finish
from harness.core.errors import ExitCode
from harness.core.version import tool_version


def import_results(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON or JSON lines of a tool.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The run folder to make.")] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="vllm-bench, sglang, aiperf, guidellm, genai-bench, inference-perf or llmperf; "
            "known by the file's keys unless named.",
        ),
    ] = None,
    result: Annotated[
        int | None, typer.Option("--result", help="Which result of a file with several, from 1.")
    ] = None,
) -> None:
    """Read a result of another benchmark tool into a run folder, with what is doubtful about it."""

    def body() -> ExitCode:
        from harness.commands import import_results as command

        flags = command.ImportFlags(file, out, format_name, result)
        return command.import_result(flags, tool_version())

    finish(body)
