"""`batchmark ablate` on a tiny model: every level a run of its own, and what is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.core.jsonable import from_json
from harness.gate.ablation import Ablation

LEVELS = (
    "inhouse-static",
    "inhouse-dynamic",
    "inhouse-continuous",
    "inhouse-continuous-paged",
    "inhouse-continuous-paged-chunked",
)


def ablate(program: Any, *words: str, out: str = "job") -> subprocess.CompletedProcess[str]:
    """Ablate the tiny mix into `out`; a busy machine may make so short a run INVALID, as is said."""
    result: subprocess.CompletedProcess[str] = program(
        "ablate", "tiny.toml", "--model", str(program.model), "--dtype", "float32", "--slots", "4",
        "--threads", "1", "--out", out, *words,
    )  # fmt: skip
    is_invalid = result.returncode == 4 and "error: INVALID: " in result.stderr
    assert result.returncode == 0 or is_invalid, result.stderr
    return result


def manifest(folder: Path) -> Any:
    return json.loads((folder / "manifest.json").read_text())


@pytest.mark.slow
def test_every_level_is_an_ordinary_run_and_the_whole_is_json_and_a_page(program: Any) -> None:
    result = ablate(program, "--rounds", "1", "--seed", "5", "--repeat-mix", "2", "--batched-tokens", "24")  # fmt: skip
    job = program.folder / "job"

    found = from_json(Ablation, json.loads((job / "ablation.json").read_text()))
    files = {"ablation.json", "ablation.html", "preflight.json"}
    assert {path.name for path in job.iterdir()} == {*LEVELS, *files}
    assert tuple(level.name for level in found.levels) == LEVELS
    assert "5 levels from inhouse-static (tiny-llama fp32, " in result.stdout
    assert "tiny x2 backlog), 1 round" in result.stdout
    assert "the KV cache was never short" in result.stdout
    assert "chunked prefill was not at work" not in result.stdout, "prompts of 25 and 30 tokens"
    assert found.command[-4:] == ("--repeat-mix", "2", "--batched-tokens", "24")
    shown = program("show", "job/inhouse-continuous-paged")
    assert shown.returncode == 0, shown.stderr
    compared = program("compare", "job/inhouse-continuous", "--baseline", "job/inhouse-static")
    assert compared.returncode == 0, compared.stderr


@pytest.mark.slow
def test_a_round_sends_the_same_bytes_to_all_levels_and_the_next_goes_backwards(
    program: Any,
) -> None:
    levels = ("--levels", "static,chunked")
    result = ablate(program, "--rounds", "2", "--seed", "5", "--json", *levels)
    data = json.loads(result.stdout)
    job = program.folder / "job"

    assert data["seeds"] == [5, 6]
    names = [level["name"] for level in data["levels"]]
    digests = {(manifest(job / f"{n}-{i}")["workload"]["digest"], i) for n in names for i in (1, 2)}
    assert len(digests) == 2, "one for each round"
    starts = {p.parent.name: manifest(p.parent)["start_ns"] for p in job.glob("*/manifest.json")}
    in_turn = [f"{n}-1" for n in names] + [f"{n}-2" for n in reversed(names)]
    assert sorted(starts, key=lambda name: starts[name]) == in_turn
    codes = [doubt["code"] for doubt in data["cautions"]]
    assert "MORE_THAN_ONE_FACTOR" in codes, "paged was left out"
    assert "DIFFERENT_PROMPTS" not in codes
    assert "inhouse-static-1" in result.stderr, "progress goes where it disturbs no program"


@pytest.mark.slow
def test_a_level_that_cannot_start_is_shown_as_failed_and_the_next_is_tried(program: Any) -> None:
    result = program(
        "ablate", "tiny.toml", "--model", str(program.model), "--slots", "4", "--threads", "1",
        "--rounds", "1", "--kv-tokens", "8", "--levels", "paged,chunked", "--out", "job",
    )  # fmt: skip

    assert result.returncode == 4, result.stdout
    assert "inhouse-continuous-paged-chunked is FAILED" in result.stderr
    assert "Traceback" not in result.stderr
    data = json.loads((program.folder / "job/ablation.json").read_text())
    for level in data["levels"]:
        assert level["runs"][0]["outcome"] == "FAILED"
        assert "8 tokens" in level["runs"][0]["why"]
        assert {value["value"] for value in level["values"]} == {None}
        assert all(value["reason"] for value in level["values"])
    assert {value["to_first"]["ratio"] for value in data["levels"][1]["values"]} == {None}
    assert "no ratio" in (program.folder / "job/ablation.html").read_text()


@pytest.mark.slow
def test_an_interrupted_ablation_keeps_what_was_measured_and_leaves_no_server(
    program: Any, processes_in: Callable[..., list[int]]
) -> None:
    process = program.start(
        "ablate", "long.toml", "--model", str(program.model), "--dtype", "float32", "--slots", "2",
        "--threads", "1", "--rounds", "1", "--levels", "continuous,paged", "--out", "job",
    )  # fmt: skip
    records = program.folder / "job/inhouse-continuous/requests.jsonl"
    while not (records.exists() and records.read_bytes()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)  # another process is waited for; nothing is measured

    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()

    assert process.returncode == 130
    assert "interrupted; what was measured is in job" in stderr
    assert "Traceback" not in stderr
    data = json.loads((program.folder / "job/ablation.json").read_text())
    assert [level["runs"][0]["outcome"] for level in data["levels"]] == ["FAILED", "NOT RUN"]
    assert processes_in(program.folder) == []


WRONG = [
    (("--levels", "static,orca"), "'orca'"),
    (("--levels", "static"), "name two at least"),
    (("--levels", "continuous,static"), "in this order"),
    (("--rounds", "0"), "--rounds is 0"),
    (("--slots", "0"), "--slots is 0"),
    (("--batched-tokens", "0"), "--batched-tokens is 0"),
    (("--batched-tokens", "7"), "--batched-tokens is 7, but each of --slots 8"),
    (("--rate", "1", "--concurrency", "2"), "only one of"),
    (("--out", "."), "exists already"),
]


@pytest.mark.parametrize(("words", "part"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_word_is_one_line_with_its_value(program: Any, words: tuple[str, ...], part: str) -> None:  # fmt: skip
    result = program("ablate", "tiny.toml", "--model", str(program.model), *words)

    assert result.returncode == 2, result.stdout
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert part in result.stderr
    assert not (program.folder / "runs").exists()


def test_an_unknown_workload_is_named(program: Any) -> None:
    result = program("ablate", "nine-agents")

    assert result.returncode == 2
    assert "unknown workload 'nine-agents'" in result.stderr


@pytest.mark.parametrize(
    "words", [("--engine", "vllm"), ("--policy", "static"), ("--attach", "http://x"), ("--frob",)]
)
def test_flags_of_another_engine_are_none_of_an_ablation(program: Any, words: tuple[str, ...]) -> None:  # fmt: skip
    result = program("ablate", "tiny.toml", *words)

    assert result.returncode == 2
    assert "Usage:" in result.stderr
