"""A page as text: a template filled with values that are only ever text, and the file of it.

Self-contained: style, script, figures and data are inside, and nothing is fetched. A policy in the
head of the page lets the browser run these scripts, by their digests, and no other.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.analyzer.glossary import Entry, entries_of, name_of
from harness.core.jsonable import to_json
from harness.gate.cells import Table
from harness.gate.glossary_table import glossary_table, words_in
from reports.cell_notes import CellNotes

SCRIPT = "report.js"
# What could end a script block, or a line of an old script.
_IN_JSON = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def fill(
    template: str,
    *,
    definitions: Sequence[Entry] = (),
    scripts: Sequence[str] = (SCRIPT,),
    **values: object,
) -> str:
    """The page of that template; text in `values` is shown as it is, never as markup.

    Every word that its tables use is defined on the page, after `definitions`, which are the others
    that it has. `scripts` are files beside the templates.
    """
    codes = [(_templates() / name).read_text(encoding="utf-8") for name in scripts]
    entries = dict.fromkeys((*definitions, *entries_of(words_in(_tables_in(values)))))
    defined = {entry.name for entry in entries}

    def anchor(word: str) -> str:
        return name if (name := name_of(word)) in defined else ""

    notes = CellNotes(anchor, {entry.definition for entry in entries})
    return (
        _environment()
        .get_template(template)
        .render(
            definitions=glossary_table(tuple(entries)),
            anchor=anchor,
            notes_of=notes.of,
            scripts=[Markup(code) for code in codes],  # noqa: S704 - our own files
            policy=_policy(codes),
            **values,
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(svg=Markup, json=as_json)
    return environment


def _tables_in(value: object) -> Iterator[Table]:
    """The tables with rows among the values of a page, those in lists, tuples and mappings too."""
    if isinstance(value, Table):
        if value.rows:
            yield value
    elif isinstance(value, dict):
        yield from _tables_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tables_in(one)


def as_json(value: object) -> Markup:
    """`value` as JSON that nothing in it can break out of; a JSON reader gives it back equal."""
    text = json.dumps(to_json(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_IN_JSON))  # noqa: S704 - escaped on this very line


def write_page(path: Path, text: str) -> None:
    """Write `text` to `path`, which holds the old page or the whole new one, never a part."""
    write_whole(path, text.encode())


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` to `path`, which holds what it held or all of `data`, never a part."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _templates() -> Path:
    return Path(__file__).parent / "templates"


def _policy(codes: Sequence[str]) -> str:
    """The page's Content-Security-Policy: nothing from elsewhere, and only these scripts."""
    digests = (hashlib.sha256(code.encode()).digest() for code in codes)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
