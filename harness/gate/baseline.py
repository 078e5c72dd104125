"""Named baselines: runs that somebody agreed to compare against, kept where they cannot get lost.

::

    <store>/<name>/baseline.json     who saved it, when and why, and the sha256 of every file
                   run-1/            manifest.json, requests.jsonl, steps.jsonl, engine.jsonl
                   run-2/            a repeat of the same setting, if there are several

The store is meant for git. The folder's name is the baseline's; `baseline_store` changes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from harness.analyzer.reading import read_run
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import Summary
from harness.core.cautions import Caution, Code, caution
from harness.core.errors import RunFolderError, UsageError
from harness.core.jsonable import from_json, to_json
from harness.core.manifest import RunManifest
from harness.core.rundir import RunFolder, read_manifest
from harness.gate.allowance import RETIRED, waivers

LABEL = "baseline.json"
_UNFINISHED = LABEL + ".partial"
# History of baseline.json:
#   1  name, created_utc and run_id, beside the files of one run
#   2  who, when and why; several runs; sha256 of all files; retirement
FORMAT = 2
# Where format 1 was kept by default.
OLD_STORE = Path(".batchmark/baselines")
OLD_AFTER_DAYS = 30
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}")


@dataclass(frozen=True, slots=True)
class Act:
    """Something done to a baseline: when (UTC, ISO 8601), by whom, and why. All are one line."""

    at_utc: str
    by: str
    why: str

    def __str__(self) -> str:
        """Such as `2030-01-01 by Ada: a slower machine`."""
        return f"{self.at_utc[:10]} by {self.by}" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True, slots=True)
class BaselineLabel:
    """What baseline.json holds.

    `measured_utc` is when the oldest of `runs` (their ids, in order) began. `files` has the sha256
    of each file by its path below the baseline's folder, and `digest` that of all the rest of this.
    """

    saved: Act
    measured_utc: str
    runs: tuple[str, ...]
    tool_version: str
    files: Mapping[str, str]
    retired: Act | None = None
    digest: str = ""
    format_version: int = FORMAT


@dataclass(frozen=True, slots=True)
class Baseline:
    """A named baseline, found as it was saved."""

    name: str
    label: BaselineLabel
    path: Path

    def manifest(self) -> RunManifest:
        """The manifest of its first run. Raises RunFolderError when it cannot be read."""
        return read_manifest(run_path(self.path, 0))

    def read(self) -> tuple[RunFolder, ...]:
        """The runs behind the name. Raises RunFolderError when one cannot be read."""
        return tuple(read_run(run_path(self.path, i)) for i in range(len(self.label.runs)))

    def summaries(self) -> tuple[Summary, ...]:
        """The runs in numbers, made of their raw records by the definitions of today."""
        return tuple(summarize(run) for run in self.read())


def run_path(folder: Path, index: int) -> Path:
    """Where the baseline in `folder` keeps its run `index`, counted from 0."""
    return folder / f"run-{index + 1}"


def load_baseline(store: Path, name: str, allowed: Collection[str] = ()) -> Baseline:
    """The baseline `name`, whose files are as they were saved.

    Raises UsageError, with the names that exist, when there is none, and when it is retired, unless
    `allowed` has `retired`; RunFolderError naming the files that were changed, and for a format
    that this version does not read.
    """
    path = store / name
    if not NAME.fullmatch(name) or not (path / LABEL).is_file():
        raise UsageError(_unknown(store, name))
    label = _read_label(store, name)
    if changed := ", ".join(_changed(path, label)):
        msg = (
            f"baseline {name!r} is not as it was saved: {changed}; "
            f"restore {path}, or measure it again and save that"
        )
        raise RunFolderError(msg)
    if label.retired is not None and RETIRED not in allowed:
        msg = (
            f"baseline {name!r} was retired on {label.retired}; choose another one, "
            "or compare with it all the same, which is then said, by --allow retired"
        )
        raise UsageError(msg)
    return Baseline(name, label, path)


def baselines_in(store: Path) -> dict[str, Baseline | UsageError]:
    """All baselines in `store` by name, retired ones too; the error of one that cannot be used."""
    found: dict[str, Baseline | UsageError] = {}
    for name in names_in(store):
        try:
            found[name] = load_baseline(store, name, (RETIRED,))
        except UsageError as error:
            found[name] = error
    return found


def names_in(store: Path) -> tuple[str, ...]:
    """The names of the baselines in `store`; none when there is no such folder."""
    if not store.is_dir():
        return ()
    found = (path.name for path in store.iterdir() if (path / LABEL).is_file())
    return tuple(sorted(name for name in found if NAME.fullmatch(name)))


def age_days(baseline: Baseline, now: datetime) -> int:
    """How many days before `now`, which knows its zone, the oldest run was measured."""
    return (now - instant_of(baseline.label.measured_utc)).days


def age_cautions(baseline: Baseline, now: datetime) -> tuple[Caution, ...]:
    """A caution when the oldest run was measured more than 30 days before `now`."""
    days = age_days(baseline, now)
    return (caution(Code.BASELINE_IS_OLD, days=days),) if days > OLD_AFTER_DAYS else ()


def origin(baseline: Baseline, now: datetime) -> str:
    """Of when and of what the baseline is, in words: what it says is true of no other version."""
    label, manifest = baseline.label, baseline.manifest()
    engine = f"{manifest.engine.name} {manifest.facts.version or 'of unknown version'}"
    days = age_days(baseline, now)
    return (
        f"{engine}, measured {label.measured_utc[:10]}, {days} days ago, saved by {label.saved.by}"
    )


def retirement(baseline: Baseline, allowed: Collection[str]) -> tuple[str, ...]:
    """What every output says first of a baseline that is used by leave of `--allow retired`."""
    retired = baseline.label.retired
    found = [] if retired is None else [(RETIRED, f"{baseline.name} was retired on {retired}")]
    return waivers([key for key in allowed if key == RETIRED], found)


def instant_of(utc: str) -> datetime:
    """The instant that a label such as `2030-01-01T00:00:00+00:00` names."""
    found = datetime.fromisoformat(utc)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def sealed(label: BaselineLabel) -> BaselineLabel:
    """`label` with the digest of all that it says, and so of all files."""
    said = json.dumps(to_json(replace(label, digest="")), sort_keys=True)
    return replace(label, digest=hashlib.sha256(said.encode()).hexdigest())


def digests_of(folder: Path) -> dict[str, str]:
    """The sha256 of each file below `folder`, by its path; without the label and hidden files."""
    found = {}
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in path.parts)
        if file.is_dir() or is_hidden or path.as_posix() in (LABEL, _UNFINISHED):
            continue
        with file.open("rb") as opened:
            found[path.as_posix()] = hashlib.file_digest(opened, "sha256").hexdigest()
    return found


def _changed(path: Path, label: BaselineLabel) -> Iterator[str]:
    """Each file that is not as it was saved, and how."""
    if sealed(label) != label:
        yield f"{LABEL} was edited"
    try:
        there = digests_of(path)
    except OSError as error:
        yield f"{error.filename} cannot be read ({error.strerror})"
        return
    for file in sorted({*there, *label.files}):
        if file not in there:
            yield f"{file} is missing"
        elif file not in label.files:
            yield f"{file} was added"
        elif there[file] != label.files[file]:
            yield f"{file} was edited"


def _read_label(store: Path, name: str) -> BaselineLabel:
    file = store / name / LABEL
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        version = data.get("format_version") if isinstance(data, dict) else None
        if version == FORMAT:
            instant_of(data["measured_utc"])
            return from_json(BaselineLabel, data)
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = f"cannot read {file}: {error}; restore it, or save the baseline again"
        raise RunFolderError(msg) from error
    raise RunFolderError(f"{file} has format {version!r}; {_way_out(store, name, version)}")


def _way_out(store: Path, name: str, version: object) -> str:
    """What to do with a label of another format. A baseline of format 1 is a run folder itself."""
    if version != 1:
        return f"this batchmark reads {FORMAT}; use the version that wrote it"
    again = f"batchmark baseline save {name} {store / name} --baselines {store} --replace"
    return f"it has no digests, so nobody can tell whether it was edited; save it again: `{again}`"


def _unknown(store: Path, name: str) -> str:
    there = ", ".join(names_in(store)) or "none"
    remedy = "save one with `batchmark baseline save NAME RUN`"
    if store != OLD_STORE and name in names_in(OLD_STORE):
        remedy = (
            f"there is one in {OLD_STORE}, where they were before; "
            f"save it again with `batchmark baseline save {name} {OLD_STORE / name}`"
        )
    return f"there is no baseline {name!r} in {store}; there are: {there}; {remedy}"
