"""The flags of `batchmark export`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from harness.core.errors import UsageError
from harness.core.flag import Allowed, Flag, Word, choice
from harness.core.slo import Slos


class Format(StrEnum):
    """How what is exported is written."""

    CSV = "csv"
    PARQUET = "parquet"
    MARKDOWN = "markdown"
    LATEX = "latex"


class What(StrEnum):
    """What of the runs is exported."""

    METRICS = "metrics"
    REQUESTS = "requests"
    COMPARISON = "comparison"


@dataclass(frozen=True, slots=True)
class ExportFlags:
    """The flags of `batchmark export`, as typed. Without `out` it goes to standard output."""

    runs: Annotated[tuple[Path, ...], Word("RUN...", "Run folders.")]
    format: Annotated[
        str, Flag("csv or parquet for programs, markdown or latex (booktabs) for people.")
    ] = "csv"
    what: Annotated[str, Flag("metrics, requests, or comparison with --baseline.")] = "metrics"
    baseline: Annotated[
        str | None, Flag("Which to compare with: a run's engine name, or a saved one.")
    ] = None
    out: Annotated[Path | None, Flag("The file to write.", "--out -o")] = None
    force: Annotated[bool, Flag("Replace the file if it is there already.", "--force")] = False
    allow: Allowed = ()
    slo: Slos = ()

    @property
    def kind(self) -> tuple[What, Format]:
        """What is exported, and how. Raises UsageError for what cannot be, or not together."""
        what, form = choice("--what", self.what, What), choice("--format", self.format, Format)
        if (what is What.COMPARISON) != (self.baseline is not None):
            if self.baseline is None:
                msg = "a comparison needs what it compares with; name it with --baseline"
            else:
                msg = (
                    f"--baseline says nothing of {what}; export --what comparison, or leave it out"
                )
            raise UsageError(msg)
        if form is Format.PARQUET and self.out is None:
            msg = "a parquet file is no text to print; name the file with --out"
            raise UsageError(msg)
        return what, form
