"""Prompts as text, for engines that take no token ids: by the tokenizer of the model's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class PromptText:
    """Token ids to the text that stands for them, by the tokenizer in `file`.

    The engine tokenizes the text again, and may count another number of tokens.
    """

    file: Path

    def __call__(self, token_ids: Sequence[int]) -> str:
        """The text of `token_ids`."""
        return str(_tokenizer(self.file).decode(list(token_ids), skip_special_tokens=False))


def prompt_text_of(kind: str, model: str) -> PromptText:
    """The text of prompts for `model`. Raises UsageError unless it is a folder with a tokenizer."""
    file = Path(model) / TOKENIZER
    if not file.is_file():
        msg = f"{kind} takes prompts only as text, and {model!r} is no folder with a {TOKENIZER}"
        raise UsageError(f"{msg}; give the model's folder with --model")
    _tokenizer(file)
    return PromptText(file)


@cache
def _tokenizer(file: Path) -> Tokenizer:
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - only such engines need it
    except ImportError as error:
        msg = "prompts as text need the package tokenizers; run `pip install tokenizers`"
        raise UsageError(msg) from error
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing more specific
        msg = f"cannot read the tokenizer {file}: {error}; write the folder again"
        raise UsageError(msg) from error
