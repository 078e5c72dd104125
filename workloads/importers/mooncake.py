"""Mooncake traces: milliseconds, and the hashes of the prompt's blocks of 512 tokens.

The published times are ticks of 3 s. AIPerf's rows may give a text, messages or the body of a
request in place of a length. Rows of one `session_id` are turns, `delay` after the end of the one
before: a length or a text is what the turn adds, so all before it goes in front; messages and
bodies are whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from workloads.importers.blocks import prefix_blocks
from workloads.importers.chat_messages import (
    Notes,
    UnusableRow,
    answer_tokens,
    prompt_text,
    session_of,
    usable_shapes,
)
from workloads.importers.format import Format
from workloads.importers.head import Head
from workloads.importers.losses import Losses
from workloads.importers.openai_chat import body_shape
from workloads.importers.rounds import NO_ANSWERS
from workloads.importers.row import Row
from workloads.importers.source import TraceFile
from workloads.shape import Message, PrefixBlocks, Shape

_PROMPTS = ("input_length", "text_input", "messages", "payload")
_TIME, _DELAY, _SESSION = "timestamp", "delay", "session_id"
_OUTPUT_TOKENS = "output_length"
_BLOCKS, _BLOCK_TOKENS = "hash_ids", 512
_BITS_OF_BLOCKS = 32  # ids of sessions begin above those that files use
_CHAT_OF_BAILIAN = "chat_id"


@dataclass(slots=True)
class _Context:
    """What the turns of a session so far hold; its blocks have ids from `first_id` on."""

    first_id: int
    tokens: int = 0
    messages: list[Message] = field(default_factory=list)


def _detect(head: Head) -> bool:
    is_body = bool(head.keys & {"messages", "payload"}) and _OUTPUT_TOKENS in head.keys
    is_prompt = bool(head.keys & {"input_length", "text_input"}) or is_body
    return is_prompt and not head.is_list and _CHAT_OF_BAILIAN not in head.keys


def _read(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    contexts: dict[str, _Context] = {}

    def shapes(row: Row, notes: Notes) -> Sequence[Shape]:
        due_ns = row.optional_instant_ns(_TIME, "ms")
        delay_ns = row.optional_instant_ns(_DELAY, "ms") or 0
        session = session_of(row) if row.has(_SESSION) else None
        shape = _shape(row, _context(session, contexts), notes)
        return [replace(shape, due_ns=due_ns, session=session, delay_ns=delay_ns)]

    return usable_shapes(file.json_lines(losses), losses, shapes)


def _context(session: str | None, contexts: dict[str, _Context]) -> _Context | None:
    if session is None:
        return None
    return contexts.setdefault(session, _Context((len(contexts) + 1) << _BITS_OF_BLOCKS))


def _shape(row: Row, context: _Context | None, notes: Notes) -> Shape:
    given = [key for key in _PROMPTS if row.fields.get(key) is not None]
    if len(given) > 1:
        row.refuse(given[1], f"nothing beside {given[0]}")
    output_tokens = answer_tokens(row, _OUTPUT_TOKENS)
    match given:
        case ["text_input"]:
            text = prompt_text(row.fields["text_input"], notes)
            return _of_text(text, output_tokens, context, notes)
        case ["messages"] | ["payload"]:
            body = body_shape(row if given == ["messages"] else row.child("payload"), notes)
            answer = None if output_tokens else body.answer
            return replace(body, output_tokens=output_tokens or body.output_tokens, answer=answer)
        case _:
            return _counted(row, output_tokens, context, notes)


def _of_text(text: str, output_tokens: int | None, context: _Context | None, notes: Notes) -> Shape:
    if context is None:
        return Shape(None, output_tokens, text=text)
    if context.messages:
        notes.repaired.add(NO_ANSWERS)
        context.messages.append(Message("assistant", ""))
    context.messages.append(Message("user", text))
    return Shape(None, output_tokens, messages=tuple(context.messages))


def _counted(row: Row, output_tokens: int | None, context: _Context | None, notes: Notes) -> Shape:
    tokens = row.whole("input_length")
    if not tokens:
        raise UnusableRow("no prompt tokens")
    blocks = prefix_blocks(row, _BLOCKS, tokens, _BLOCK_TOKENS)
    if context is None:
        return Shape(tokens, output_tokens, blocks=blocks)
    if blocks is not None:
        notes.clamped.add("hashes of a turn left out: it begins with the turns before it")
    tokens += context.tokens
    context.tokens = tokens + (output_tokens or 0)
    last_id = context.first_id - (-tokens // _BLOCK_TOKENS)
    grown = PrefixBlocks(tuple(range(context.first_id, last_id)), _BLOCK_TOKENS)
    return Shape(tokens, output_tokens, blocks=grown)


MOONCAKE = Format(
    name="mooncake",
    title="Mooncake",
    licence="Apache-2.0, kvcache-ai/Mooncake; cite Qin et al., FAST 2025",
    time="ms",
    detect=_detect,
    read=_read,
)
