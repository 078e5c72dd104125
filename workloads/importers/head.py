"""The start of a trace file: what its format is told from."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

_STRING_OR_BRACKET = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?|[{}\[\]]', re.DOTALL)
_LONGEST_HEADER = 100_000


@dataclass(frozen=True, slots=True)
class Head:
    """The first mebibyte of a file as text.

    `columns` are those of the header, when the file is a table in CSV. `keys` are those of the
    first object, when it is JSON: of a line, of the whole document, or of its list's first item.
    """

    name: str
    text: str
    columns: frozenset[str]
    keys: frozenset[str]

    @staticmethod
    def of(name: str, text: str) -> Head:
        """The head of the file called `name` that begins with `text`."""
        text = text.lstrip()
        if text.startswith(("{", "[")):
            return Head(name, text, frozenset(), _first_keys(text))
        header = text.split("\n", 1)[0][:_LONGEST_HEADER]
        try:
            columns = frozenset(c.strip() for c in next(csv.reader([header]), []))
        except csv.Error:
            columns = frozenset()
        return Head(name, text, columns, frozenset())

    @property
    def is_json(self) -> bool:
        """True for JSON lines and JSON documents."""
        return self.text.startswith(("{", "["))

    @property
    def is_list(self) -> bool:
        """True for a JSON document that is a list."""
        return self.text.startswith("[")

    @property
    def fields(self) -> frozenset[str]:
        """The names of a row's fields, of a table or of JSON."""
        return self.columns | self.keys


def _first_keys(text: str) -> frozenset[str]:
    """The keys of the first object in `text`, which may end before the object does."""
    keys: set[str] = set()
    depth, depth_of_object = 0, None
    for found in _STRING_OR_BRACKET.finditer(text):
        mark = found[0]
        if mark in {"{", "["}:
            depth += 1
            if mark == "{" and depth_of_object is None:
                depth_of_object = depth
        elif mark in {"}", "]"}:
            if depth == depth_of_object:
                break
            depth -= 1
        elif found[2] and depth == depth_of_object:
            keys.add(found[1])
    return frozenset(keys)
