"""Every field case about traces, prompts, warm-ups and caches has a test that bears its number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CASES = (
    *(f"e{n:02}" for n in (1, 2, 3, 5, 6, 7, 8, 10, 11, 13, 15, 16, 17, 18, 19)),
    *(f"f{n:02}" for n in (1, 2, 3, 5, 6, 7, 8)),
)
_NAMED = re.compile(r"def test_((?:[a-l]\d\d_)+)|^\s*# ([A-L]\d\d)\b", re.MULTILINE)


def numbers() -> set[str]:
    """The numbers in names of tests, and at the head of comments in them."""
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for name, comment in _NAMED.findall(path.read_text()):
            found |= set(re.findall(r"[a-l]\d\d", name)) | {comment.lower()}
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_case_has_a_test(case: str) -> None:
    assert case in numbers()
