"""What changes the store of named baselines: save, rename, retire; each whole or not at all.

New content is made in a folder beside the old one and then renamed to its place, which no two
processes can both do: the second one finds the name taken.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from harness.analyzer.reading import read_run
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import CheckVerdict, Summary, Validity
from harness.core.errors import RunFolderError, UsageError
from harness.core.imported import IMPORTED
from harness.core.manifest import RunStatus
from harness.core.rundir import ENGINE_SAMPLES, MANIFEST, REQUESTS, STEPS, write_json
from harness.gate.allowance import RETIRED
from harness.gate.baseline import (
    LABEL,
    NAME,
    Act,
    Baseline,
    BaselineLabel,
    digests_of,
    instant_of,
    load_baseline,
    run_path,
    sealed,
)
from harness.gate.comparison import require_repeats
from harness.gate.formatting import one_line

KEPT = (MANIFEST, REQUESTS, STEPS, ENGINE_SAMPLES, IMPORTED)
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def act(now: datetime, by: str, why: str) -> Act:
    """Who does something now, and why, as it is written down: on one line each."""
    return Act(now.isoformat(timespec="seconds"), one_line(by, 80) or "unknown", one_line(why, 500))


def save_baseline(
    store: Path,
    name: str,
    runs: Sequence[Path],
    saved: Act,
    tool_version: str,
    *,
    replaces: bool = False,
) -> Baseline:
    """Keep `runs`, which are repeats of one setting, as the baseline `name`.

    Raises UsageError when the name is taken and `replaces` is False, when it is not a name, when no
    run or one run twice is given, or when one did not end well or is INVALID; NotComparable when
    they are not repeats of one setting.
    """
    require_name(name)
    target = store / name
    if target.exists() and not replaces:
        raise UsageError(_taken(store, name))
    summaries = _checked(runs)
    label = BaselineLabel(
        saved=saved,
        measured_utc=min((s.manifest.created_utc for s in summaries), key=instant_of),
        runs=tuple(summary.manifest.run_id for summary in summaries),
        tool_version=tool_version,
        files={},
    )
    try:
        store.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=store) as scratch:
            fresh = _copy(runs, Path(scratch) / "new", label)
            old = Path(scratch) / "old"
            _put_in_place(fresh, target, old if replaces else None)
    except OSError as error:
        raise UsageError(_not_written(store, name, error)) from error
    return load_baseline(store, name)


def rename_baseline(store: Path, old: str, new: str) -> Baseline:
    """Call the baseline `old`, retired or not, `new`. Raises UsageError when that is taken."""
    require_name(new)
    baseline = load_baseline(store, old, (RETIRED,))
    target = store / new
    if target.exists():
        raise UsageError(_taken(store, new))
    try:
        baseline.path.rename(target)
    except OSError as error:
        raise UsageError(_not_written(store, new, error)) from error
    return replace(baseline, name=new, path=target)


def retire_baseline(store: Path, name: str, retired: Act) -> Baseline:
    """Keep the baseline `name`, but let nothing be compared with it unless that is said.

    Raises UsageError when it is retired already.
    """
    baseline = load_baseline(store, name, (RETIRED,))
    if baseline.label.retired is not None:
        msg = f"baseline {name!r} is retired already, since {baseline.label.retired}; leave it so"
        raise UsageError(msg)
    label = sealed(replace(baseline.label, retired=retired))
    try:
        write_json(baseline.path / LABEL, label)
    except OSError as error:
        raise UsageError(_not_written(store, name, error)) from error
    return replace(baseline, label=label)


def require_name(name: str) -> None:
    """Raise UsageError when a baseline cannot be called `name`."""
    if not NAME.fullmatch(name):
        msg = (
            f"baseline name {one_line(name, 100)!r} is not allowed; "
            "use letters, digits, '.', '_' and '-'"
        )
        raise UsageError(msg)


def failed_checks(summary: Summary) -> str:
    """The checks that make `summary` INVALID, in words; empty when there are none."""
    return ", ".join(
        f"{check.id} {check.title}: {check.value}"
        for check in summary.checks
        if check.verdict is CheckVerdict.INVALID
    )


def _checked(runs: Sequence[Path]) -> tuple[Summary, ...]:
    places = [path.resolve() for path in runs]
    if twice := next((path for path in runs if places.count(path.resolve()) > 1), None):
        raise UsageError(f"run {twice} is given twice; a baseline holds each of its runs once")
    if not runs:
        raise UsageError("a baseline needs one run at least; name a run folder")
    summaries = tuple(summarize(read_run(path)) for path in runs)
    for path, summary in zip(runs, summaries, strict=True):
        _require_fit(summary, path)
    require_repeats(summaries)
    return summaries


def _require_fit(summary: Summary, path: Path) -> None:
    status = summary.manifest.status
    if status is not RunStatus.COMPLETE:
        msg = f"run {path} is {status.value}, so it cannot be a baseline; repeat it to its end"
        raise UsageError(msg)
    if summary.validity is Validity.INVALID:
        msg = (
            f"run {path} is INVALID, so it cannot be a baseline: {failed_checks(summary)}; "
            "remove the cause and repeat it"
        )
        raise UsageError(msg)
    try:
        instant_of(summary.manifest.created_utc)
    except ValueError as error:
        msg = f"run {path} does not say when it was made: {error}; repeat it"
        raise RunFolderError(msg) from error


def _copy(runs: Sequence[Path], folder: Path, label: BaselineLabel) -> Path:
    for i, source in enumerate(runs):
        run_path(folder, i).mkdir(parents=True)
        for file in KEPT:
            if (source / file).exists():
                shutil.copyfile(source / file, run_path(folder, i) / file)
    write_json(folder / LABEL, sealed(replace(label, files=digests_of(folder))))
    return folder


def _put_in_place(fresh: Path, target: Path, old: Path | None) -> None:
    """Rename `fresh` to `target`; what was there goes to `old`, and comes back on an error.

    Without `old` nothing may be there: then the renaming fails.
    """
    if old is not None and target.exists():
        target.rename(old)
    try:
        fresh.rename(target)
    except OSError:
        if old is not None and old.exists() and not target.exists():
            old.rename(target)
        raise


def _taken(store: Path, name: str) -> str:
    return f"baseline {name!r} exists already in {store}; choose another name, or replace it"


def _not_written(store: Path, name: str, error: OSError) -> str:
    if error.errno in _TAKEN and (store / name).is_dir():  # somebody else was quicker
        return _taken(store, name)
    return f"cannot write baseline {name!r} in {store}: {error}; choose another store"
