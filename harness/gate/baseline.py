"""Named baselines: a run that somebody agreed to compare against, copied to a safe place.

::

    <store>/<name>/baseline.json     its name, when it was saved, and the run it was
                   manifest.json, requests.jsonl, steps.jsonl, engine.jsonl   as in the run folder
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness.analyzer.reading import read_run
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import CheckVerdict, Summary, Validity
from harness.core.cautions import Caution, Code, caution
from harness.core.errors import RunFolderError, UsageError
from harness.core.jsonable import from_json
from harness.core.manifest import RunStatus
from harness.core.rundir import (
    ENGINE_SAMPLES,
    MANIFEST,
    REQUESTS,
    STEPS,
    RunFolder,
    write_json,
)

LABEL = "baseline.json"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}")
OLD_AFTER_DAYS = 30


@dataclass(frozen=True, slots=True)
class BaselineLabel:
    """What baseline.json holds: the name, when it was given (UTC, ISO 8601), and the source run."""

    name: str
    created_utc: str
    run_id: str
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class Baseline:
    """A named baseline; `path` is a run folder, as far as its numbers need one."""

    label: BaselineLabel
    path: Path

    @property
    def name(self) -> str:
        """The name it is compared under."""
        return self.label.name

    def read(self) -> RunFolder:
        """The run behind the name. Raises RunFolderError when it cannot be read."""
        return read_run(self.path)


def save_baseline(
    store: Path, name: str, run_path: Path, created: datetime, *, replace: bool = False
) -> Baseline:
    """Keep the run at `run_path` as the baseline `name`, which then is there whole or not at all.

    Raises UsageError when the name is taken and `replace` is False, when it is not a name, or when
    the run did not end well or is INVALID.
    """
    _require_name(name)
    target = store / name
    if target.exists() and not replace:
        msg = f"baseline {name!r} exists already in {store}; choose another name, or replace it"
        raise UsageError(msg)
    summary = summarize(read_run(run_path))
    _require_fit(summary, run_path)
    label = BaselineLabel(name, created.isoformat(timespec="seconds"), summary.manifest.run_id)
    try:
        store.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=store) as scratch:
            fresh = _copy(run_path, Path(scratch) / "new", label)
            _put_in_place(fresh, target, Path(scratch) / "old")
    except OSError as error:
        msg = f"cannot write baseline {name!r} in {store}: {error}; choose another store"
        raise UsageError(msg) from error
    return Baseline(label, target)


def load_baseline(store: Path, name: str) -> Baseline:
    """The baseline `name`. Raises UsageError, with the names that exist, when it does not."""
    path = store / name
    if not NAME.fullmatch(name) or not (path / LABEL).is_file():
        there = ", ".join(_names(store)) or "none"
        msg = (
            f"there is no baseline {name!r} in {store}; there are: {there}; "
            "save one with `batchmark baseline save NAME RUN`"
        )
        raise UsageError(msg)
    return Baseline(_read_label(path / LABEL), path)


def list_baselines(store: Path) -> tuple[Baseline, ...]:
    """All baselines in `store`, by name. Raises RunFolderError when one cannot be read."""
    return tuple(Baseline(_read_label(store / n / LABEL), store / n) for n in _names(store))


def age_cautions(baseline: Baseline, now: datetime) -> tuple[Caution, ...]:
    """A caution when `baseline` was saved more than 30 days before `now`; both know their zone."""
    days = (now - datetime.fromisoformat(baseline.label.created_utc)).days
    return (caution(Code.BASELINE_IS_OLD, days=days),) if days > OLD_AFTER_DAYS else ()


def _require_name(name: str) -> None:
    if not NAME.fullmatch(name):
        msg = f"baseline name {name!r} is not allowed; use letters, digits, '.', '_' and '-'"
        raise UsageError(msg)


def _require_fit(summary: Summary, run_path: Path) -> None:
    status = summary.manifest.status
    if status is not RunStatus.COMPLETE:
        msg = f"run {run_path} is {status.value}, so it cannot be a baseline; repeat it to its end"
        raise UsageError(msg)
    if summary.validity is Validity.INVALID:
        msg = (
            f"run {run_path} is INVALID, so it cannot be a baseline: {failed_checks(summary)}; "
            "remove the cause and repeat it"
        )
        raise UsageError(msg)


def failed_checks(summary: Summary) -> str:
    """The checks that make `summary` INVALID, in words; empty when there are none."""
    return ", ".join(
        f"{check.id} {check.title}: {check.value}"
        for check in summary.checks
        if check.verdict is CheckVerdict.INVALID
    )


def _copy(run_path: Path, folder: Path, label: BaselineLabel) -> Path:
    folder.mkdir()
    for file in (MANIFEST, REQUESTS, STEPS, ENGINE_SAMPLES):
        if (run_path / file).exists():
            shutil.copyfile(run_path / file, folder / file)
    write_json(folder / LABEL, label)
    return folder


def _put_in_place(fresh: Path, target: Path, old: Path) -> None:
    """Rename `fresh` to `target`; what was there goes to `old`, and comes back on an error."""
    if target.exists():
        target.rename(old)
    try:
        fresh.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise


def _names(store: Path) -> Sequence[str]:
    if not store.is_dir():
        return ()
    found = (path.name for path in store.iterdir() if (path / LABEL).is_file())
    return sorted(name for name in found if NAME.fullmatch(name))


def _read_label(file: Path) -> BaselineLabel:
    try:
        return from_json(BaselineLabel, json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        msg = f"cannot read {file}: {error}; save the baseline again"
        raise RunFolderError(msg) from error
