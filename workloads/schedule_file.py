"""A whole workload locked in a file, to be sent again byte for byte, to any engine, anywhere.

::

    {"batchmark_schedule": 1, "name": ..., "seed": ..., "load": {...}, "digest": ..., "sha256": ...}
    {"due_ns": ..., "label": ..., "max_tokens": ..., "prompt_token_ids": [...]}      one a request

`digest` is the workload's own, as manifests have it; `sha256` is that of everything else in the
file, so that a change anywhere is seen.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
    digest: str
    sha256: str = ""


def write_schedule(path: Path, workload: Workload) -> None:
    """Lock `workload` in a new file at `path`, which is whole or absent, never a part.

    Raises UsageError when there is a file already, or when it cannot be written.
    """
    if path.exists():
        msg = f"{path} exists already; name another file with --out, or move that one away"
        raise UsageError(msg)
    lines = b"".join(_line(arrival) for arrival in workload.arrivals)
    header = Header(
        batchmark_schedule=FORMAT_VERSION,
        name=workload.name,
        seed=workload.seed,
        repeat_mix=workload.repeat_mix,
        load=workload.load,
        digest=workload.digest,
    )
    header = replace(header, sha256=_sha256(header, lines))
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.write(_encoded(header) + lines)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}; name another file with --out"
        raise UsageError(msg) from error


def read_schedule(path: Path, speed: float, name: str | None = None) -> Workload:
    """The workload that is locked in `path`, to be sent `speed` times as fast as it was locked.

    At speed 1 it is the very workload, with its digest. Raises UsageError when the file cannot be
    read, is of another format, was changed or cut, or holds another workload than the one called
    `name`, and when no speed applies, because its requests are not due one after another.
    """
    header, lines = _read(path)
    _require_equal(path, "content", header.sha256, _sha256(header, lines))
    arrivals = _arrivals(path, lines)
    workload = Workload(header.name, header.seed, header.repeat_mix, header.load, arrivals)
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
    if not isinstance(data, dict) or "batchmark_schedule" not in data:
        msg = f"{path} is not a locked schedule; make one with `batchmark workload lock`"
        raise UsageError(msg)
    if (version := data["batchmark_schedule"]) != FORMAT_VERSION:
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
        rows = [json.loads(line) for line in lines.splitlines()]
        return tuple(_arrival(index, row) for index, row in enumerate(rows))
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{path} has a line that is no request ({error!r}); lock the workload again"
        raise UsageError(msg) from error


def _arrival(index: int, row: Any) -> Arrival:
    # Not through `from_json`, which looks at each of millions of token ids: the digest has done so.
    token_ids = tuple(row["prompt_token_ids"])
    return Arrival(row["due_ns"], Request(index, row["label"], token_ids, row["max_tokens"]))


def _line(arrival: Arrival) -> bytes:
    request = arrival.request
    return _encoded(
        {
            "due_ns": arrival.due_ns,
            "label": request.label,
            "max_tokens": request.max_tokens,
            "prompt_token_ids": request.prompt_token_ids,
        }
    )


def _encoded(value: object) -> bytes:
    return json.dumps(to_json(value), separators=(",", ":")).encode() + b"\n"


def _sha256(header: Header, lines: bytes) -> str:
    return hashlib.sha256(_encoded(replace(header, sha256="")) + lines).hexdigest()


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


def _at_speed(path: Path, workload: Workload, speed: float) -> Workload:
    if not workload.load.is_timed:
        msg = (
            f"--speed is {speed:g}, but the requests of {path} are not due one after another "
            f"({workload.load}); leave out --speed"
        )
        raise UsageError(msg)
    load = Load(LoadKind.REPLAY, speed=speed, replayed=str(workload.load))
    arrivals = tuple(replace(a, due_ns=round(a.due_ns / speed)) for a in workload.arrivals)
    return replace(workload, load=load, arrivals=arrivals)
