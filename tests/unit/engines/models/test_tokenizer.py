from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel

from engines.models.gguf_file import GgufFile
from engines.models.tokenizer import Codec, codec_of_gguf, load_codec
from engines.serving.generation import RequestRefused
from harness.core.errors import ModelFileError

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are kind<|im_end|>\\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>'}}{% endfor %}"
)


def vocabulary_file(**changes: Any) -> GgufFile:
    """Every byte is a token; so are `Ġ Ġ`, `1 2` and the special ones."""
    words = SPECIAL + sorted(pre_tokenizers.ByteLevel.alphabet()) + ["ĠĠ", "12"]
    values = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.merges": ["Ġ Ġ", "1 2"],
        "tokenizer.ggml.token_type": [3, 3, 3] + [1] * (len(words) - 3),
        "tokenizer.chat_template": CHATML,
    }
    metadata = values | {f"tokenizer.{key}": value for key, value in changes.items()}
    return GgufFile(Path("model.gguf"), metadata, {})


CODEC = codec_of_gguf(vocabulary_file())


def pieces(file: GgufFile, text: str) -> list[str]:
    words: Sequence[str] = file.metadata["tokenizer.ggml.tokens"]
    return [words[token_id] for token_id in codec_of_gguf(file).encode(text)]


@given(st.text())
def test_any_text_survives_encoding_and_decoding(text: str) -> None:
    plain = text.replace("<|", "")

    assert CODEC.decode(CODEC.encode(plain)) == plain


def test_smollm_splits_digits_from_all_else_before_pairs_merge() -> None:
    assert pieces(vocabulary_file(), "a  12") == ["a", "ĠĠ", "1", "2"]


def test_gpt_2_keeps_a_number_and_the_space_before_it_together() -> None:
    file = vocabulary_file(**{"ggml.pre": "gpt-2"})

    assert pieces(file, "a  12") == ["a", "Ġ", "Ġ", "12"]


def test_qwen2_splits_digits_and_composes_accents() -> None:
    file = vocabulary_file(**{"ggml.pre": "qwen2"})

    assert pieces(file, "x12") == ["x", "1", "2"]
    assert pieces(file, "e\u0301") == pieces(file, "é")


def test_names_of_special_tokens_are_read_as_those_tokens_and_left_out_of_text() -> None:
    ids = CODEC.encode("a<|im_end|>b")

    assert ids[1] == 2
    assert CODEC.decode(ids) == "ab"


def test_a_cut_character_decodes_to_the_replacement_mark() -> None:
    assert CODEC.decode(CODEC.encode("é")[:1]) == "\ufffd"


def test_a_conversation_gets_the_default_system_turn_unless_it_has_one() -> None:
    with_default = CODEC.encode_chat([("user", "hi")])
    with_own = CODEC.encode_chat([("system", "Be terse"), ("user", "hi"), ("assistant", "ho")])

    assert with_default == CODEC.encode(
        "<|im_start|>system\nYou are kind<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert with_own == CODEC.encode(
        "<|im_start|>system\nBe terse<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
        "<|im_start|>assistant\nho<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_template_without_default_adds_no_system_turn() -> None:
    template = "{{'<|im_start|>' + role + '\\n' + content + '<|im_end|>\\n'}}"
    codec = codec_of_gguf(vocabulary_file(chat_template=template))

    assert codec.encode_chat([("user", "hi")]) == codec.encode(
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("template", "words"), [("[INST] {{x}} [/INST]", "another than ChatML"), (None, "is none")]
)
def test_another_chat_template_is_refused(template: str | None, words: str) -> None:
    codec = codec_of_gguf(vocabulary_file(chat_template=template))

    with pytest.raises(RequestRefused, match=words):
        codec.encode_chat([("user", "hi")])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ggml.model": "llama"}, "tokenizer of kind 'llama'; supported is 'gpt2'"),
        ({"ggml.pre": "tekken"}, "splits words as 'tekken'; supported are gpt-2, smollm"),
        ({"ggml.tokens": None}, "lacks 'tokenizer.ggml.tokens'"),
    ],
)
def test_another_kind_of_tokenizer_is_refused(changes: dict[str, Any], words: str) -> None:
    file = vocabulary_file(**changes)
    metadata = {key: value for key, value in file.metadata.items() if value is not None}

    with pytest.raises(ModelFileError, match=words):
        codec_of_gguf(GgufFile(file.path, metadata, {}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "hello": 1, "world": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_truncation(1)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_folder_is_read_from_tokenizer_json_and_never_truncates(folder: Path) -> None:
    assert load_codec(folder).encode("hello world hello") == (1, 2, 1)


def test_the_template_of_a_folder_is_in_its_settings_or_in_a_file_of_its_own(folder: Path) -> None:
    def refusal(codec: Codec) -> str:
        with pytest.raises(RequestRefused) as caught:
            codec.encode_chat([("user", "hello")])
        return str(caught.value)

    assert "is none" in refusal(load_codec(folder))
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({"chat_template": "[INST]"}))
    assert "another than ChatML" in refusal(load_codec(folder))
    (folder / "chat_template.jinja").write_text(CHATML)
    assert load_codec(folder).encode_chat([("user", "hello")])


def test_a_folder_without_tokenizer_or_with_a_damaged_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="has no tokenizer.json"):
        load_codec(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelFileError, match="cannot read .*tokenizer.json"):
        load_codec(tmp_path)
