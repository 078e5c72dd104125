"""A whole workload locked in a file, to be sent again byte for byte, on any machine, to any engine.

::

    {"batchmark_schedule": 1, "name": ..., "seed": ..., "load": {...}, "digest": ..., "sha256": ...}
    {"due_ns": ..., "label": ..., "max_tokens": ..., "prompt_token_ids": [...]}      one a request

`digest` is the workload's own, as it stands in run manifests; `sha256` is that of all other bytes
of the file, so that a change of any of them is seen.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.jsonable import from_json, to_json
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload
from workloads.catalog import load_spec

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of the file."""

    batchmark_schedule: int
    name: str
    seed: int
    repeat_mix: int | None
    load: Load
    requests: int
    digest: str
    sha256: str = ""


def write_schedule(path: Path, workload: Workload) -> None:
    """Lock `workload` in a new file at `path`, which is whole or absent, never a part.

    Raises UsageError when there is a file already, or when it cannot be written.
    """
    lines = b"".join(map(_line, workload.arrivals))
    header = Header(
        batchmark_schedule=FORMAT_VERSION,
        name=workload.name,
        seed=workload.seed,
        repeat_mix=workload.repeat_mix,
        load=workload.load,
        requests=len(workload.arrivals),
        digest=workload.digest,
    )
    first = _encoded(replace(header, sha256=_sha256(header, lines)))
    partial = path.with_name(path.name + ".partial")
    if path.exists():
        msg = f"{path} exists already; name another file with --out, or move that one away"
        raise UsageError(msg)
    try:
        with partial.open("wb") as file:
            file.write(first + lines)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}; name another file with --out"
        raise UsageError(msg) from error


def read_schedule(path: Path, speed: float, name: str | None = None) -> Workload:
    """The workload that is locked in `path`, sent `speed` times as fast as it was locked.

    At speed 1 it is the very workload, with its digest. Raises UsageError when the file cannot be
    read, is of another format, was changed or cut, or holds another workload than the one called
    `name`, and when its requests are not due at instants that a speed could change.
    """
    header, lines = _read(path)
    _require_equal(path, "content", header.sha256, _sha256(header, lines))
    workload = Workload(
        header.name, header.seed, header.repeat_mix, header.load, _arrivals(path, lines)
    )
    _require_equal(path, "workload", header.digest, workload.digest)
    if name is not None and (wanted := _name_of(name)) != workload.name:
        msg = f"{path} holds the workload {workload.name!r}, not {wanted!r}; leave out the name"
        raise UsageError(msg)
    return workload if speed == 1 else _at_speed(path, workload, speed)


def _read(path: Path) -> tuple[Header, bytes]:
    try:
        first, _, lines = path.read_bytes().partition(b"\n")
    except OSError as error:
        msg = f"cannot read the schedule {path}: {error.strerror}; check the path"
        raise UsageError(msg) from error
    try:
        data = json.loads(first)
    except ValueError:
        data = None
    version = data.get("batchmark_schedule") if isinstance(data, dict) else None
    if version is None:
        msg = f"{path} is not a locked schedule; make one with `batchmark workload lock`"
        raise UsageError(msg)
    if version != FORMAT_VERSION:
        msg = (
            f"{path} has format version {version!r}, this batchmark reads {FORMAT_VERSION}; "
            "lock the workload again"
        )
        raise UsageError(msg)
    try:
        return from_json(Header, data), lines
    except ValueError as error:
        msg = f"{path} has a faulty first line: {error}; lock the workload again"
        raise UsageError(msg) from error


def _arrivals(path: Path, lines: bytes) -> tuple[Arrival, ...]:
    try:
        return tuple(_arrival(index, json.loads(l)) for index, l in enumerate(lines.splitlines()))
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{path} has a line that is no request: {error!r}; lock the workload again"
        raise UsageError(msg) from error


def _arrival(index: int, row: dict[str, object]) -> Arrival:
    due_ns, label, max_tokens = row["due_ns"], row["label"], row["max_tokens"]
    ids = row["prompt_token_ids"]
