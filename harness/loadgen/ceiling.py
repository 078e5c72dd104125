"""This machine's client ceilings, kept between commands: measured by calibrate, read by run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from harness.core.jsonable import from_json
from harness.core.manifest import MachineFacts
from harness.core.rundir import write_json
from harness.loadgen.levels import Ceiling

CEILINGS = "ceiling.json"


@dataclass(frozen=True, slots=True)
class Place:
    """What a ceiling holds for: the machine, the batchmark that measured it, and how many workers.

    Another kernel or Python is another machine here, as it reads at another speed.
    """

    machine: MachineFacts
    tool_version: str
    workers: int


@dataclass(frozen=True, slots=True)
class KeptCeiling:
    """A ceiling as it is kept."""

    place: Place
    ceiling: Ceiling
    measured_utc: str


@dataclass(frozen=True, slots=True)
class _File:
    ceilings: tuple[KeptCeiling, ...] = ()


def find_ceiling(folder: Path, place: Place) -> KeptCeiling | None:
    """The ceiling that was measured for `place`; None when there is none that can be read."""
    return next((kept for kept in _read(folder).ceilings if kept.place == place), None)


def keep_ceiling(folder: Path, kept: KeptCeiling) -> Path:
    """Write `kept` instead of any other of its place; returns the file."""
    others = tuple(c for c in _read(folder).ceilings if c.place != kept.place)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / CEILINGS, _File((*others, kept)))
    return folder / CEILINGS


def _read(folder: Path) -> _File:
    # What is kept can be measured again, so a file that cannot be read is no error.
    try:
        return from_json(_File, json.loads((folder / CEILINGS).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return _File()
