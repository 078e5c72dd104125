"""LMCache's agentic traces: each row is one turn of a session, with the whole history before it.

    {"session_id": "s1", "input": [{"role": "system", ...}, ...], "output_length": 52, "pre_gap": 0}

`pre_gap` is how many seconds after the answer before the turn was sent; there are no arrival times.
"""

from __future__ import annotations

from collections.abc import Iterator

from workloads.importers.chat_messages import (
    Notes,
    answer_tokens,
    messages_of,
    session_of,
    usable_shapes,
    without_answer,
)
from workloads.importers.format import Format
from workloads.importers.losses import Losses
from workloads.importers.row import Row
from workloads.importers.source import TraceFile
from workloads.shape import Shape


def _read(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    begun: set[str] = set()

    def shapes(row: Row, notes: Notes) -> list[Shape]:
        session = session_of(row)
        gap_ns = row.optional_instant_ns("pre_gap", "s") or 0
        tokens = answer_tokens(row, "output_length")
        messages, answer = without_answer(messages_of(row.fields.get("input"), notes), notes)
        # The first turn of a session comes when the load says.
        delay_ns = gap_ns if session in begun else 0
        begun.add(session)
        return [
            Shape(
                prompt_tokens=None,
                output_tokens=tokens,
                messages=messages,
                session=session,
                delay_ns=delay_ns,
                answer=None if tokens else answer,
            )
        ]

    return usable_shapes(file.rows(losses), losses, shapes)


LMCACHE = Format(
    name="lmcache",
    title="LMCache agentic traces (JSON lines)",
    licence="sammshen's sets on Hugging Face are MIT where they say; see the card of yours",
    time="s",
    detect=lambda head: {"input", "pre_gap"} <= head.keys,
    read=_read,
)
