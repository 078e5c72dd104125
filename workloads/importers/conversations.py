"""Whole conversations with their answers: the first question alone, or every turn of a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from workloads.importers.chat_messages import Notes, UnusableRow, message_of
from workloads.importers.row import Row
from workloads.shape import Message, Shape

_MAY_FOLLOW = {
    "user": {"assistant"},
    "assistant": {"user", "tool"},
    "tool": {"tool", "assistant"},
}
_MUST_SAY = {"user": "empty prompt", "assistant": "empty answer"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """All that was said before an answer, and the answer."""

    messages: tuple[Message, ...]
    answer: str


def conversation_of(row: Row, notes: Notes, *, whole: bool) -> list[Shape]:
    """The requests of the conversation in a row, under one of the names in use for it.

    With `whole` one for each answer, as the turns of a session; otherwise the first question and
    answer alone, as other tools read such files, and what is left out is counted as clamped. The
    prompts are those that were written: later ones hold the answers of the file, not the engine's.

    Raises UnusableRow when there is no question and answer to begin with.
    """
    key = row.first_of("conversations", "conversation", "messages")
    items = row.fields[key] if key else None
    if not isinstance(items, list) or len(items) < 2:
        raise UnusableRow("a conversation of fewer than two messages")
    exchanges = list(islice(_exchanges(items, notes), None if whole else 1))
    if not exchanges:
        raise UnusableRow("no question that is answered")
    said = len(exchanges[-1].messages) + 1
    if said < len(items):
        what = "a last message without an answer" if whole else "all after the first answer"
        notes.clamped.add(f"{what} left out")
    return [
        Shape(
            prompt_tokens=None,
            output_tokens=None,
            messages=exchange.messages,
            answer=exchange.answer,
            session=f"conversation {row.number}" if whole else None,
            turn=turn,
        )
        for turn, exchange in enumerate(exchanges)
    ]


def _exchanges(items: Sequence[Any], notes: Notes) -> Iterator[Exchange]:
    """Each answer with all before it; a fault is met only when that far is read."""
    before: list[Message] = []
    for item in items:
        message = message_of(item, notes)
        last = before[-1].role if before else "system"
        if last == "system":
            if message.role not in {"system", "user"}:
                raise UnusableRow("a conversation that the user does not begin")
        elif message.role not in _MAY_FOLLOW[last]:
            raise UnusableRow("roles out of order")
        if message.role in _MUST_SAY and not message.text.strip():
            raise UnusableRow(_MUST_SAY[message.role])
        if message.role == "assistant":
            yield Exchange(tuple(before), message.text)
        before.append(message)
