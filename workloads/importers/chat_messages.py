"""Messages as the formats write them, to messages as we have them: roles, parts, tools, and faults.

A row that cannot be a request raises `UnusableRow`; what was changed in one is noted in `Notes`.
Both end in the tally of the trace, under the reasons that stand here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workloads.importers.losses import Losses
from workloads.importers.row import Row
from workloads.shape import Message

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
    "observation": "tool",
}
_TEXT_PARTS = ("text", "input_text", "output_text")
_TOOL_PARTS = ("tool_call", "tool_call_response", "tool_use", "tool_result")
_CONTENTS = ("content", "value", "parts")
_CALLS = "calls of tools written as JSON into the message"
_Read = TypeVar("_Read")


class UnusableRow(Exception):  # noqa: N818 - it is counted, and never met by a user
    """Why a row is dropped: one of a few fixed reasons, so that rows of one reason add up."""


@dataclass(slots=True)
class Notes:
    """What was lost of one row, by reason; `dropped` has one for each request that it lacks."""

    dropped: list[str] = field(default_factory=list)
    repaired: set[str] = field(default_factory=set)
    clamped: set[str] = field(default_factory=set)


def usable_shapes(
    rows: Iterable[Row], losses: Losses, read: Callable[[Row, Notes], Sequence[_Read]]
) -> Iterator[_Read]:
    """What `read` makes of all `rows`; what is dropped or changed is counted in `losses`."""
    for row in rows:
        notes = Notes()
        try:
            found = read(row, notes)
        except UnusableRow as error:
            losses.drop(str(error), row.number)
            continue
        for reason in notes.dropped:
            losses.drop(reason, row.number)
        for reason in sorted(notes.repaired):
            losses.repair(reason, row.number)
        for reason in sorted(notes.clamped):
            losses.clamp(reason, row.number)
        yield from found


def clean(text: str, notes: Notes) -> str:
    """`text` as it can be sent: a half of a surrogate pair, which UTF-8 has not, is U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        notes.repaired.add("half a surrogate pair replaced by U+FFFD")
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def prompt_text(value: Any, notes: Notes) -> str:
    """A prompt of text alone. Raises UnusableRow when it is another value, or blank."""
    if value is None:
        raise UnusableRow("no prompt")
    text = content_text(value, notes)
    if not text.strip():
        raise UnusableRow("empty prompt")
    return text


def content_text(content: Any, notes: Notes) -> str:
    """The text of a message's content: text, or parts, which are joined by newlines.

    Raises UnusableRow where a part is an image, audio or another thing than text.
    """
    if isinstance(content, str):
        return clean(content, notes)
    if not isinstance(content, list):
        raise UnusableRow("content that is neither text nor a list of parts")
    texts = [part if isinstance(part, str) else _part_text(part, notes) for part in content]
    return clean("\n".join(texts), notes)


def _part_text(part: Any, notes: Notes) -> str:
    kind = part.get("type", "text") if isinstance(part, dict) else None
    if kind in _TEXT_PARTS:
        text = part.get("text", part.get("content"))
        if isinstance(text, str):
            return text
    if kind in _TOOL_PARTS:
        notes.repaired.add(_CALLS)
        return _as_json(part, notes)
    raise UnusableRow("content with an image, audio or another part that is not text")


def answer_tokens(row: Row, *keys: str) -> int | None:
    """How many tokens the answer has, by the first of `keys` that the row has; None without.

    Raises UnusableRow when it asks for none, and TraceError when it is no number.
    """
    key = row.first_of(*keys)
    if key is None:
        return None
    tokens = row.whole(key)
    if not tokens:
        raise UnusableRow("no output tokens")
    return tokens


def session_of(row: Row, key: str = "session_id") -> str:
    """The session that a row names, by a text or by a whole number."""
    return row.text(key) if isinstance(row.fields.get(key), str) else str(row.whole(key))


def message_of(item: Any, notes: Notes) -> Message:
    """One message, with `role` or `from`, and `content`, `value` or `parts`.

    Calls of tools are written behind the text as JSON, since they are part of what a model reads.
    """
    if isinstance(item, str):
        item = _unpacked(item, notes)
    if not isinstance(item, dict):
        raise UnusableRow("a message that is no object")
    role = item.get("role", item.get("from"))
    if not isinstance(role, str) or role not in _ROLES:
        raise UnusableRow("a message of an unknown role")
    content = next((item[k] for k in _CONTENTS if item.get(k) is not None), None)
    calls = item.get("tool_calls") or item.get("function_call")
    if content is None and not calls:
        raise UnusableRow("a message without content")
    text = "" if content is None else content_text(content, notes)
    if calls:
        notes.repaired.add(_CALLS)
        text = "\n".join(filter(None, [text, _as_json(calls, notes)]))
    return Message(_ROLES[role], text)


def _unpacked(text: str, notes: Notes) -> Any:
    try:
        item = json.loads(text)
    except (ValueError, RecursionError):
        raise UnusableRow("a message that is no object") from None
    notes.repaired.add("a message stored as a JSON string")
    return item


def _as_json(value: Any, notes: Notes) -> str:
    return clean(json.dumps(value, ensure_ascii=False), notes)


def messages_of(items: Any, notes: Notes, tools: Any = None) -> tuple[Message, ...]:
    """All messages of a request, the definitions of its `tools` before them.

    Raises UnusableRow when there is no list of messages, or all of them are blank.
    """
    if not isinstance(items, list) or not items:
        raise UnusableRow("no messages")
    messages = tuple(message_of(item, notes) for item in items)
    if not any(m.text.strip() for m in messages):
        raise UnusableRow("empty prompt")
    if not tools:
        return messages
    notes.repaired.add("definitions of tools written as JSON into the system message")
    words = _as_json(tools, notes)
    if messages[0].role == "system":
        return (Message("system", f"{messages[0].text}\n\n{words}"), *messages[1:])
    return (Message("system", words), *messages)


def without_answer(
    messages: tuple[Message, ...], notes: Notes
) -> tuple[tuple[Message, ...], str | None]:
    """What is asked, and the answer, where the last message is one of the assistant."""
    if messages[-1].role != "assistant":
        return messages, None
    asked = messages[:-1]
    if not any(m.text.strip() for m in asked):
        raise UnusableRow("an answer without a question")
    notes.repaired.add("an answer at the end of the messages not sent")
    return asked, messages[-1].text or None
