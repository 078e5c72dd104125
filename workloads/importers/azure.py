"""Azure's public traces of LLM inference: of 2023, of one week in 2024, and multimodal of 2025.

The times are dates in four shapes: with seven digits of a second and no zone, with six and a zone,
with none and a zone, and with `T`, three and `Z`. The files of 2024 mix the second and the third.
"""

from __future__ import annotations

from collections.abc import Iterator

from workloads.importers.format import Format
from workloads.importers.losses import Losses
from workloads.importers.source import TraceFile
from workloads.importers.tables import Columns, table_shapes
from workloads.shape import Shape

_COLUMNS = Columns(
    time="TIMESTAMP",
    unit="wall clock",
    prompt_tokens="ContextTokens",
    output_tokens="GeneratedTokens",
)
_IMAGES = "NumImages"


def _read(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    for row in file.csv_rows(losses):
        if row.has(_IMAGES) and row.whole(_IMAGES):
            losses.clamp("images left out, their tokens kept as text", row.number)
        yield from table_shapes([row], _COLUMNS, losses)


AZURE = Format(
    name="azure",
    title="the Azure LLM inference traces",
    licence="CC-BY-4.0, Microsoft Azure Public Dataset; cite the paper named there for the year",
    time="wall clock",
    detect=lambda head: head.columns >= _COLUMNS.required,
    read=_read,
)
