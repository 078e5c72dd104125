"""What is said of a run that is to be made again, before anything is started."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.core.errors import NotComparable
from harness.core.manifest import RunManifest
from harness.core.source import Source
from harness.gate.reproduction import Present, changes, changes_table, require_same_bytes


@pytest.fixture
def manifest(build: Any) -> RunManifest:
    made: RunManifest = build.manifest()
    return made


def present_of(manifest: RunManifest) -> Present:
    return Present(
        tool_version=manifest.tool_version,
        machine=manifest.machine,
        workload=manifest.workload,
        model_digest=manifest.facts.model_digest,
    )


def test_nothing_differs_from_a_run_on_the_same_machine(manifest: RunManifest) -> None:
    assert changes(manifest, present_of(manifest)) == ()
    assert changes_table(()).rows == ()
    require_same_bytes(manifest, present_of(manifest))


def test_each_thing_that_is_another_is_named_with_both_values(manifest: RunManifest) -> None:
    now = Present(
        tool_version="9.9.9",
        machine=replace(manifest.machine, cores=64, gpus=("H200",)),
        workload=replace(manifest.workload, digest="e" * 64),
        model_digest="b" * 64,
    )

    found = {change.what: (change.then, change.now) for change in changes(manifest, now)}

    assert set(found) == {"workload digest", "batchmark", "model digest", "cores", "GPUs"}
    assert found["cores"] == ("2", "64")
    assert found["GPUs"] == ("none", "H200")
    assert found["model digest"] == ("a" * 16 + "…", "b" * 16 + "…")


def test_a_model_that_is_not_here_is_no_difference(manifest: RunManifest) -> None:
    assert changes(manifest, replace(present_of(manifest), model_digest=None)) == ()


def test_how_steady_the_machine_was_is_no_difference(manifest: RunManifest) -> None:
    machine = replace(manifest.machine, burn_in_s=(0.1, 0.2))

    assert changes(manifest, replace(present_of(manifest), machine=machine)) == ()


@pytest.mark.parametrize(
    ("sha256", "said"), [("2" * 64, "a.csv is another"), ("1" * 64, "is the same")]
)
def test_other_bytes_are_refused_and_the_file_is_named(
    manifest: RunManifest, sha256: str, said: str
) -> None:
    source = Source("a.csv", "1" * 64, "azure", is_guessed=True, time="s")
    then = replace(manifest, workload=replace(manifest.workload, source=source))
    workload = replace(then.workload, digest="e" * 64, source=replace(source, sha256=sha256))

    with pytest.raises(NotComparable, match=said):
        require_same_bytes(then, replace(present_of(then), workload=workload))
