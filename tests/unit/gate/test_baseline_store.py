from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import NotComparable, RunFolderError, UsageError
from harness.core.manifest import RunStatus
from harness.gate.baseline import Baseline, load_baseline, names_in
from harness.gate.baseline_store import act, rename_baseline, retire_baseline, save_baseline

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ACT = act(NOON, "Ada", "")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def good(build: Any, tmp_path: Path) -> Path:
    return build.folder(tmp_path / "run", build.run([build.record(0)], [build.step()]))


def save(store: Path, name: str, *runs: Path, replaces: bool = False) -> Baseline:
    return save_baseline(store, name, runs, ACT, "0.1.0", replaces=replaces)


def entries(store: Path) -> list[str]:
    return sorted(path.name for path in store.iterdir())


def no_space(monkeypatch: pytest.MonkeyPatch, name: str, number: int = 28) -> None:
    """Let renaming a folder called `name` fail."""
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == name:
            raise OSError(number, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)


def test_nothing_but_the_records_is_kept(store: Path, good: Path) -> None:
    for name in ("engine.log", "texts.jsonl", "summary.json"):
        (good / name).write_text("not for git")
    (good / "engine.jsonl").write_text('{"at_ns":-5,"running":1.0}\n')
    save(store, "main", good)

    assert entries(store) == ["main"]
    assert entries(store / "main") == ["baseline.json", "run-1"]
    assert entries(store / "main/run-1") == [
        "engine.jsonl", "manifest.json", "requests.jsonl", "steps.jsonl",
    ]  # fmt: skip


def test_a_run_without_a_step_log_can_be_a_baseline(store: Path, good: Path) -> None:
    (good / "steps.jsonl").unlink()
    (run,) = save(store, "plain", good).read()
    assert run.steps == ()


def test_repeats_are_kept_together_and_the_oldest_decides_the_age(
    build: Any, store: Path, good: Path, tmp_path: Path
) -> None:
    older = build.run(
        [build.record(0)], run_id="run-0", created_utc="2029-11-01T00:00:00+00:00",
        workload=build.workload(seed=2, digest="e" * 64),
    )  # fmt: skip
    baseline = save(store, "main", good, build.folder(tmp_path / "older", older))

    assert baseline.label.runs == ("run-1", "run-0")
    assert baseline.label.measured_utc == "2029-11-01T00:00:00+00:00"


def test_runs_that_are_no_repeats_of_one_setting_are_refused(
    build: Any, store: Path, good: Path, tmp_path: Path
) -> None:
    engine = replace(build.manifest().engine, slots=4)
    other = build.folder(tmp_path / "other", build.run([build.record(0)], engine=engine))
    with pytest.raises(NotComparable, match="differ in slots: 8 / 4"):
        save(store, "main", good, other)
    machine = replace(build.manifest().machine, cores=4)
    far = build.folder(tmp_path / "far", build.run([build.record(0)], machine=machine))
    with pytest.raises(NotComparable, match="cores: 2"):
        save(store, "main", good, far)
    assert not store.exists()


def test_no_run_and_one_run_twice_are_refused(store: Path, good: Path) -> None:
    with pytest.raises(UsageError, match="needs one run at least"):
        save(store, "main")
    with pytest.raises(UsageError, match="is given twice"):
        save(store, "main", good, good.parent / "." / good.name)


def test_a_name_is_not_taken_twice_unless_it_is_replaced(
    build: Any, store: Path, good: Path, tmp_path: Path
) -> None:
    save(store, "main", good)
    other = build.folder(tmp_path / "other", build.run([build.record(0)], run_id="run-2"))
    with pytest.raises(UsageError, match="'main' exists already"):
        save(store, "main", other)
    assert load_baseline(store, "main").label.runs == ("run-1",)
    save(store, "main", other, replaces=True)
    assert load_baseline(store, "main").label.runs == ("run-2",)
    assert entries(store) == ["main"]


def test_a_failed_replacement_leaves_the_old_baseline(
    build: Any, store: Path, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, "main", good)
    other = build.folder(tmp_path / "other", build.run([build.record(0)], run_id="run-2"))
    no_space(monkeypatch, "new")
    with pytest.raises(UsageError, match="No space left on device"):
        save(store, "main", other, replaces=True)
    assert load_baseline(store, "main").label.runs == ("run-1",)
    assert entries(store) == ["main"]


def test_of_two_who_save_at_once_one_is_told_that_the_name_is_taken(
    build: Any, store: Path, tmp_path: Path
) -> None:
    runs = [
        build.folder(tmp_path / f"r{i}", build.run([build.record(0)], run_id=f"r{i}"))
        for i in range(8)
    ]
    start, told = threading.Barrier(len(runs)), list[str]()

    def one(run: Path) -> None:
        start.wait()
        try:
            told.append(save(store, "main", run).label.runs[0])
        except UsageError as error:
            assert "exists already" in str(error)  # noqa: PT017 - in a thread

    threads = [threading.Thread(target=one, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert told == list(load_baseline(store, "main").label.runs)
    assert entries(store) == ["main"]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a b", "é", "-x", "a\n"])
def test_a_name_that_is_no_plain_name_is_refused(store: Path, good: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is not allowed; use letters, digits"):
        save(store, name, good)
    assert not store.exists()
    save(store, "main", good)
    with pytest.raises(UsageError, match="is not allowed; use letters, digits"):
        rename_baseline(store, "main", name)


@pytest.mark.parametrize("name", ["main", "v0.1.0", "inhouse-static", "_1"])
def test_plain_names_are_allowed(store: Path, good: Path, name: str) -> None:
    assert save(store, name, good).path == store / name


@pytest.mark.parametrize("status", [RunStatus.INTERRUPTED, RunStatus.FAILED, RunStatus.RUNNING])
def test_a_run_that_did_not_end_well_cannot_be_a_baseline(
    build: Any, store: Path, good: Path, tmp_path: Path, status: RunStatus
) -> None:
    folder = build.folder(tmp_path / "cut", build.run([build.record(0)], status=status))
    with pytest.raises(UsageError, match=f"cut is {status.value}, so it cannot be a baseline"):
        save(store, "main", good, folder)
    assert not store.exists()


def test_an_invalid_run_cannot_be_a_baseline(build: Any, store: Path, tmp_path: Path) -> None:
    folder = build.folder(tmp_path / "bad", build.run([build.record(0), build.failed(1)]))
    with pytest.raises(UsageError, match=r"is INVALID.*V15 requests failed: 1 of 2"):
        save(store, "main", folder)


def test_a_run_that_does_not_say_when_it_was_made_has_no_age(
    build: Any, store: Path, tmp_path: Path
) -> None:
    folder = build.folder(tmp_path / "r", build.run([build.record(0)], created_utc="monday"))
    with pytest.raises(RunFolderError, match="does not say when it was made"):
        save(store, "main", folder)


def test_a_folder_that_is_no_run_cannot_be_a_baseline(store: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is not a run folder"):
        save(store, "main", tmp_path)


def test_a_store_that_cannot_be_written_is_said(
    good: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", Path("/proc/baselines")):
        with pytest.raises(UsageError, match="choose another store"):
            save(place, "main", good)
    save(store, "main", good)
    no_space(monkeypatch, "main", 30)
    with pytest.raises(UsageError, match="cannot write baseline 'other'"):
        rename_baseline(store, "main", "other")


def test_a_renamed_baseline_keeps_its_digest(store: Path, good: Path) -> None:
    saved = save(store, "main", good)
    renamed = rename_baseline(store, "main", "v1")

    assert load_baseline(store, "v1") == renamed
    assert renamed.label == saved.label
    assert names_in(store) == ("v1",)


def test_a_name_in_use_is_not_renamed_to(store: Path, good: Path) -> None:
    save(store, "main", good)
    save(store, "v1", good)
    for name in ("v1", "main"):
        with pytest.raises(UsageError, match=f"{name!r} exists already"):
            rename_baseline(store, "main", name)
    with pytest.raises(UsageError, match="there is no baseline 'nobody'"):
        rename_baseline(store, "nobody", "v2")
    assert names_in(store) == ("main", "v1")


def test_a_retired_baseline_is_kept_but_used_only_when_that_is_said(
    store: Path, good: Path
) -> None:
    save(store, "main", good)
    retired = retire_baseline(store, "main", act(NOON, "Bob", "too noisy"))

    with pytest.raises(UsageError, match=r"retired on 2030-01-01 by Bob: too noisy.*--allow ret"):
        load_baseline(store, "main")
    assert load_baseline(store, "main", ("retired",)) == retired
    assert rename_baseline(store, "main", "old").label == retired.label
    with pytest.raises(UsageError, match="is retired already, since 2030-01-01 by Bob"):
        retire_baseline(store, "old", ACT)


def test_a_retirement_that_cannot_be_written_changes_nothing(
    store: Path, good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = save(store, "main", good)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(30, "read-only")))
    with pytest.raises(UsageError, match="read-only"):
        retire_baseline(store, "main", ACT)
    monkeypatch.undo()
    assert load_baseline(store, "main") == saved


def test_what_is_written_down_of_who_and_why_is_one_line() -> None:
    done = act(NOON, "Ada\x1b[31m\n", "first\nsecond")
    assert (done.by, done.why) == ("Ada [31m", "first second")
    assert act(NOON, " ", "").by == "unknown"
    assert json.loads(json.dumps(done.at_utc)) == "2030-01-01T12:00:00+00:00"
