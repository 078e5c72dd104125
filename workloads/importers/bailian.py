"""Qwen-Bailian usage traces: seconds, blocks of 16 tokens, and chats that go on from a parent.

Each row covers its whole context. The first chat to go on from its parent is the next turn of that
session; a root, a second branch, and one whose parent is not in the file begin a session.
"""

from __future__ import annotations

from collections.abc import Iterator

from workloads.importers.blocks import prefix_blocks
from workloads.importers.format import Format
from workloads.importers.losses import Losses
from workloads.importers.row import Row
from workloads.importers.source import TraceFile
from workloads.importers.tables import Columns, has_tokens, instant_of
from workloads.shape import Shape

_COLUMNS = Columns(
    time="timestamp",
    unit="s",
    prompt_tokens="input_length",
    output_tokens="output_length",
    label="type",
)
_CHAT, _PARENT, _ROOT = "chat_id", "parent_chat_id", -1
_BLOCKS, _BLOCK_TOKENS = "hash_ids", 16
_MOST_CHATS = 2**63


def _read(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    session_after: dict[int, str] = {}
    for row in file.json_lines(losses):
        due_ns = instant_of(row, _COLUMNS)
        prompt_tokens = row.whole(_COLUMNS.prompt_tokens)
        output_tokens = row.whole(_COLUMNS.output_tokens)
        blocks = prefix_blocks(row, _BLOCKS, prompt_tokens, _BLOCK_TOKENS)
        chat, parent = row.whole(_CHAT, _MOST_CHATS), _parent(row)
        if has_tokens(row, prompt_tokens, output_tokens, losses):
            session = session_after.pop(parent, str(chat))
            session_after[chat] = session
            yield Shape(
                prompt_tokens,
                output_tokens,
                label=row.optional_text("type") or "",
                due_ns=due_ns,
                blocks=blocks,
                session=session,
            )


def _parent(row: Row) -> int:
    if row.fields.get(_PARENT) == _ROOT:
        return _ROOT
    return row.whole(_PARENT, _MOST_CHATS)


BAILIAN = Format(
    name="bailian",
    title="Qwen-Bailian",
    licence="Apache-2.0, alibaba-edu/qwen-bailian-usagetraces-anon; cite Wang et al., ATC 2025",
    time="s",
    detect=lambda head: head.keys >= _COLUMNS.required | {_CHAT},
    read=_read,
)
