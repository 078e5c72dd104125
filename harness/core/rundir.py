"""The run folder: the file that separates measuring from judging.

::

    manifest.json     what was measured, on what, with what (replaced whole, never edited)
    requests.jsonl    one RequestRecord a line, appended when a request ends
    steps.jsonl       one StepRecord a line, written by an engine that logs its steps
    engine.jsonl      one EngineSample a line: the engine's own counters, from run start
    engine.log        what the server printed
    texts.jsonl       the answers as text, only when they were asked for
    imported.json     what another tool claims, only where the run is one of its results

A line is whole once its newline is on disk, so a folder is readable whatever killed its writer.
`harness.analyzer.reading` reads the records.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.core.cautions import Caution, Code, caution
from harness.core.engine import EngineSample
from harness.core.errors import RunFolderError, UsageError
from harness.core.imported import Imported
from harness.core.jsonable import from_json, to_json
from harness.core.manifest import SCHEMA_VERSION, RunManifest
from harness.core.record import RequestRecord, StepRecord

MANIFEST = "manifest.json"
REQUESTS = "requests.jsonl"
STEPS = "steps.jsonl"
ENGINE_LOG = "engine.log"
ENGINE_SAMPLES = "engine.jsonl"
TEXTS = "texts.jsonl"
SUMMARY = "summary.json"


def safe_name(name: str) -> str:
    """`name` as one harmless path component: no separators, no dots in front, never empty."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:80] or "unnamed"


def write_json(path: Path, value: object) -> None:
    """Write `value` as JSON so that `path` holds the old content or the new, never a part."""
    text = json.dumps(to_json(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def create_folder(path: Path) -> Path:
    """Make a new, empty folder at `path`. Raises UsageError when something is already there."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        msg = f"{path} exists already; name another folder with --out, or move that one away"
        raise UsageError(msg) from None
    except OSError as error:
        msg = f"cannot make the folder {path}: {error.strerror}; name another with --out"
        raise UsageError(msg) from error
    return path


class LineWriter:
    """Appends JSON values to a file, one whole line each, flushed to the system at once."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def append(self, value: object) -> None:
        """Write `value` as one line."""
        text = json.dumps(to_json(value), separators=(",", ":"), allow_nan=False)
        self.append_encoded(text.encode())

    def append_encoded(self, line: bytes) -> None:
        """Write `line`, which is JSON without a newline in it, as one line."""
        self._file.write(line + b"\n")
        self._file.flush()


@contextmanager
def open_lines(path: Path) -> Iterator[LineWriter]:
    """A LineWriter that appends to `path`; closed, and forced to disk, on leaving."""
    with path.open("ab") as file:
        try:
            yield LineWriter(file)
        finally:
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run folder as read: every whole record, and a caution for each that was not."""

    path: Path
    manifest: RunManifest
    requests: Sequence[RequestRecord]
    steps: Sequence[StepRecord]
    cautions: tuple[Caution, ...]
    samples: Sequence[EngineSample] = ()
    imported: Imported | None = None


def read_manifest(path: Path) -> RunManifest:
    """The manifest of the run folder at `path`. Raises RunFolderError when there is none."""
    file = path / MANIFEST
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        json.dumps(data, ensure_ascii=False).encode()  # half a character is no text
    except FileNotFoundError:
        msg = f"{path} is not a run folder: it has no {MANIFEST}; list runs with `ls runs/`"
        raise RunFolderError(msg) from None
    except (OSError, ValueError) as error:
        msg = f"cannot read {file}: {error}; restore it, or repeat the run"
        raise RunFolderError(msg) from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        msg = (
            f"{file} has format version {version!r}, this batchmark reads {SCHEMA_VERSION}; "
            "use the batchmark version that wrote it"
        )
        raise RunFolderError(msg)
    try:
        return from_json(RunManifest, data)
    except ValueError as error:
        msg = f"{file} is not a manifest: {error}; restore it, or repeat the run"
        raise RunFolderError(msg) from error


def read_lines(path: Path, take: Callable[[bytes], object]) -> tuple[Caution, ...]:
    """Hand each whole line of `path` to `take`; a caution for each that could not be read.

    `take` raises ValueError when a line is not what it should be. No file is no lines.
    """
    if not path.exists():
        return ()
    cautions = []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                cautions.append(caution(Code.CUT_LAST_LINE, file=path.name))
                continue
            try:
                take(line)
            except ValueError:
                cautions.append(caution(Code.BAD_LINE, line=number, file=path.name))
    return tuple(cautions)
