"""`batchmark duel` on a tiny model: what is run in which order, what is kept, what is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.core.jsonable import from_json
from harness.gate.duel import Duel

SETTINGS = ("--dtype", "float32", "--slots", "4", "--threads", "1", "--warmup", "1")


def duel(program: Any, *words: str) -> subprocess.CompletedProcess[str]:
    """Duel on the tiny mix; a busy machine may make so short runs INVALID, as is said."""
    result: subprocess.CompletedProcess[str] = program(
        "duel", *words[:2], "tiny.toml", "--model", str(program.model), *SETTINGS,
        "--repeat-mix", "3", "--out", "job", *words[2:],
    )  # fmt: skip
    is_invalid = result.returncode == 4 and "error: INVALID: " in result.stderr
    assert result.returncode == 3 or is_invalid, result.stderr
    return result


def manifest(folder: Path) -> Any:
    return json.loads((folder / "manifest.json").read_text())


@pytest.mark.slow
def test_pairs_are_ordinary_runs_in_turn_on_the_same_bytes(program: Any) -> None:
    result = duel(program, "inhouse-static", "inhouse-continuous", "--pairs", "2", "--seed", "5")
    job = program.folder / "job"
    found = from_json(Duel, json.loads((job / "duel.json").read_text()))
    runs = sorted(job.glob("*/manifest.json"), key=lambda path: manifest(path.parent)["start_ns"])

    counted = [pair for pair in found.pairs if pair.counts]
    assert [pair.seed for pair in counted] == [5, 6][: len(counted)]
    if result.returncode == 3:
        assert len(counted) == 2
        assert "NO VERDICT: a verdict takes 5 pairs at least, and this duel has 2" in result.stdout
        assert "what differs on purpose: policy: static / continuous" in result.stdout
        assert "inhouse-continuous against inhouse-static (tiny-llama fp32, " in result.stdout
    if len(runs) == 4:
        letters = [path.parent.name.split("-")[2] for path in runs]
        assert letters == ["A", "B", "B", "A"]
    digests = {(m["workload"]["seed"], m["workload"]["digest"]) for m in map(manifest, (p.parent for p in runs))}  # fmt: skip
    assert len(digests) == len({seed for seed, _ in digests}), "one for each pair"
    assert {path.name for path in job.iterdir() if path.is_file()} == {
        "duel.json", "duel.html", "preflight.json"
    }  # fmt: skip
    assert program("show", str(runs[0].parent)).returncode == 0


@pytest.mark.slow
def test_an_engine_against_itself_has_no_factor_and_json_is_alone_on_standard_output(
    program: Any,
) -> None:
    result = duel(program, "inhouse", "inhouse", "--pairs", "1", "--json")
    data = json.loads(result.stdout)

    assert data["factors"] == []
    assert data["baseline"]["name"] == "inhouse-continuous (baseline)"
    assert data["baseline"]["engine"] == data["candidate"]["engine"]
    assert "MORE_THAN_ONE_FACTOR" not in {doubt["code"] for doubt in data["cautions"]}
    assert data["command"][-2] == "--seed", "it was drawn, so it is told"
    assert "report: job/duel.html" in result.stderr


@pytest.mark.slow
def test_a_run_that_is_invalid_is_made_again_with_its_pair(program: Any) -> None:
    """The first start of the baseline takes a queue of one, so requests fail; the next does not."""
    flag, server = program.folder / "started", program.folder / "server"
    first = f'if mkdir {flag} 2>/dev/null; then exec {sys.executable} "$@" --queue-limit 1; fi'
    server.write_text(f'#!/bin/sh\n{first}\nexec {sys.executable} "$@"\n')
    server.chmod(0o755)
    (program.folder / "engines.toml").write_text(
        f'[engines.moody]\nkind = "inhouse"\nprogram = "{server}"\n'
    )
    result = duel(program, "moody", "inhouse", "--pairs", "1")
    data = json.loads((program.folder / "job/duel.json").read_text())

    first_pair = data["pairs"][0]
    assert first_pair["counts"] is False
    assert first_pair["baseline"]["outcome"] == "INVALID"
    assert "V15 requests failed" in first_pair["baseline"]["why"]
    assert first_pair["candidate"]["outcome"] == "NOT RUN"
    again = data["pairs"][1]
    assert (again["number"], again["attempt"], again["seed"]) == (1, 2, first_pair["seed"])
    assert (program.folder / "job/pair-1-again-1-A-moody-continuous/manifest.json").exists()
    assert "do not count: pair 1" in (program.folder / "job/duel.html").read_text()
    assert "V15" not in str(again["baseline"]["why"]), result.stderr


def test_an_engine_that_cannot_start_ends_the_duel_in_a_line(program: Any) -> None:
    result = program(
        "duel", "inhouse-static", "inhouse", "tiny.toml", "--model", str(program.model), *SETTINGS,
        "--kv-tokens", "8", "--out", "job",
    )  # fmt: skip

    assert result.returncode == 4, result.stdout
    assert "pair-1-A-inhouse-static: " in result.stderr
    assert "Traceback" not in result.stderr
    data = json.loads((program.folder / "job/duel.json").read_text())
    (pair,) = data["pairs"]
    assert (pair["baseline"]["outcome"], pair["candidate"]["outcome"]) == ("FAILED", "NOT RUN")
    assert "8 tokens" in data["stopped"]
    assert data["metrics"] == []
    assert "NO VERDICT" in (program.folder / "job/duel.html").read_text()


@pytest.mark.slow
def test_an_interrupted_duel_keeps_what_was_measured_and_leaves_no_server(
    program: Any, processes_in: Callable[..., list[int]]
) -> None:
    process = program.start(
        "duel", "inhouse", "inhouse-dynamic", "long.toml", "--model", str(program.model),
        *SETTINGS, "--out", "job",
    )  # fmt: skip
    records = program.folder / "job/pair-1-A-inhouse-continuous/requests.jsonl"
    while not (records.exists() and records.read_bytes()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)  # another process is waited for; nothing is measured

    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()

    assert process.returncode == 130
    assert "interrupted; what was measured is in job" in stderr
    assert "Traceback" not in stderr
    data = json.loads((program.folder / "job/duel.json").read_text())
    (pair,) = data["pairs"]
    assert (pair["baseline"]["outcome"], pair["candidate"]["outcome"]) == ("FAILED", "NOT RUN")
    assert data["decision"] is None
    assert (program.folder / "job/duel.html").exists()
    assert processes_in(program.folder) == []


WRONG = [
    (("inhouse-orca", "inhouse"), "inhouse has no policy 'orca'"),
    (("inhouse", "orca"), "unknown engine 'orca'"),
    (("inhouse,vllm", "inhouse"), "is not one engine"),
    (("inhouse", "inhouse", "--pairs", "0"), "--pairs is '0'"),
    (("inhouse", "inhouse", "--pairs", "10,5"), "--pairs is '10,5'"),
    (("inhouse", "inhouse", "--slots", "0"), "--slots is 0"),
    (("inhouse", "inhouse", "--rate", "1", "--concurrency", "2"), "only one of"),
    (("inhouse", "inhouse", "--allow", "frob"), "'frob' is no key"),
    (("inhouse", "inhouse", "--rules", "none.toml"), "cannot read none.toml"),
    (("inhouse", "inhouse", "--out", "."), "exists already"),
]


@pytest.mark.parametrize(("words", "part"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_word_is_one_line_with_its_value(program: Any, words: tuple[str, ...], part: str) -> None:  # fmt: skip
    result = program("duel", *words[:2], "tiny.toml", "--model", str(program.model), *words[2:])

    assert result.returncode == 2, result.stdout
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert part in result.stderr
    assert not (program.folder / "runs").exists()


@pytest.mark.parametrize("words", [(), ("inhouse",), ("inhouse", "inhouse", "tiny.toml", "--frob")])
def test_words_that_are_missing_or_unknown_show_the_usage(program: Any, words: tuple[str, ...]) -> None:  # fmt: skip
    result = program("duel", *words)

    assert result.returncode == 2
    assert "Usage:" in result.stderr


def test_a_duel_needs_a_workload(program: Any) -> None:
    result = program("duel", "inhouse", "inhouse")

    assert result.returncode == 2
    assert "no workload is named" in result.stderr
