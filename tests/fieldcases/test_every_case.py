"""Every case of kinds H (comparison) and K (real results of other tools) has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CASES = (
    *(f"h{number:02}" for number in (1, 3, 4, 5, 7, 8, 9, 11, 12, 14, 15, 17, 19)),
    *(f"k{number}" for number in range(1, 10)),
)


@pytest.fixture(scope="module")
def names() -> str:
    """The names of all tests, as one text."""
    sources = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    return "\n".join(name for text in sources for name in re.findall(r"def (test_\w+)", text))


@pytest.mark.parametrize("case", CASES)
def test_the_case_is_in_the_name_of_a_test(names: str, case: str) -> None:
    assert re.search(rf"test_(\w+_)?{case}_", names), case
