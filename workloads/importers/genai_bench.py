"""Prompts for genai-bench: a column `prompt` of a table, a text with one a line, or a JSON list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workloads.importers.chat_messages import Notes, prompt_text, usable_shapes
from workloads.importers.format import Format
from workloads.importers.head import Head
from workloads.importers.losses import Losses
from workloads.importers.row import Row
from workloads.importers.source import TraceFile
from workloads.shape import Shape

_PROMPT = "prompt"


def _detect(head: Head) -> bool:
    is_texts = head.is_list and head.text[1:].lstrip().startswith('"')
    return is_texts or head.columns == {_PROMPT} or _is_text(head)


def _is_text(head: Head) -> bool:
    return head.name.endswith(".txt") and not head.is_json


def _read(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    yield from usable_shapes(_rows(file, losses), losses, _shapes)


def _rows(file: TraceFile, losses: Losses) -> Iterator[Row]:
    if file.head.is_list:
        return file.items_as(_PROMPT)
    if _is_text(file.head):
        return file.text_lines(_PROMPT)
    return file.rows(losses)


def _shapes(row: Row, notes: Notes) -> Sequence[Shape]:
    if _PROMPT not in row.fields:
        row.refuse(_PROMPT, "a prompt")
    return [Shape(None, None, text=prompt_text(row.fields[_PROMPT], notes))]


GENAI_BENCH = Format(
    name="genai-bench",
    title="genai-bench prompts",
    licence="",
    time=None,
    detect=_detect,
    read=_read,
)
