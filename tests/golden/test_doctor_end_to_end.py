"""`batchmark doctor`: what it says, keeps and means, and that `batchmark run` reads it.

A busy machine is rightly called unfit, so 4 is an answer here too; it must be said why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.ceilings import MACHINE_CEILINGS, KeptCeilings, keep_ceilings, site_of
from harness.core.manifest import Ceilings
from harness.loadgen.machine import machine_facts

CPU = Ceilings("cpu", 1, 1e9, {"float32": 1e12}, "2030-01-01T00:00:00+00:00")


@pytest.fixture
def cache(program: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BATCHMARK_CACHE", str(program.folder / "cache"))
    return Path(program.folder / "cache")


def assert_judged(result: Any) -> None:
    """The last line says whether the machine is fit, as the exit code does."""
    last = result.stdout.splitlines()[-1]
    assert "Traceback" not in result.stderr
    assert (result.returncode, last.partition(":")[0]) in (
        (0, "fit to measure on; doubts"),
        (4, "RUNNER_UNFIT"),
    )


def test_a_quick_look_measures_and_keeps_nothing(program: Any, cache: Path) -> None:
    result = program("doctor", "--quick")

    assert_judged(result)
    for what in ("cores", "free memory", "C compiler", "open files", "engines here", "models"):
        assert f"\n{what} " in result.stdout
    assert "batchmark model fetch" in result.stdout
    assert "not measured" in result.stdout
    assert not (cache / MACHINE_CEILINGS).exists()


def test_ceilings_are_measured_and_kept_where_the_machine_is_fit(program: Any, cache: Path) -> None:
    cache.mkdir()
    (cache / MACHINE_CEILINGS).write_text("{")
    result = program("doctor", "--json", "--threads", "1")

    said = json.loads(result.stdout)
    assert result.returncode == (0 if said["fit"] else 4), result.stderr
    (found,) = [c for c in said["ceilings"] if c["device"] == "cpu"]
    assert found["threads"] == 1
    assert found["read_bytes_per_s"] > 1e8
    assert found["flops_per_s"].keys() == {"float32", "bfloat16"}
    assert "cannot be read" in said["notes"][0]
    if said["fit"]:
        assert said["notes"][1].startswith("written anew in ")
        (kept,) = json.loads((cache / MACHINE_CEILINGS).read_text())["sites"]
        assert kept["ceilings"] == said["ceilings"]
    else:
        assert said["notes"][1].startswith("not kept")
        assert (cache / MACHINE_CEILINGS).read_text() == "{"


@pytest.mark.parametrize(
    ("threads", "said"), [("0", "--threads is 0"), ("4096", "--threads is 4096")]
)
def test_threads_that_cannot_be_had_are_refused(program: Any, threads: str, said: str) -> None:
    result = program("doctor", "--quick", "--threads", threads)

    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {said}")


def test_a_run_keeps_the_ceilings_of_its_threads(program: Any, cache: Path) -> None:
    machine = machine_facts()
    keep_ceilings(cache, KeptCeilings(site_of(machine, 1), (CPU,)))
    assert_judged(program("doctor", "--quick", "--threads", "1"))
    assert program.measured(program.run_tiny(out="job"))

    manifest = json.loads((program.folder / "job/inhouse-continuous/manifest.json").read_text())
    assert manifest["ceilings"]["flops_per_s"] == {"float32": 1e12}
    assert "Engine steps" in program("show", "job/inhouse-continuous").stdout
