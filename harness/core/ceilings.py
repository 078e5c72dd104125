"""This machine's ceilings, kept between commands: measured by doctor, read by run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.core.jsonable import from_json
from harness.core.manifest import Ceilings, MachineFacts
from harness.core.rundir import write_json

MACHINE_CEILINGS = "machine-ceilings.json"


@dataclass(frozen=True, slots=True)
class Site:
    """What ceilings hold for: the machine, the torch that measured them, and how many threads."""

    cpu_model: str
    cores: int
    memory_gib: int
    gpus: tuple[str, ...]
    torch: str
    threads: int


@dataclass(frozen=True, slots=True)
class KeptCeilings:
    """The ceilings of a site, one for each of its devices."""

    site: Site
    ceilings: tuple[Ceilings, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """All ceilings that are kept; `problem` says why a file that is there could not be read."""

    sites: tuple[KeptCeilings, ...] = ()
    problem: str | None = None

    def of(self, site: Site) -> tuple[Ceilings, ...]:
        """The ceilings that were measured for `site`; none when there are none."""
        return next((kept.ceilings for kept in self.sites if kept.site == site), ())


@dataclass(frozen=True, slots=True)
class _File:
    sites: tuple[KeptCeilings, ...]


def site_of(machine: MachineFacts, threads: int | None) -> Site:
    """The site of this machine; `threads` None means all cores. Imports no torch."""
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "not installed"
    return Site(
        machine.cpu_model,
        machine.cores,
        machine.memory_gib,
        machine.gpus,
        torch,
        threads or machine.cores,
    )


def read_ceilings(folder: Path) -> Kept:
    """What is kept in `folder`. No file is nothing kept; a bad one too, with its problem."""
    file = folder / MACHINE_CEILINGS
    try:
        kept = from_json(_File, json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Kept()
    except (OSError, ValueError) as error:
        return Kept(problem=f"{file} cannot be read ({error})")
    return Kept(kept.sites)


def keep_ceilings(folder: Path, kept: KeptCeilings) -> Path:
    """Write `kept` instead of any other of its site, or of a bad file; returns the file."""
    others = tuple(k for k in read_ceilings(folder).sites if k.site != kept.site)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / MACHINE_CEILINGS, _File((*others, kept)))
    return folder / MACHINE_CEILINGS
