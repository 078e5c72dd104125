"""Every head of a table is explained in the glossary, and every caution has its remedy."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from harness.analyzer.glossary import find_entry, name_of
from harness.analyzer.imports.flags import TEXTS as FLAG_TEXTS
from harness.analyzer.imports.flags import Flag
from harness.core.cautions import TEXTS, Code

ROOT = Path(__file__).parents[2]
# All but the heads of the glossary itself.
TABLES = sorted(
    {*ROOT.glob("harness/gate/*.py"), *ROOT.glob("reports/*.py")}
    - {ROOT / "harness/gate/glossary_table.py"}
)
# Where cautions are filled in from their words; nobody else writes one.
MAKERS = {"harness/core/cautions.py", "harness/analyzer/imports/flags.py"}


def heads(tree: ast.AST) -> Iterator[str]:
    """The word of each column that is written out: its term, or else its title."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name("Column"), [title, *_], keywords):
                terms = [word.value for word in keywords if word.arg == "term"]
                yield from _written((terms or [title])[:1])
            case ast.Call(ast.Name("map"), [ast.Name("Column"), ast.Tuple(titles)]):
                yield from _written(titles)


def _written(nodes: Iterable[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def sources() -> Iterator[tuple[str, str]]:
    """Each file of the program, and its text."""
    for folder in ("harness", "engines", "workloads", "reports"):
        for path in (ROOT / folder).rglob("*.py"):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def raised(kind: str) -> set[str]:
    """The members of an enum of cautions that the sources name, beside where its words stand."""
    return {
        name
        for path, text in sources()
        if path not in MAKERS
        for name in re.findall(rf"\b{kind}\.([A-Z_]+)\b", text)
    }


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_every_head_of_a_table_is_a_word_of_the_glossary(path: Path) -> None:
    found = list(heads(ast.parse(path.read_text(encoding="utf-8"))))

    assert [head for head in found if head and not name_of(head)] == []


def test_the_heads_of_a_table_are_found_in_its_source() -> None:
    source = (
        'a = (Column("A"), *map(Column, ("B", x)), Column(c, Align.RIGHT, term="d"), Column(e))'
    )

    assert sorted(heads(ast.parse(source))) == ["A", "B", "d"]


def test_every_caution_that_is_raised_has_a_remedy_and_no_other_one_is_left() -> None:
    assert raised("Code") == set(TEXTS) == set(Code)
    assert raised("Flag") == set(FLAG_TEXTS) == set(Flag)
    for message, remedy in (*TEXTS.values(), *FLAG_TEXTS.values()):
        assert message
        assert remedy


def test_no_caution_is_made_without_the_words_of_its_code() -> None:
    makers = {path for path, text in sources() if re.search(r"\bCaution\(", text)}

    assert makers == MAKERS


@pytest.mark.parametrize("code", [*Code, *Flag])
def test_every_caution_can_be_looked_up_with_its_remedy(code: str) -> None:
    entry = find_entry(code)

    assert entry.name == code
    assert entry.definition
    assert entry.remedy
    assert "{" not in entry.definition + entry.remedy
