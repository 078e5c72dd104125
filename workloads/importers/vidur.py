"""Traces that were processed for Vidur: lengths, and in some files the seconds of arrival."""

from __future__ import annotations

from workloads.importers.format import Format
from workloads.importers.tables import Columns, table_shapes

_COLUMNS = Columns(
    time="arrived_at",
    unit="s",
    prompt_tokens="num_prefill_tokens",
    output_tokens="num_decode_tokens",
    may_lack_time=True,
)

VIDUR = Format(
    name="vidur",
    title="Vidur",
    licence="MIT, microsoft/vidur; the texts that were counted have licences of their own",
    time="s",
    detect=lambda head: head.columns >= _COLUMNS.required,
    read=lambda file, losses: table_shapes(file.csv_rows(losses), _COLUMNS, losses),
)
