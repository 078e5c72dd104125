"""What a run folder holds of another tool's result beside its requests: `imported.json`."""

from __future__ import annotations

from dataclasses import dataclass

from harness.core.cautions import Caution

IMPORTED = "imported.json"
# The label of an imported run that says whose definitions its numbers have.
DEFINITIONS = "definitions"


@dataclass(frozen=True, slots=True)
class ImportedMetric:
    """One number of the file: where it stood, and what it is.

    `metric` is the name of the metric of ours that it is nearest to, None where there is none.
    `value` is in `unit`, `file_unit` is the unit that it had in the file. `tokens` says who counted
    the tokens that it depends on, None where it depends on none. `definition` is the tool's.
    """

    key: str
    metric: str | None
    value: float
    unit: str
    file_unit: str
    tokens: str | None
    definition: str


@dataclass(frozen=True, slots=True)
class Imported:
    """Where a run came from, and what its file said.

    `file` is the file's name and `sha256` of its bytes; `result` which of the results in it, from
    1. `recomputed` names the metrics that are computed from the file's requests, as batchmark
    defines them; all others are the tool's own. `faults` is what the file says against itself, in
    words.
    """

    tool: str
    tool_version: str | None
    format: str
    file: str
    sha256: str
    result: int
    definitions: str
    tokens: str
    requests: int | None
    recomputed: tuple[str, ...]
    metrics: tuple[ImportedMetric, ...]
    faults: tuple[str, ...]
    cautions: tuple[Caution, ...]
    format_version: int = 1
