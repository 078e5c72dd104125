"""The file of another tool, read as JSON or as JSON lines, whichever it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.core.cautions import Caution, Code, caution
from harness.core.errors import UsageError

# All of a file is held in memory, some ten times its size.
MOST_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Document:
    """The objects of a file: those of its lines, of its list, or the one that it is."""

    name: str
    sha256: str
    objects: tuple[Mapping[str, object], ...]
    cautions: tuple[Caution, ...] = ()


def read_document(path: Path) -> Document:
    """The file at `path`. Raises UsageError when it is not there, too large, empty, or no JSON."""
    content = _content(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{path} is not text in UTF-8 (byte {error.start}); name a JSON file"
        raise UsageError(msg) from None
    if not text.strip():
        msg = f"{path} is empty; name the file that the tool has written"
        raise UsageError(msg)
    values, cautions = _values(path, text)
    if len(values) == 1 and isinstance(values[0], list):
        values = tuple(values[0])
    objects = tuple(value for value in values if isinstance(value, dict))
    if not objects or len(objects) != len(values):
        kind = next((type(value).__name__ for value in values if type(value) is not dict), "list")
        msg = f"{path} holds no results: expected JSON objects, found {kind} among {len(values)}"
        raise UsageError(msg)
    return Document(path.name, hashlib.sha256(content).hexdigest(), objects, cautions)


def _content(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            msg = (
                f"{path} has {size / 2**30:.1f} GiB, and up to {MOST_BYTES / 2**30:g} GiB are "
                "read; import the tool's summary without its requests, or a shorter run"
            )
            raise UsageError(msg)
        return path.read_bytes()
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}; name the file that the tool has written"
        raise UsageError(msg) from error


def _values(path: Path, text: str) -> tuple[tuple[object, ...], tuple[Caution, ...]]:
    try:
        return (json.loads(text),), ()
    except RecursionError:
        msg = f"{path} is nested too deeply to be a result"
        raise UsageError(msg) from None
    except ValueError as error:
        lines = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
        whole, cautions = _lines(path, lines, is_cut=not text.endswith("\n"))
        if whole:
            return whole, cautions
        msg = f"{path} is not JSON, and may be cut: {error}"
        raise UsageError(msg) from None


def _lines(
    path: Path, lines: list[tuple[int, str]], *, is_cut: bool
) -> tuple[tuple[object, ...], tuple[Caution, ...]]:
    """The values of all lines; none when the first is no JSON. A last line that is cut is left."""
    values: list[object] = []
    for number, line in lines:
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            if not values:
                return (), ()
            if is_cut and number == lines[-1][0]:
                return tuple(values), (caution(Code.CUT_LAST_LINE, file=path.name),)
            msg = f"line {number} of {path} is not JSON: {error}"
            raise UsageError(msg) from None
    return tuple(values), ()
