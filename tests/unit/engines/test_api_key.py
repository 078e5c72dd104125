"""A key out of the environment, and how it hides."""

from __future__ import annotations

import pytest

from engines.api_key import ApiKey, api_key_of
from harness.core.engine import EngineSpec
from harness.core.errors import UsageError

SPEC = EngineSpec("openai", "x", "m", api_key_env="SOME_KEY")


def test_a_spec_that_names_no_variable_has_no_key() -> None:
    assert api_key_of(EngineSpec("openai", "x", "m")) is None


def test_the_key_is_read_from_the_variable_that_the_spec_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-1")

    key = api_key_of(SPEC)

    assert key is not None
    assert key.header == ("Authorization", "Bearer sk-1")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "is not set"),
        ("", "is empty"),
        ("sk-1\n", "blank"),
        ("sk 1", "blank"),
        ("ключ", "blank"),
    ],
)
def test_a_variable_without_a_fit_key_is_named_and_its_value_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, value: str | None, words: str
) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SOME_KEY", value)

    with pytest.raises(UsageError, match=words) as raised:
        api_key_of(SPEC)

    assert "SOME_KEY" in str(raised.value)
    assert not value or value.strip() not in str(raised.value)


def test_a_key_is_hidden_however_it_is_printed() -> None:
    key = ApiKey("sk-1")

    assert [repr(key), str(key), f"{key}", f"{key!r}"] == ["<hidden>"] * 4
    assert repr([key]) == "[<hidden>]"


def test_text_is_freed_of_every_occurrence_and_else_untouched() -> None:
    assert ApiKey("sk-1").hide("a sk-1, sk-1 and sk-2") == "a <hidden>, <hidden> and sk-2"
