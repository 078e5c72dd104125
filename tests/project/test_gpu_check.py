"""scripts/gpu-check, tried on a CPU with a small model: all its parts, and what a miss does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed (extra: inhouse)")

SCRIPT = Path(__file__).parents[2] / "scripts/gpu-check"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_every_part_is_checked_and_a_missed_floor_alone_fails() -> None:
    done = run("--device", "cpu", "--layers", "1", "--hidden", "64", "--least-mfu", "9")

    lines = done.stdout.splitlines()
    assert done.stderr == ""
    assert {line.split()[0] for line in lines if "reading" in line} == {"MISSED"}
    assert [line for line in lines if line.startswith("MISSED") and "reading" not in line] == []
    for part in ("float32: 100 of 100", "bfloat16", "gathered", "captured", "of memory", "minutes"):
        assert any(line.startswith("ok") and part in line for line in lines), part
    for policy in ("static", "dynamic", "continuous"):
        assert any(f"{policy}: 765 of 765 tokens" in line for line in lines)
    assert lines[-1] == "checks missed: 1"
    assert done.returncode == 1


def test_a_device_that_is_not_there_is_named() -> None:
    done = run("--device", "tpu")

    assert done.returncode == 2
    assert done.stdout.startswith("error: torch finds no tpu here; it has cpu")


def test_help_names_what_the_script_needs() -> None:
    said = run("--help").stdout

    for word in ("engines, harness and workloads", "triton", "gguf", "no network", "8 minutes"):
        assert word in said
