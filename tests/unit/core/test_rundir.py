"""Run folders: written whole, read to the last whole line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.engine import EngineSpec
from harness.core.errors import RunFolderError, UsageError
from harness.core.jsonable import to_json
from harness.core.manifest import (
    Counts,
    MachineFacts,
    RunManifest,
    RunStatus,
    WorkloadFacts,
)
from harness.core.record import Outcome, RequestRecord
from harness.core.rundir import (
    MANIFEST,
    REQUESTS,
    create_folder,
    open_lines,
    read_manifest,
    safe_name,
    write_json,
)
from harness.core.workload import Load, LoadKind

RECORD = RequestRecord(
    index=0, label="A", due_ns=0, sent_ns=5, first_byte_ns=7, events_ns=(8, 9),
    events_tokens=(1, None), closed_ns=10, prompt_tokens_asked=3, output_tokens_asked=2,
    prompt_tokens=3, output_tokens=2, output_tokens_source=None, finish_reason="length",
    outcome=Outcome.OK, error=None, http_status=200, bytes_received=99,
)  # fmt: skip

MANIFEST_VALUE = RunManifest(
    run_id="r", status=RunStatus.COMPLETE, created_utc="2026-01-01T00:00:00+00:00",
    tool_version="0", command=("run", "x"), clock="monotonic", start_ns=1,
    engine=EngineSpec("inhouse", "inhouse-static", "m", "static"),
    workload=WorkloadFacts(
        "w", "w x1 backlog", 0, 1, Load(LoadKind.BACKLOG), 2, 6, 4, "d", "s"
    ),
    machine=MachineFacts("cpu", 2, 24, (), "Linux", "3.11"), counts=Counts(2, 2, 2),
)  # fmt: skip


def write_run(folder: Path, records: int = 2) -> Path:
    write_json(folder / MANIFEST, MANIFEST_VALUE)
    with open_lines(folder / REQUESTS) as lines:
        for index in range(records):
            lines.append(replace(RECORD, index=index))
    return folder


def test_a_manifest_of_another_version_is_refused_with_both(tmp_path: Path) -> None:
    data = json.loads((write_run(tmp_path) / MANIFEST).read_text())
    (tmp_path / MANIFEST).write_text(json.dumps({**data, "schema_version": 99}))

    with pytest.raises(RunFolderError, match="format version 99, this batchmark reads 1"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 1}', "\x00"])
def test_a_manifest_that_is_not_one_is_an_error_and_no_crash(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)

    with pytest.raises(RunFolderError):
        read_manifest(tmp_path)


def test_a_manifest_with_half_a_character_is_refused(tmp_path: Path, build: Any) -> None:
    text = json.dumps(to_json(build.manifest(run_id="RUN")))
    (tmp_path / MANIFEST).write_text(text.replace("RUN", "\\ud800"))

    with pytest.raises(RunFolderError, match="surrogates not allowed"):
        read_manifest(tmp_path)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})

    with pytest.raises(ValueError, match="Out of range float"):
        write_json(path, {"a": float("nan")})

    assert json.loads(path.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_an_existing_folder_is_never_reused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists already; name another folder with --out"):
        create_folder(tmp_path)


@pytest.mark.parametrize("name", ["org/x:y*?<>|", "../../etc", "", "..", "a\0b", "x" * 500])
def test_any_name_becomes_one_harmless_path_component(tmp_path: Path, name: str) -> None:
    path = (tmp_path / safe_name(name)).resolve()

    assert path.parent == tmp_path.resolve()
