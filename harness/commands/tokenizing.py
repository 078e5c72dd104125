"""The tokenizer and chat template of a model, opened when the first text needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.source import SourceFlags
from workloads.chat_text import ChatForm, ChatTemplate, chat_text_by, read_chat_template
from workloads.exact_text import Tokenizer
from workloads.materialise import PromptKind, PromptOptions
from workloads.shape import Message


def prompt_options(
    flags: SourceFlags, model: str | None, *, has_text: bool = False
) -> PromptOptions | None:
    """How prompts are made; None where they are random token ids, of which no text is known.

    The tokenizer is that of --tokenizer, or else of `model`. It is opened only where text is made
    or read. Raises UsageError when it is needed and there is none.
    """
    is_natural = flags.prompts == PromptKind.NATURAL.value
    if flags.tokenizer is None and not is_natural and not has_text:
        return None
    named = flags.tokenizer or model
    if named is None:
        what = "natural text" if is_natural else "text"
        msg = f"prompts are {what}, and no tokenizer is known to cut it into tokens"
        raise UsageError(f"{msg}; name a model or its folder with --tokenizer")
    tokenizer, template = _opened(named)
    return PromptOptions(
        kind=PromptKind.NATURAL if is_natural else PromptKind.RANDOM,
        tokenizer=tokenizer,
        chat_text=_chat_text(template, flags.chat_form),
        output_tokens=flags.output_tokens,
    )


def _chat_text(
    template: ChatTemplate | None, form: str | None
) -> Callable[[Sequence[Message]], str]:
    """Messages to text; that there is no template is an error only once there are messages."""

    @cache
    def made() -> Callable[[Sequence[Message]], str]:
        return chat_text_by(template, None if form is None else ChatForm(form))

    def text_of(messages: Sequence[Message]) -> str:
        return made()(messages)

    return text_of


@cache
def _opened(name: str) -> tuple[Tokenizer, ChatTemplate | None]:
    try:
        from engines.models.model_store import resolve_model  # noqa: PLC0415 - needs an extra
        from engines.models.tokenizer import load_codec  # noqa: PLC0415
    except ImportError as error:
        msg = f"a tokenizer needs the package {error.name}; pip install 'batchmark[inhouse]'"
        raise UsageError(msg) from error
    folder = Path(name).expanduser()
    path = folder if folder.is_dir() else resolve_model(name)
    codec = load_codec(path)
    if path.is_dir():
        return codec, read_chat_template(path)
    return codec, None if codec.chat_template is None else ChatTemplate(codec.chat_template)
