"""What is known of a request before its prompt is made: the rows that importers and specs yield."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat: its role (`system`, `user`, `assistant`, `tool`) and its text."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class PrefixBlocks:
    """The prompt as blocks of `tokens` tokens, the last perhaps a part: equal ids, equal tokens.

    `len(ids)` is the prompt's length over `tokens`, rounded up.
    """

    ids: tuple[int, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Shape:
    """One request before its prompt is made.

    The prompt is given by one of: `text`, `messages`, or `prompt_tokens` (with `blocks` where the
    source says what is shared). `prompt_tokens` is None where only a tokenizer can tell, and
    `output_tokens` None where the source does not say: then, where it has the `answer`, that is how
    many tokens its text has. `due_ns` counts from the first request of the trace, and is None where
    the source has no times. Turns of one `session` come in order; each waits for the one before to
    end, and `delay_ns` more, so that a later turn needs no `due_ns`; with one it is not due before.
    """

    prompt_tokens: int | None
    output_tokens: int | None
    label: str = ""
    due_ns: int | None = None
    text: str | None = None
    messages: tuple[Message, ...] = ()
    blocks: PrefixBlocks | None = None
    session: str | None = None
    turn: int = 0
    delay_ns: int = 0
    answer: str | None = None
