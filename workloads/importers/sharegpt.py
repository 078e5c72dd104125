"""ShareGPT: one JSON list of conversations between `human` and `gpt`.

    [{"id": "a_0", "conversations": [{"from": "human", "value": "..."}, {"from": "gpt", ...}]}]

Two formats read it. `sharegpt` takes the first question and the length of its answer, as the
published figures on this data set do; `sharegpt-sessions` takes whole conversations, each a session
whose turns follow one another without a pause, since the file has no times.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from workloads.importers.chat_messages import usable_shapes
from workloads.importers.conversations import conversation_of
from workloads.importers.format import Format
from workloads.importers.head import Head
from workloads.importers.losses import Losses
from workloads.importers.row import Row
from workloads.importers.source import TraceFile
from workloads.shape import Shape

_TITLE = "ShareGPT (JSON list of conversations)"
_LICENCE = "users' chats of unclear provenance; the card says Apache-2.0"


def _detect(head: Head) -> bool:
    return head.is_list and bool(head.keys & {"conversations", "conversation", "messages"})


def _read(file: TraceFile, losses: Losses, *, whole: bool) -> Iterator[Shape]:
    return usable_shapes(_rows(file), losses, partial(conversation_of, whole=whole))


def _rows(file: TraceFile) -> Iterator[Row]:
    """The items of the list; one that is no object is a row without fields, and so is dropped."""
    items = file.json_document()
    for file.row, item in enumerate(items if isinstance(items, list) else [items], 1):
        yield Row(file.row, item if isinstance(item, dict) else {}, file.path)


SHAREGPT = Format(
    name="sharegpt",
    title=f"{_TITLE}, first question and answer",
    licence=_LICENCE,
    time=None,
    detect=_detect,
    read=partial(_read, whole=False),
)
SHAREGPT_SESSIONS = Format(
    name="sharegpt-sessions",
    title=f"{_TITLE}, whole",
    licence=_LICENCE,
    time=None,
    detect=lambda _: False,
    read=partial(_read, whole=True),
)
