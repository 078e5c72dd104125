"""Messages as one text: by the model's template, run in a sandbox on a fixed day, or plainly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from workloads.chat_text import ChatForm, ChatTemplate, chat_text_by, read_chat_template
from workloads.shape import Message

ASKED = (Message("system", "Be brief."), Message("user", "2 < 3?"))
CHATML = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def rendered(source: str, **tokens: str) -> str:
    return chat_text_by(ChatTemplate(source, tokens), None)(ASKED)


def test_the_template_of_the_model_makes_the_text_with_the_answer_to_come() -> None:
    assert rendered(CHATML) == "<|system|>Be brief.\n<|user|>2 < 3?\n<|assistant|>"


def test_a_template_has_the_special_tokens_json_as_it_is_and_a_day_that_never_changes() -> None:
    source = "{{ bos_token }}{{ messages[1].content | tojson }}{{ strftime_now('%d %b %Y') }}"

    assert rendered(source, bos_token="<s>") == '<s>"2 < 3?"26 Jul 2024'


def test_the_plain_form_names_the_roles_and_ends_with_the_turn_of_the_assistant() -> None:
    assert chat_text_by(None, ChatForm.PLAIN)(ASKED) == (
        "System: Be brief.\n\nUser: 2 < 3?\n\nAssistant:"
    )


@pytest.mark.parametrize("form", [None, ChatForm.TEMPLATE])
def test_e19_a_base_model_without_a_template_is_told_which_option_helps(
    form: ChatForm | None,
) -> None:
    """evalscope#1564: the error of the library came out raw."""
    with pytest.raises(UsageError, match="no chat template.*give --chat-form plain"):
        chat_text_by(None, form)


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages[9].content.nothing }}",
        "{{ 1 / 0 }}",
        "{{ messages.__class__.__mro__ }}{{ messages.append(1) }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
    ],
)
def test_a_template_that_refuses_fails_or_reaches_out_is_one_line_with_the_way_out(
    source: str,
) -> None:
    with pytest.raises(UsageError, match="refuses messages of system, user: .*--chat-form plain"):
        rendered(source)


def test_a_template_that_is_none_is_refused_before_any_message() -> None:
    with pytest.raises(UsageError, match="faulty.*--chat-form plain"):
        chat_text_by(ChatTemplate("{% for %}"), None)


@pytest.mark.parametrize(
    ("settings", "own_file", "expected"),
    [
        ({"chat_template": "a", "bos_token": "<s>"}, None, ChatTemplate("a", {"bos_token": "<s>"})),
        ({"chat_template": "a", "eos_token": {"content": "</s>"}}, "b", ChatTemplate("b", {"eos_token": "</s>"})),
        ({"chat_template": [{"name": "tools", "template": "t"}, {"name": "default", "template": "d"}]}, None, ChatTemplate("d")),
        ({"bos_token": None}, None, None),
        (None, "b", ChatTemplate("b")),
        (None, None, None),
    ],
)  # fmt: skip
def test_the_template_is_found_where_hugging_face_puts_it(
    tmp_path: Path,
    settings: dict[str, object] | None,
    own_file: str | None,
    expected: ChatTemplate | None,
) -> None:
    if settings is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    if own_file is not None:
        (tmp_path / "chat_template.jinja").write_text(own_file)

    assert read_chat_template(tmp_path) == expected


@pytest.mark.parametrize("content", ["{", "[]", '{"chat_template": [7]}', '{"chat_template": [{"name": "default"}]}'])  # fmt: skip
def test_settings_that_cannot_be_read_are_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(content)

    with pytest.raises(UsageError, match="cannot read the chat template of"):
        read_chat_template(tmp_path)
