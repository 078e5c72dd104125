"""A whole workload locked in a file, to be sent again byte for byte, to any engine, anywhere.

::

    {"batchmark_schedule": 2, "name": ..., "seed": ..., "load": {...}, "digest": ..., "sha256": ...}
    {"due_ns": ..., "label": ..., "max_tokens": ..., "prompt_token_ids": [...]}      one a request

`digest` is the workload's own, as manifests have it; `sha256` is that of everything else in the
file, so that a change anywhere is seen. Both are known only when all lines are written, and so the
first line is hashed last; in version 1 it was hashed first. The other lines are those of
`stored_arrivals`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import msgspec

from harness.core.errors import UsageError
from harness.core.jsonable import from_json, to_json
from harness.core.row_file import line_rows
from harness.core.source import Source
from harness.core.tally import Tally, Totals
from harness.core.workload import Arrival, Load, LoadKind, Workload, tally_of
from workloads.catalog import load_spec
from workloads.stored_arrivals import StoredArrivals, line_of

FORMAT_VERSION = 2
_HEADER_HASHED_FIRST = 1  # the version that did
# The arrivals of a file up to this size are read into memory, where they take ten times as much.
MOST_BYTES_IN_MEMORY = 8 * 2**20
_BEGINS = b'{"batchmark_schedule"'
_NOT_KNOWN_YET = "0" * 64
_READ_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Outline:
    """A workload without its arrivals."""

    name: str
    seed: int
    repeat_mix: int | None
    load: Load
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of the file."""

    batchmark_schedule: int
    name: str
    seed: int
    repeat_mix: int | None
    load: Load
    digest: str
    sha256: str
    source: Source | None = None

    @property
    def outline(self) -> Outline:
        """The workload that it is the header of."""
        return Outline(self.name, self.seed, self.repeat_mix, self.load, self.source)


def write_schedule(path: Path, workload: Workload) -> None:
    """Lock `workload` in a new file at `path`, which is whole or absent, never a part.

    Raises UsageError when there is a file already, or when it cannot be written.
    """
    outline = Outline(
        workload.name, workload.seed, workload.repeat_mix, workload.load, workload.source
    )
    store_workload(path, outline, workload.arrivals)


def store_workload(path: Path, outline: Outline, arrivals: Iterable[Arrival]) -> Workload:
    """Lock `arrivals` in a new file at `path`, one by one, and return the workload that it holds.

    However many there are, few are in memory at a time. Raises what `write_schedule` does.
    """
    if path.exists():
        msg = f"{path} exists already; name another file with --out, or move that one away"
        raise UsageError(msg)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            first_byte, totals = _write(file, outline, arrivals)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}; name another file with --out"
        raise UsageError(msg) from error
    finally:
        partial.unlink(missing_ok=True)
    workload = _workload(path, outline, first_byte)
    workload.remember(totals)
    return workload


def read_schedule(path: Path, speed: float, name: str | None = None) -> Workload:
    """The workload that is locked in `path`, to be sent `speed` times as fast as it was locked.

    At speed 1 it is the very workload, with its digest. Raises UsageError when the file cannot be
    read, is of another format, was changed or cut, or holds another workload than the one called
    `name`, and when no speed applies, because its requests are not due one after another.
    """
    first_line = _first_line(path)
    header = _header(path, first_line)
    _require_equal(path, "content", header.sha256, _content_sha256(path, header, first_line))
    workload = _counted(_workload(path, header.outline, len(first_line)))
    _require_equal(path, "workload", header.digest, workload.digest)
    if name is not None and (wanted := _name_of(name)) != workload.name:
        msg = f"{path} holds the workload {workload.name!r}, not {wanted!r}; leave out the name"
        raise UsageError(msg)
    if speed == 1:
        return workload
    if not workload.load.is_timed:
        msg = (
            f"--speed is {speed:g}, but the requests of {path} are not due one after another "
            f"({workload.load}); leave out --speed"
        )
        raise UsageError(msg)
    load = _at_speed(workload.load, speed)
    outline = replace(header.outline, load=load)
    return _counted(_workload(path, outline, len(first_line), speed))


def _at_speed(load: Load, speed: float) -> Load:
    """The load of a replay; a replay of a replay is one, at both speeds together."""
    if load.kind is LoadKind.REPLAY:
        return replace(load, speed=(load.speed or 1.0) * speed)
    return Load(LoadKind.REPLAY, speed=speed, replayed=str(load))


def is_schedule(path: Path) -> bool:
    """True when the file at `path` begins as a locked schedule does; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(_BEGINS)) == _BEGINS
    except OSError:
        return False


def _write(file: BinaryIO, outline: Outline, arrivals: Iterable[Arrival]) -> tuple[int, Totals]:
    """Write all lines; the length of the first, which is written again at the end, and totals."""
    header = Header(
        batchmark_schedule=FORMAT_VERSION,
        name=outline.name,
        seed=outline.seed,
        repeat_mix=outline.repeat_mix,
        load=outline.load,
        digest=_NOT_KNOWN_YET,
        sha256=_NOT_KNOWN_YET,
        source=outline.source,
    )
    first_byte = file.write(_encoded(header))
    tally, content = _tally(outline.load), hashlib.sha256()
    for arrival in arrivals:
        line = line_of(arrival)
        file.write(line)
        content.update(line)
        tally.add(arrival)
    totals = tally.totals()
    header = replace(header, digest=totals.digest)
    content.update(_encoded(replace(header, sha256="")))
    file.seek(0)
    file.write(_encoded(replace(header, sha256=content.hexdigest())))
    return first_byte, totals


def _workload(path: Path, outline: Outline, first_byte: int, speed: float = 1.0) -> Workload:
    arrivals: Sequence[Arrival] = StoredArrivals(line_rows(path, first_byte), speed)
    if path.stat().st_size <= MOST_BYTES_IN_MEMORY:
        arrivals = tuple(arrivals)
    return Workload(
        outline.name, outline.seed, outline.repeat_mix, outline.load, arrivals, outline.source
    )


def _counted(workload: Workload) -> Workload:
    """`workload`, its totals counted quicker than it would by itself."""
    workload.remember(_tally(workload.load).count(workload.arrivals))
    return workload


def _tally(load: Load) -> Tally:
    return tally_of(load, msgspec.json.Encoder().encode)


def _first_line(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.readline(_READ_BYTES)
    except OSError as error:
        msg = f"cannot read the schedule {path}: {error.strerror}; check the path"
        raise UsageError(msg) from error


def _header(path: Path, first_line: bytes) -> Header:
    try:
        data = json.loads(first_line)
    except ValueError:
        data = None
    if not isinstance(data, dict) or "batchmark_schedule" not in data:
        msg = f"{path} is not a locked schedule; make one with `batchmark workload lock`"
        raise UsageError(msg)
    if (version := data["batchmark_schedule"]) not in (_HEADER_HASHED_FIRST, FORMAT_VERSION):
        msg = (
            f"{path} has format version {version!r}, this batchmark reads up to {FORMAT_VERSION}; "
            "lock the workload again"
        )
        raise UsageError(msg)
    try:
        return from_json(Header, data)
    except ValueError as error:
        msg = f"{path} has a faulty first line: {error}; lock the workload again"
        raise UsageError(msg) from error


def _content_sha256(path: Path, header: Header, first_line: bytes) -> str:
    # The line as it is written and not as this version would write it, which may know more keys.
    head = first_line.replace(header.sha256.encode(), b"")
    is_head_first = header.batchmark_schedule == _HEADER_HASHED_FIRST
    content = hashlib.sha256(head if is_head_first else b"")
    with path.open("rb") as file:
        file.seek(len(first_line))
        while part := file.read(_READ_BYTES):
            content.update(part)
    content.update(b"" if is_head_first else head)
    return content.hexdigest()


def _encoded(value: object) -> bytes:
    return json.dumps(to_json(value), separators=(",", ":")).encode() + b"\n"


def _require_equal(path: Path, what: str, said: str, found: str) -> None:
    if said != found:
        msg = (
            f"{path} was changed or cut: the digest of its {what} is {found[:16]}, its first line "
            f"says {said[:16]}; copy it again, or lock the workload again"
        )
        raise UsageError(msg)


def _name_of(name_or_path: str) -> str:
    is_file = Path(name_or_path).suffix == ".toml"
    return load_spec(name_or_path).name if is_file else name_or_path
