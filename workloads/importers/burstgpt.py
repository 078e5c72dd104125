"""BurstGPT, releases 1 and 2: seconds from a midnight long before the first row, to the second.

Requests that failed have no response tokens. Release 2 puts two columns in front of the others,
so columns go by name alone; its Session ID is empty for calls of the API.
"""

from __future__ import annotations

from workloads.importers.format import Format
from workloads.importers.tables import Columns, table_shapes

_COLUMNS = Columns(
    time="Timestamp",
    unit="s",
    prompt_tokens="Request tokens",
    output_tokens="Response tokens",
    session="Session ID",
    label="Model",
)

BURSTGPT = Format(
    name="burstgpt",
    title="BurstGPT",
    licence="CC-BY-4.0, HPMLL/BurstGPT; cite Wang et al., KDD 2025",
    time="s",
    detect=lambda head: head.columns >= _COLUMNS.required,
    read=lambda file, losses: table_shapes(file.csv_rows(losses), _COLUMNS, losses),
)
