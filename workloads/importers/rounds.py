"""Conversations of which a file has only what is asked: each round adds to all rounds before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workloads.importers.chat_messages import Notes, UnusableRow
from workloads.shape import Message, Shape

NO_ANSWERS = "answers that the file lacks left empty in later prompts"


@dataclass(frozen=True, slots=True)
class Round:
    """What is asked in one turn, and when: at `due_ns`, or `delay_ns` after the answer before."""

    messages: tuple[Message, ...]
    output_tokens: int | None = None
    due_ns: int | None = None
    delay_ns: int = 0


def session_of_rounds(rounds: Iterable[Round], session: str, notes: Notes) -> Sequence[Shape]:
    """The turns of `session`. Answers that are not in the file stay empty in later prompts.

    Tools that feed the engine's own answers back cannot send the same bytes twice. Raises
    UnusableRow when there is no round, or a round asks nothing.
    """
    shapes: list[Shape] = []
    before: tuple[Message, ...] = ()
    latest = 0
    for turn, asked in enumerate(rounds):
        if not any(m.text.strip() for m in asked.messages):
            raise UnusableRow("empty prompt")
        if turn:
            notes.repaired.add(NO_ANSWERS)
            before = (*before, Message("assistant", ""))
        if asked.due_ns is not None and asked.due_ns < latest:
            notes.repaired.add("a turn timed before the one before it, so due with it")
        latest = max(latest, asked.due_ns or 0)
        before = (*before, *asked.messages)
        shapes.append(
            Shape(
                prompt_tokens=None,
                output_tokens=asked.output_tokens,
                messages=before,
                due_ns=None if asked.due_ns is None else latest,
                session=session,
                turn=turn,
                delay_ns=asked.delay_ns if turn else 0,
            )
        )
    if not shapes:
        raise UnusableRow("no messages")
    return shapes
