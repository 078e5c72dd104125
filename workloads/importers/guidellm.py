"""GuideLLM's files: traces of lengths at seconds, and tables of prompts, in CSV or JSON.

A trace may have the three fields that Mooncake's rows have, in another unit: then only --format can
tell. The columns of prompts go by several names; `prompt_1`, `prompt_2` are turns of one session,
each of which follows the ones before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from workloads.importers.chat_messages import (
    Notes,
    UnusableRow,
    answer_tokens,
    messages_of,
    prompt_text,
    usable_shapes,
)
from workloads.importers.format import Format
from workloads.importers.head import Head
from workloads.importers.losses import Losses
from workloads.importers.rounds import Round, session_of_rounds
from workloads.importers.row import Row
from workloads.importers.source import TraceFile
from workloads.importers.tables import Columns, table_shapes
from workloads.shape import Message, Shape

_COLUMNS = Columns(
    time="timestamp",
    unit="s",
    prompt_tokens="input_length",
    output_tokens="output_length",
)
_OF_OTHER_TRACES = {"chat_id", "hash_ids", "session_id"}

_PROMPTS = (
    "prompt", "instruction", "question", "input", "context", "content", "conversation", "turn",
    "text",
)  # fmt: skip
_PROMPT_TOKENS = ("prompt_tokens_count", "input_tokens_count")
_OUTPUT_TOKENS = ("output_tokens_count", "completion_tokens_count")
_SYSTEM = ("system_prompt", "prefix")
_MESSAGES = "messages"
_PROMPT_OF_TURN = re.compile(rf"({'|'.join(_PROMPTS)})(?:_(\d{{1,4}}))?", re.ASCII)
_ONLY_PROMPTS = {"prompt"}  # is a table of genai-bench, and read alike


def _is_trace(head: Head) -> bool:
    return head.fields >= _COLUMNS.required and not head.fields & _OF_OTHER_TRACES


def _is_prompts(head: Head) -> bool:
    if head.fields & {*_PROMPT_TOKENS, *_OUTPUT_TOKENS}:
        return True
    names = {name for name in head.columns if _PROMPT_OF_TURN.fullmatch(name)}
    return bool(names) and head.columns != _ONLY_PROMPTS


def _read_trace(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    return table_shapes(file.rows(losses), _COLUMNS, losses)


def _read_prompts(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    return usable_shapes(file.rows(losses), losses, _prompt_shapes)


def _prompt_shapes(row: Row, notes: Notes) -> Sequence[Shape]:
    output_tokens = answer_tokens(row, *_OUTPUT_TOKENS)
    if row.has(_MESSAGES):
        messages = messages_of(row.fields[_MESSAGES], notes)
        return [Shape(None, output_tokens, messages=messages)]
    texts = _texts(row, notes)
    if not texts:
        return [_of_length(row, output_tokens)]
    system = row.first_of(*_SYSTEM)
    if system is None and len(texts) == 1:
        return [Shape(None, output_tokens, text=texts[0])]
    rounds = [Round((Message("user", text),), output_tokens) for text in texts]
    if system is not None:
        messages = (Message("system", row.text(system)), *rounds[0].messages)
        rounds[0] = replace(rounds[0], messages=messages)
    if len(rounds) == 1:
        return [Shape(None, output_tokens, messages=rounds[0].messages)]
    return session_of_rounds(rounds, f"row {row.number}", notes)


def _texts(row: Row, notes: Notes) -> list[str]:
    """The prompts of a row, turn by turn."""
    found = [m for key in row.fields if (m := _PROMPT_OF_TURN.fullmatch(key))]
    given = [m for m in found if row.has(m[0])]
    if found and not given:
        raise UnusableRow("empty prompt")
    given.sort(key=lambda m: _PROMPTS.index(m[1]), reverse=True)
    by_turn = {int(m[2] or -1): m[0] for m in given}
    return [prompt_text(row.fields[by_turn[turn]], notes) for turn in sorted(by_turn)]


def _of_length(row: Row, output_tokens: int | None) -> Shape:
    prompt_tokens = row.whole(row.first_of(*_PROMPT_TOKENS) or _PROMPTS[0])
    if not prompt_tokens:
        raise UnusableRow("no prompt tokens")
    return Shape(prompt_tokens, output_tokens)


GUIDELLM_TRACE = Format(
    name="guidellm-trace",
    title="GuideLLM traces",
    licence="",
    time="s",
    detect=_is_trace,
    read=_read_trace,
)
GUIDELLM_PROMPTS = Format(
    name="guidellm-prompts",
    title="GuideLLM tables of prompts",
    licence="",
    time=None,
    detect=_is_prompts,
    read=_read_prompts,
)
