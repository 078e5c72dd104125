"""Many run folders at a glance: of each only its manifest and its summary are read.

A folder that cannot be read is in the index too, with the reason: a run that silently is not there
looks like one that was never made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harness.analyzer.summary import Validity
from harness.core.errors import RunFolderError
from harness.core.manifest import RunManifest, RunStatus
from harness.core.rundir import MANIFEST, REQUESTS, SUMMARY, read_manifest

_OF_A_RUN = frozenset((MANIFEST, REQUESTS, SUMMARY))


@dataclass(frozen=True, slots=True)
class IndexedRun:
    """A run as far as its manifest and summary tell. `name` is its path below the index's folder.

    `values` are those of its metrics that were measured, `reasons` say why others were not.
    `validity` is None, and `doubt` says why, where there is no summary that could be read.
    """

    name: str
    manifest: RunManifest
    validity: Validity | None
    values: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    doubt: str | None = None

    @property
    def counts(self) -> bool:
        """Whether its numbers may stand in a series: it ended well, and is not INVALID."""
        is_whole = self.manifest.status is RunStatus.COMPLETE
        return is_whole and self.validity in {Validity.VALID, Validity.WARN}


@dataclass(frozen=True, slots=True)
class BrokenRun:
    """A folder that holds a run, or should, and cannot be read."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunIndex:
    """All runs below a folder, the latest first, and all that could not be read, by name."""

    folder: Path
    runs: tuple[IndexedRun, ...]
    broken: tuple[BrokenRun, ...]


@dataclass
class RunIndexer:
    """Reads the runs below a folder, and those that have not changed only once."""

    folder: Path
    _known: dict[str, tuple[tuple[int, ...], IndexedRun | BrokenRun]] = field(default_factory=dict)

    def read(self) -> RunIndex:
        """What is there now. Raises RunFolderError where the folder itself cannot be read."""
        if not self.folder.is_dir():
            msg = f"{self.folder} is not a folder; name one that holds run folders, such as runs"
            raise RunFolderError(msg)
        found = list(self._all())
        runs = [run for run in found if isinstance(run, IndexedRun)]
        runs.sort(key=lambda run: (run.manifest.created_utc, run.name), reverse=True)
        broken = sorted((b for b in found if isinstance(b, BrokenRun)), key=lambda b: b.name)
        return RunIndex(self.folder, tuple(runs), tuple(broken))

    def _all(self) -> Iterator[IndexedRun | BrokenRun]:
        unreadable: list[OSError] = []
        for at, folders, files in os.walk(self.folder, onerror=unreadable.append):
            folders.sort()
            if _OF_A_RUN.isdisjoint(files):
                continue
            folders.clear()  # a run holds no runs
            path = Path(at)
            stamp = _stamp(path)
            if at not in self._known or self._known[at][0] != stamp:
                self._known[at] = stamp, _read(path, self._name(at))
            yield self._known[at][1]
        for error in unreadable:
            yield BrokenRun(self._name(error.filename), f"cannot be opened: {error.strerror}")

    def _name(self, at: str) -> str:
        """What the folder `at` is called; bytes in it that are no text are question marks."""
        below = Path(at).relative_to(self.folder).as_posix()
        return below.encode(errors="replace").decode()


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes when the files do that are read of a run."""
    found = []
    for name in (MANIFEST, SUMMARY):
        try:
            stat = (path / name).stat()
        except OSError:
            found += [0, 0]
        else:
            found += [stat.st_mtime_ns, stat.st_size]
    return tuple(found)


def _read(path: Path, name: str) -> IndexedRun | BrokenRun:
    try:
        manifest = read_manifest(path)
    except RunFolderError as error:
        return BrokenRun(name, str(error))
    try:
        summary = _read_summary((path / SUMMARY).read_bytes())
    except FileNotFoundError:
        doubt = f"it has no {SUMMARY}: it was not made to its end"
    except (OSError, ValueError) as error:
        doubt = f"its {SUMMARY} cannot be read: {error}"
    else:
        values = {v.metric: v.value for v in summary.values if v.value is not None}
        reasons = {v.metric: v.reason for v in summary.values if v.reason is not None}
        return IndexedRun(name, manifest, summary.validity, values, reasons)
    return IndexedRun(name, manifest, None, doubt=doubt)


class _Value(msgspec.Struct):
    metric: str
    value: float | None
    reason: str | None = None


class _Summary(msgspec.Struct):
    """What is read of a summary; the rest of it may be of any version."""

    validity: Validity
    values: list[_Value]


# What it raises, msgspec.ValidationError and DecodeError, are ValueErrors.
_read_summary = msgspec.json.Decoder(_Summary).decode
