"""`batchmark calibrate`: what it prints and keeps, and that `batchmark run` reads it."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cli import tool_version
from harness.loadgen.ceiling import KeptCeiling, Place, keep_ceiling
from harness.loadgen.levels import Ceiling
from harness.loadgen.machine import machine_facts

COMMAND = [sys.executable, "-m", "harness.cli", "calibrate"]


def test_one_level_is_tried_printed_and_kept_or_said_not_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCHMARK_CACHE", str(tmp_path / "cache"))
    result = subprocess.run(
        [*COMMAND, "--streams", "2", "--limit-s", "1"], capture_output=True, text=True, check=False
    )

    assert result.stdout.startswith("2 streams: ")
    assert "TTFT error p50" in result.stdout
    assert "Traceback" not in result.stderr
    # A busy machine may spoil the one level that there was time for; that must be said.
    assert result.returncode in (0, 3), result.stderr
    if result.returncode == 3:
        assert "no level was clean" in result.stderr
        assert not (tmp_path / "cache/ceiling.json").exists()
        return
    (kept,) = json.loads((tmp_path / "cache/ceiling.json").read_text())["ceilings"]
    assert kept["ceiling"]["streams"] == 2
    assert kept["place"]["workers"] == 1
    assert kept["place"]["tool_version"] == tool_version()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workers", "0"), "--workers is 0; it must be a number above 0"),
        (("--streams", "1", "--workers", "2"), "--streams is 1; each of 2 worker(s) needs one"),
        (("--limit-s", "nan"), "--limit-s is nan"),
    ],
)
def test_numbers_out_of_range_are_refused(words: tuple[str, ...], said: str) -> None:
    result = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)

    assert result.returncode == 2
    assert said in result.stderr


def test_an_interrupted_calibration_keeps_nothing_and_leaves_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes_in: Callable[..., list[int]]
) -> None:
    monkeypatch.setenv("BATCHMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = subprocess.Popen(
        [*COMMAND, "--streams", "2"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().startswith("2 streams: ")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()

    assert process.returncode == 130
    assert "interrupted; nothing was kept" in stderr
    assert "Traceback" not in stderr
    assert not (tmp_path / "cache/ceiling.json").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == []
    assert processes_in(tmp_path) == []


def test_a_run_says_what_share_of_the_ceiling_it_used(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCHMARK_CACHE", str(program.folder / "cache"))
    unknown = program.run_tiny(out="unknown")
    place = Place(machine_facts(), tool_version(), 1)
    ceiling = Ceiling(1e6, 1e4, 1000, 64, "client late")
    keep_ceiling(program.folder / "cache", KeptCeiling(place, ceiling, "2030-01-01T00:00:00+00:00"))
    known = program.run_tiny(out="known")

    assert "measure it with `batchmark calibrate`" in unknown.stdout
    assert "% of the client's 1,000,000" in known.stdout
    path = program.folder / "known/inhouse-continuous/manifest.json"
    assert json.loads(path.read_text())["client"]["ceiling_events_s"] == 1e6
