from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.reading import read_run
from harness.core.errors import RunFolderError, UsageError
from harness.core.manifest import RunStatus
from harness.gate import baseline as module
from harness.gate.baseline import age_cautions, list_baselines, load_baseline, save_baseline

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def good(build: Any, tmp_path: Path) -> Path:
    return build.folder(tmp_path / "run", build.run([build.record(0)], [build.step()]))


def test_a_saved_baseline_is_the_run_it_was_made_of(store: Path, good: Path) -> None:
    saved = save_baseline(store, "main", good, NOON)
    loaded = load_baseline(store, "main")
    assert loaded == saved
    assert (loaded.name, loaded.label.run_id) == ("main", "run-1")
    assert loaded.label.created_utc == "2030-01-01T12:00:00+00:00"
    run = loaded.read()
    source = read_run(good)
    assert (run.manifest, tuple(run.requests), run.steps) == (
        source.manifest,
        tuple(source.requests),
        source.steps,
    )


def test_nothing_but_the_baseline_is_left_in_the_store(store: Path, good: Path) -> None:
    (good / "engine.log").write_text("secret")
    save_baseline(store, "main", good, NOON)
    assert [path.name for path in store.iterdir()] == ["main"]
    assert sorted(path.name for path in (store / "main").iterdir()) == [
        "baseline.json",
        "manifest.json",
        "requests.jsonl",
        "steps.jsonl",
    ]


def test_what_the_engine_said_of_itself_is_kept_with_the_baseline(store: Path, good: Path) -> None:
    (good / "engine.jsonl").write_text('{"at_ns":-5,"running":1.0}\n')
    save_baseline(store, "main", good, NOON)
    assert load_baseline(store, "main").read().samples == read_run(good).samples != ()


def test_a_run_without_a_step_log_can_be_a_baseline(
    build: Any, store: Path, tmp_path: Path
) -> None:
    folder = build.folder(tmp_path / "plain", build.run([build.record(0)]))
    (folder / "steps.jsonl").unlink()
    assert save_baseline(store, "plain", folder, NOON).read().steps == ()


def test_a_name_is_not_taken_twice_unless_it_is_replaced(
    build: Any, store: Path, good: Path, tmp_path: Path
) -> None:
    save_baseline(store, "main", good, NOON)
    other = build.folder(tmp_path / "other", build.run([build.record(0)], run_id="run-2"))
    with pytest.raises(UsageError, match="'main' exists already"):
        save_baseline(store, "main", other, NOON)
    assert load_baseline(store, "main").label.run_id == "run-1"
    save_baseline(store, "main", other, NOON, replace=True)
    assert load_baseline(store, "main").label.run_id == "run-2"
    assert [path.name for path in store.iterdir()] == ["main"]


def test_a_failed_replacement_leaves_the_old_baseline(
    build: Any, store: Path, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_baseline(store, "main", good, NOON)
    other = build.folder(tmp_path / "other", build.run([build.record(0)], run_id="run-2"))
    rename = Path.rename

    def full_disk(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full_disk)
    with pytest.raises(UsageError, match="No space left on device"):
        save_baseline(store, "main", other, NOON, replace=True)
    assert load_baseline(store, "main").label.run_id == "run-1"
    assert [path.name for path in store.iterdir()] == ["main"]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a b", "é", "-x", "a\n"])
def test_a_name_that_is_no_plain_name_is_refused(store: Path, good: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is not allowed; use letters, digits"):
        save_baseline(store, name, good, NOON)
    with pytest.raises(UsageError, match="there is no baseline"):
        load_baseline(store, name)
    assert not store.exists()


@pytest.mark.parametrize("name", ["main", "v0.1.0", "inhouse-static", "_1"])
def test_plain_names_are_allowed(store: Path, good: Path, name: str) -> None:
    assert save_baseline(store, name, good, NOON).path == store / name


@pytest.mark.parametrize("status", [RunStatus.INTERRUPTED, RunStatus.FAILED, RunStatus.RUNNING])
def test_a_run_that_did_not_end_well_cannot_be_a_baseline(
    build: Any, store: Path, tmp_path: Path, status: RunStatus
) -> None:
    folder = build.folder(tmp_path / "cut", build.run([build.record(0)], status=status))
    with pytest.raises(UsageError, match=f"is {status.value}, so it cannot be a baseline"):
        save_baseline(store, "main", folder, NOON)
    assert not store.exists()


def test_an_invalid_run_cannot_be_a_baseline(build: Any, store: Path, tmp_path: Path) -> None:
    folder = build.folder(tmp_path / "bad", build.run([build.record(0), build.failed(1)]))
    with pytest.raises(UsageError, match=r"is INVALID.*V15 requests failed: 1 of 2"):
        save_baseline(store, "main", folder, NOON)


def test_a_folder_that_is_no_run_cannot_be_a_baseline(store: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is not a run folder"):
        save_baseline(store, "main", tmp_path, NOON)


def test_a_store_that_cannot_be_written_is_said(good: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="choose another store"):
        save_baseline(tmp_path / "file", "main", good, NOON)


def test_an_unknown_name_lists_those_there_are(store: Path, good: Path) -> None:
    with pytest.raises(UsageError, match=r"no baseline 'mian' in .*there are: none; save one with"):
        load_baseline(store, "mian")
    save_baseline(store, "main", good, NOON)
    save_baseline(store, "beta", good, NOON)
    with pytest.raises(UsageError, match="there are: beta, main"):
        load_baseline(store, "mian")


def test_baselines_are_listed_by_name(store: Path, good: Path) -> None:
    assert list_baselines(store) == ()
    for name in ("b", "a"):
        save_baseline(store, name, good, NOON)
    (store / ".partial-x").mkdir()
    (store / "no-baseline").mkdir()
    assert [baseline.name for baseline in list_baselines(store)] == ["a", "b"]


def test_a_damaged_label_is_said(store: Path, good: Path) -> None:
    save_baseline(store, "main", good, NOON)
    label = store / "main" / module.LABEL
    label.write_text(json.dumps({"name": "main", "colour": "red"}))
    with pytest.raises(RunFolderError, match=r"baseline.json: unknown key 'colour'"):
        load_baseline(store, "main")


@pytest.mark.parametrize(("days", "cautions"), [(0, []), (30, []), (31, ["BASELINE_IS_OLD"])])
def test_an_old_baseline_is_doubted(
    store: Path, good: Path, days: int, cautions: list[str]
) -> None:
    baseline = save_baseline(store, "main", good, NOON)
    found = age_cautions(baseline, NOON + timedelta(days=days))
    assert [caution.code for caution in found] == cautions
