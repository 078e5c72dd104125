from __future__ import annotations

import pytest

from harness.core.errors import UsageError
from harness.gate.allowance import KEYS, allowed_keys, allowed_line, waivers


def test_known_keys_are_taken_once_each_in_their_order() -> None:
    assert allowed_keys(["cores", "cpu", "cores"]) == ("cores", "cpu")
    assert allowed_keys(None) == allowed_keys([]) == ()


@pytest.mark.parametrize("word", ["colour", "", "CPU", "all", "*"])
def test_an_unknown_key_is_refused_with_those_that_exist(word: str) -> None:
    with pytest.raises(UsageError, match="is no key; the keys are clock, model, dtype"):
        allowed_keys(["cores", word])


def test_what_was_allowed_is_said_whether_it_was_needed_or_not() -> None:
    said = waivers(("cpu", "cores"), [("cpu", "CPU: A / B"), ("memory", "memory: 1 / 2")])

    assert said == ("CPU: A / B", "cores (nothing to allow)")
    assert allowed_line(said) == (
        "NOT ALIKE, compared because of --allow: CPU: A / B; cores (nothing to allow)"
    )


def test_nothing_allowed_is_no_line() -> None:
    assert allowed_line(waivers((), [])) == ""


def test_keys_are_words_for_a_command_line() -> None:
    assert len(set(KEYS)) == len(KEYS)
    assert not [key for key in KEYS if " " in key or key != key.lower()]
