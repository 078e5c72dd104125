"""The cautions that exist."""

import string

import pytest

from harness.core.cautions import TEXTS, Code, caution


@pytest.mark.parametrize("code", list(Code))
def test_every_caution_has_a_message_and_a_remedy(code: Code) -> None:
    message, remedy = TEXTS[code]

    assert message
    assert remedy


@pytest.mark.parametrize("code", list(Code))
def test_every_caution_can_be_filled_in(code: Code) -> None:
    names = {
        name for text in TEXTS[code] for _, name, _, _ in string.Formatter().parse(text) if name
    }

    filled = caution(code, **dict.fromkeys(names, 1))

    assert "{" not in filled.message + filled.remedy
