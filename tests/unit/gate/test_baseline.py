from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.reading import read_run
from harness.core.errors import RunFolderError, UsageError
from harness.core.jsonable import to_json
from harness.gate.baseline import (
    LABEL,
    Baseline,
    age_cautions,
    baselines_in,
    load_baseline,
    sealed,
)
from harness.gate.baseline_store import act, retire_baseline, save_baseline
from harness.gate.baseline_table import baseline_facts, baseline_table

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def saved(build: Any, tmp_path: Path, store: Path) -> Baseline:
    """A baseline of two repeats."""
    runs = [
        build.folder(tmp_path / name, build.run([build.record(0)], [build.step()], run_id=name))
        for name in ("a", "b")
    ]
    return save_baseline(store, "main", runs, act(NOON, "Ada", "the release"), "0.1.0")


def edit_label(baseline: Baseline, **changes: Any) -> None:
    file = baseline.path / LABEL
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_a_loaded_baseline_is_the_runs_it_was_made_of(
    saved: Baseline, store: Path, tmp_path: Path
) -> None:
    loaded = load_baseline(store, "main")

    assert loaded == saved
    sources = [read_run(tmp_path / name) for name in ("a", "b")]
    for run, source in zip(loaded.read(), sources, strict=True):
        assert run.manifest == source.manifest
        assert tuple(run.requests) == tuple(source.requests)
        assert run.steps == source.steps
    assert [summary.manifest.run_id for summary in loaded.summaries()] == ["a", "b"]


def test_its_label_says_who_when_why_and_with_what(saved: Baseline) -> None:
    label = saved.label

    assert str(label.saved) == "2030-01-01 by Ada: the release"
    assert (label.runs, label.tool_version, label.format_version) == (("a", "b"), "0.1.0", 2)
    assert label.measured_utc == "2030-01-01T00:00:00+00:00"
    assert sorted(label.files) == [
        f"run-{i}/{name}.{kind}"
        for i in (1, 2)
        for name, kind in (("manifest", "json"), ("requests", "jsonl"), ("steps", "jsonl"))
    ]
    assert len(label.digest) == 64


def test_the_digest_is_of_the_files_and_of_what_is_said_about_them(
    build: Any, tmp_path: Path, store: Path, saved: Baseline
) -> None:
    again = save_baseline(
        store, "copy", [tmp_path / "a", tmp_path / "b"], act(NOON, "Ada", "the release"), "0.1.0"
    )
    other = save_baseline(store, "one", [tmp_path / "a"], again.label.saved, "0.1.0")

    assert again.label.digest == saved.label.digest
    assert other.label.digest != saved.label.digest


@pytest.mark.parametrize("file", ["manifest.json", "requests.jsonl", "steps.jsonl"])
def test_a_file_that_was_edited_is_refused_by_name(saved: Baseline, store: Path, file: str) -> None:
    edited = saved.path / "run-2" / file
    edited.write_bytes(edited.read_bytes() + b"\n")

    with pytest.raises(RunFolderError, match=rf"is not as it was saved: run-2/{file} was edited;"):
        load_baseline(store, "main")


def test_files_that_are_missing_or_were_added_are_refused_by_name(
    saved: Baseline, store: Path
) -> None:
    (saved.path / "run-1/requests.jsonl").unlink()
    (saved.path / "run-1/engine.jsonl").write_text("")

    with pytest.raises(RunFolderError) as caught:
        load_baseline(store, "main")
    assert "run-1/engine.jsonl was added, run-1/requests.jsonl is missing;" in str(caught.value)


def test_hidden_files_are_nobodys_business(saved: Baseline, store: Path) -> None:
    (saved.path / ".directory").write_text("")
    assert load_baseline(store, "main") == saved


@pytest.mark.parametrize(
    "changes",
    [
        {"measured_utc": "2031-01-01T00:00:00+00:00"},
        {"digest": "0" * 64},
        {"saved": {"at_utc": "2030-01-01T12:00:00+00:00", "by": "Bob", "why": "the release"}},
        {"retired": {"at_utc": "2030-01-02T12:00:00+00:00", "by": "Bob", "why": ""}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_an_edited_label_is_refused_too(
    saved: Baseline, store: Path, changes: dict[str, Any]
) -> None:
    edit_label(saved, **changes)

    with pytest.raises(RunFolderError, match=r"baseline.json was edited"):
        load_baseline(store, "main")


def test_retiring_is_not_undone_with_an_editor(saved: Baseline, store: Path) -> None:
    retire_baseline(store, "main", act(NOON, "Ada", "too noisy"))
    edit_label(saved, retired=None)

    with pytest.raises(RunFolderError, match=r"baseline.json was edited"):
        load_baseline(store, "main")


def test_an_unknown_name_lists_those_there_are(store: Path, saved: Baseline) -> None:
    with pytest.raises(UsageError, match="no baseline 'mian' in .*there are: main; save one with"):
        load_baseline(store, "mian")
    with pytest.raises(UsageError, match="there are: none"):
        load_baseline(store / "nowhere", "main")


@pytest.mark.parametrize("name", ["", ".", "..", "../store/main", "a/b", ".hidden", "main\n"])
def test_no_name_leads_out_of_the_store(store: Path, saved: Baseline, name: str) -> None:
    with pytest.raises(UsageError, match="there is no baseline"):
        load_baseline(store, name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot read"),
        ("[]", "has format None"),
        ('{"format_version": 3}', "reads 2; use the version that wrote it"),
        ('{"format_version": 2}', "cannot read"),
        ('{"format_version": 2, "measured_utc": 5}', "cannot read"),
        ('{"format_version": 2, "measured_utc": "yesterday"}', "cannot read"),
    ],
)
def test_a_label_that_cannot_be_read_is_said_with_the_way_out(
    saved: Baseline, store: Path, text: str, said: str
) -> None:
    (saved.path / LABEL).write_text(text)
    with pytest.raises(RunFolderError, match=said):
        load_baseline(store, "main")


def test_a_label_with_an_unknown_key_is_refused(saved: Baseline, store: Path) -> None:
    edit_label(saved, colour="red")
    with pytest.raises(RunFolderError, match="unknown key 'colour'"):
        load_baseline(store, "main")


def test_a_baseline_of_the_first_format_is_saved_again_from_itself(
    build: Any, tmp_path: Path, store: Path
) -> None:
    old = build.folder(store / "main", build.run([build.record(0)]))
    label = {"name": "main", "created_utc": "2030-01-01T12:00:00+00:00", "run_id": "run-1"}
    (old / LABEL).write_text(json.dumps({**label, "format_version": 1}))

    with pytest.raises(RunFolderError, match=f"baseline save main {old} --baselines {store}"):
        load_baseline(store, "main")
    save_baseline(store, "main", [old], act(NOON, "Ada", ""), "0.1.0", replaces=True)
    assert load_baseline(store, "main").label.runs == ("run-1",)


def test_runs_of_another_format_are_refused_with_the_way_out(saved: Baseline) -> None:
    file = saved.path / "run-1/manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema_version": 9}))
    with pytest.raises(RunFolderError, match="format version 9.*use the batchmark version that"):
        saved.read()


@pytest.mark.parametrize(("days", "cautions"), [(0, []), (30, []), (31, ["BASELINE_IS_OLD"])])
def test_a_baseline_that_was_measured_long_ago_is_doubted_whenever_it_was_saved(
    build: Any, tmp_path: Path, store: Path, days: int, cautions: list[str]
) -> None:
    run = build.folder(tmp_path / "run", build.run([build.record(0)]))
    late = NOON + timedelta(days=days)
    baseline = save_baseline(store, "main", [run], act(late, "Ada", ""), "0.1.0")

    assert [caution.code for caution in age_cautions(baseline, late)] == cautions


def test_all_baselines_are_listed_and_what_is_wrong_with_them(
    saved: Baseline, store: Path, tmp_path: Path
) -> None:
    assert baselines_in(tmp_path / "nowhere") == {}
    for name in ("old", "edited", "retired"):
        save_baseline(store, name, [tmp_path / "a"], act(NOON, "Ada", ""), "0.1.0")
    (store / "edited/run-1/steps.jsonl").write_text("")
    retire_baseline(store, "retired", act(NOON, "Bob", "too noisy"))
    (store / ".partial-x").mkdir()
    (store / "no-baseline").mkdir()
    found = baselines_in(store)
    table = baseline_table(found, NOON)
    states = {row[0].text: row[-1].text for row in table.rows}

    assert list(found) == ["edited", "main", "old", "retired"]
    assert "run-1/steps.jsonl was edited" in states["edited"]
    assert states["main"] == "usable"
    assert states["retired"] == "retired on 2030-01-01 by Bob: too noisy"
    late = baseline_table(found, NOON + timedelta(days=40))
    assert late.rows[1][-1].text == "old: measured 40 days ago"
    for part in ("SmolLM2-135M bf16", "2-core AMD EPYC", "eight-agents x4 backlog"):
        assert part in {cell.text for cell in table.rows[1]}


def test_the_facts_of_a_baseline_say_where_it_comes_from(saved: Baseline) -> None:
    facts = {row[0].text: row[1].text for row in baseline_facts(saved, NOON).rows}

    assert facts["Saved"] == "2030-01-01 by Ada: the release"
    assert facts["Measured"] == "2030-01-01T00:00:00+00:00, 0 days ago"
    assert facts["Runs"] == "a, b"
    assert facts["Digest"] == f"sha256 {saved.label.digest}"


def test_a_label_on_disk_is_what_it_was_in_memory(saved: Baseline) -> None:
    assert json.loads((saved.path / LABEL).read_text()) == to_json(saved.label)
    assert sealed(saved.label) == saved.label
