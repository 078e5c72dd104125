"""Messages of a chat to the one text that a model reads: by its chat template, or a plain form.

A template is a program of the model's makers. It runs in jinja2's sandbox, and with a fixed date,
so that the same messages are the same bytes on every day.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from harness.core.errors import UsageError
from workloads.shape import Message

TODAY = datetime(2024, 7, 26, tzinfo=UTC)
"""The day that templates see when they ask for today's date."""

_WORDS = {"system": "System", "user": "User", "assistant": "Assistant", "tool": "Tool"}
# A template is a program, and fails as programs do.
_FAILURES = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class ChatForm(StrEnum):
    """How messages are made one text: as the model's template says, or plainly, role by role."""

    TEMPLATE = "template"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """The template of a model, and the special tokens that it may name, such as `bos_token`."""

    source: str
    special_tokens: Mapping[str, str] = field(default_factory=dict)


def chat_text_by(
    template: ChatTemplate | None, form: ChatForm | None
) -> Callable[[Sequence[Message]], str]:
    """Messages to text, ready for the answer; `form` None takes the template.

    Raises UsageError when the template is wanted and there is none, or it is no template at all.
    """
    if form is ChatForm.PLAIN:
        return plain_text
    if template is None:
        msg = (
            "the model has no chat template, and the workload has messages of a chat; "
            "give --chat-form plain, or --model with a model that is made for chats"
        )
        raise UsageError(msg)
    program = _compiled(template.source)
    return lambda messages: _rendered(program, template, messages)


def plain_text(messages: Sequence[Message]) -> str:
    """Messages as paragraphs that begin with `User: ` and the like, and end with `Assistant:`."""
    turns = [f"{_WORDS.get(m.role, m.role.capitalize())}: {m.text}" for m in messages]
    return "\n\n".join([*turns, "Assistant:"])


def read_chat_template(folder: Path) -> ChatTemplate | None:
    """The template in a model's folder, as Hugging Face lays it out; None where it has none.

    Raises UsageError when a file cannot be read.
    """
    own_file, settings = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    try:
        values = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
        named = values.get("chat_template")
        source = own_file.read_text(encoding="utf-8") if own_file.is_file() else _default_of(named)
        tokens = {k: _token_text(v) for k, v in values.items() if k.endswith("_token")}
    except (OSError, ValueError, AttributeError, LookupError, RecursionError) as error:
        msg = f"cannot read the chat template of {folder}: {error}; download the folder again"
        raise UsageError(msg) from error
    found = {key: text for key, text in tokens.items() if text is not None}
    return None if source is None else ChatTemplate(source, found)


def _default_of(named: Any) -> str | None:
    """The template itself, or the one called `default` of a list of named ones."""
    if isinstance(named, list):
        return next((n["template"] for n in named if n.get("name") == "default"), None)
    return named if isinstance(named, str) else None


def _token_text(value: Any) -> str | None:
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None


@cache
def _compiled(source: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = TODAY.strftime
    try:
        return environment.from_string(source)
    except TemplateError as error:
        msg = f"the model's chat template is faulty: {error}; give --chat-form plain"
        raise UsageError(msg) from error


def _rendered(program: Template, template: ChatTemplate, messages: Sequence[Message]) -> str:
    turns = [{"role": m.role, "content": m.text} for m in messages]
    try:
        return program.render(messages=turns, add_generation_prompt=True, **template.special_tokens)
    except _FAILURES as error:
        roles = ", ".join(m.role for m in messages[:6])
        msg = f"the model's chat template refuses messages of {roles}: {error}"
        raise UsageError(f"{msg}; give --chat-form plain") from error


def _refuse(reason: str) -> None:
    raise TemplateError(reason)


def _to_json(value: Any, indent: int | None = None) -> str:
    # jinja2's own filter writes HTML's escapes, which no model was taught.
    return json.dumps(value, ensure_ascii=False, indent=indent)
