"""Text to token ids and back, from tokenizer.json or from the vocabulary in a GGUF file.

Implements the TextCodec protocol of engines.serving. Names of special tokens that stand in a text
are read as those tokens, as Hugging Face and llama.cpp do by default.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from engines.models.gguf_file import GgufFile, read_gguf
from engines.serving.generation import RequestRefused
from harness.core.errors import ModelFileError

# tokenizer.ggml.token_type
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4
_TURN_START, _TURN_END = "<|im_start|>", "<|im_end|>"
# A system turn that a template writes out in full, its newline escaped or real.
_DEFAULT_SYSTEM = re.compile(r"<\|im_start\|>system(?:\\n|\n)([^'\"{}<]+)<\|im_end\|>")
_QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Codec:
    """A tokenizer and the chat template that belongs to its model, if it has one."""

    def __init__(self, tokenizer: Tokenizer, chat_template: str | None) -> None:
        self._tokenizer = tokenizer
        self._chat_template = chat_template

    @property
    def chat_template(self) -> str | None:
        """The template in the words of its makers, a program in Jinja; None without one."""
        return self._chat_template

    @property
    def vocabulary(self) -> int:
        """How many tokens the tokenizer knows, added ones included."""
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of `text`, without special tokens around it."""
        # As a batch of one: a single text would be cut with Python's lock held, and with that a
        # long prompt would hold up every thread of the process.
        (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return tuple(encoding.ids)

    def encode_chat(self, messages: list[tuple[str, str]]) -> tuple[int, ...]:
        """Token ids of (role, content) turns in ChatML, ready for the assistant's answer.

        The model's default system turn is put first when its template has one and no system turn is
        given. Raises RequestRefused when the model's template is not ChatML.
        """
        template = self._chat_template or ""
        if _TURN_START not in template or _TURN_END not in template:
            kind = "another than ChatML" if template else "none"
            msg = f"the chat template of this model is {kind}; send a plain prompt instead"
            raise RequestRefused(msg)
        default = _DEFAULT_SYSTEM.search(template)
        turns = list(messages)
        if default and (not turns or turns[0][0] != "system"):
            turns.insert(0, ("system", default.group(1)))
        text = "".join(f"{_TURN_START}{role}\n{words}{_TURN_END}\n" for role, words in turns)
        return self.encode(f"{text}{_TURN_START}assistant\n")

    def decode(self, token_ids: tuple[int, ...]) -> str:
        """Text of `token_ids`, special tokens left out; U+FFFD where bytes of a character lack."""
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=True)


def load_codec(path: Path) -> Codec:
    """The codec of the model at `path`, a GGUF file or a Hugging Face folder.

    Raises ModelFileError when there is no tokenizer, or one of a kind that is not supported.
    """
    return _codec_of_folder(path) if path.is_dir() else codec_of_gguf(read_gguf(path))


def _codec_of_folder(folder: Path) -> Codec:
    path = folder / "tokenizer.json"
    if not path.is_file():
        msg = f"{folder} has no tokenizer.json; download the whole model folder"
        raise ModelFileError(msg)
    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the tokenizers package raises nothing narrower
        msg = f"cannot read {path}: {error}; download it again"
        raise ModelFileError(msg) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return Codec(tokenizer, _template_of_folder(folder))


def _template_of_folder(folder: Path) -> str | None:
    own_file, settings = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if own_file.is_file():
        return own_file.read_text(encoding="utf-8")
    if not settings.is_file():
        return None
    try:
        template = json.loads(settings.read_text(encoding="utf-8")).get("chat_template")
    except (ValueError, AttributeError) as error:
        msg = f"cannot read {settings}: {error}; download it again"
        raise ModelFileError(msg) from error
    return template if isinstance(template, str) else None


def codec_of_gguf(file: GgufFile) -> Codec:
    """The codec that the metadata of `file` describes. Raises ModelFileError as `load_codec`."""
    values = file.metadata
    if values.get("tokenizer.ggml.model") != "gpt2":
        kind = values.get("tokenizer.ggml.model")
        msg = f"{file.path} has a tokenizer of kind {kind!r}; supported is 'gpt2' (byte-level BPE)"
        raise ModelFileError(msg)
    try:
        words: list[str] = values["tokenizer.ggml.tokens"]
        merges = [tuple(merge.split(" ")) for merge in values["tokenizer.ggml.merges"]]
    except KeyError as error:
        msg = f"{file.path} lacks {error}; convert the model again"
        raise ModelFileError(msg) from None
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=merges))
    _split_words(tokenizer, file)
    tokenizer.decoder = decoders.ByteLevel()
    for word, kind in zip(words, values.get("tokenizer.ggml.token_type", ()), strict=False):
        if kind in (_UNKNOWN, _CONTROL):
            tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False)])
        elif kind == _USER_DEFINED:
            tokenizer.add_tokens([AddedToken(word, special=False, normalized=False)])
    return Codec(tokenizer, values.get("tokenizer.chat_template"))


def _split_words(tokenizer: Tokenizer, file: GgufFile) -> None:
    """Cut text into words, within which pairs merge, as the model's own tokenizer does."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    match file.metadata.get("tokenizer.ggml.pre", "gpt-2"):
        case "gpt-2":
            tokenizer.pre_tokenizer = byte_level
        case "smollm":
            digits = pre_tokenizers.Digits(individual_digits=True)
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
        case "qwen2":
            words = pre_tokenizers.Split(Regex(_QWEN_WORDS), behavior="isolated")
            plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            tokenizer.normalizer = normalizers.NFC()
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, plain])
        case other:
            msg = f"{file.path} splits words as {other!r}; supported are gpt-2, smollm and qwen2"
            raise ModelFileError(msg)
