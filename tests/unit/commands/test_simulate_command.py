"""`batchmark simulate` of every kind of arrivals, and of traces and locked schedules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from harness.cli import app

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:17:0{k}.0000000,{20 + k},{4 + k}\n" for k in range(6)
)
TALKS = [
    {"session_id": "a", "turns": [{"text": "How are you?", "output_length": 4},
                                  {"text": "And now?", "output_length": 6, "delay": 20}]},
    {"session_id": "b", "turns": [{"text": "Where is the river?", "output_length": 5}]},
]  # fmt: skip
FAST = ("--policy", "continuous", "--step-ms", "1", "--json")


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command, in a folder with two traces."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "azure.csv").write_text(AZURE)
    (tmp_path / "talks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in TALKS))
    return lambda *words: CliRunner().invoke(app, ["simulate", *words])


def figures(result: Result) -> Any:
    """Those of the policy; standard output is JSON and nothing else."""
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["policies"]["continuous"]


@pytest.mark.parametrize(
    ("words", "requests"),
    [
        ((), 8),
        (("--rate", "20"), 8),
        (("--rate", "20", "--arrivals", "constant"), 8),
        (("--rate", "20", "--cv", "3", "--repeat-mix", "2"), 16),
        (("--mmpp", "40:1,0:1"), 8),
        (("--concurrency", "8", "--repeat-mix", "2"), 16),
    ],
)
def test_every_kind_of_arrivals_that_run_takes_is_simulated(
    simulate: Callable[..., Result], words: tuple[str, ...], requests: int
) -> None:
    assert figures(simulate("eight-agents", *words, *FAST))["requests_completed"] == requests


def test_stages_decide_how_many_requests_there_are(simulate: Callable[..., Result]) -> None:
    few, many = (
        figures(simulate("eight-agents", "--stages", stages, *FAST))["requests_completed"]
        for stages in ("5:2,10:1", "5:8,10:4")
    )
    assert 5 <= few < many


def test_arrivals_are_drawn_with_the_seed(simulate: Callable[..., Result]) -> None:
    one, same, other = (
        figures(simulate("eight-agents", "--mmpp", "40:1,0:1", "--seed", seed, *FAST))
        for seed in ("1", "1", "2")
    )
    assert one == same
    assert one != other


def test_a_trace_is_simulated_at_its_own_times_or_at_those_of_a_load(
    simulate: Callable[..., Result],
) -> None:
    own = simulate("azure.csv", *FAST)
    fast = figures(simulate("azure.csv", "--time-scale", "0.1", *FAST))
    named = figures(simulate("azure.csv", "--rate", "100", "--requests", "4", *FAST))

    assert figures(own)["requests_completed"] == 6
    assert figures(own)["elapsed_ms"] == pytest.approx(5000, abs=20)
    assert fast["elapsed_ms"] == pytest.approx(500, abs=20)
    assert named["requests_completed"] == 4
    assert "azure.csv: format azure (detected)" in own.stderr


def test_a_trace_of_texts_is_simulated_by_the_tokenizer_that_is_named(
    simulate: Callable[..., Result], tiny_model: Path
) -> None:
    words = ("talks.jsonl", "--chat-form", "plain", "--slots", "2", *FAST)
    missing = simulate(*words)
    found = figures(simulate(*words, "--tokenizer", str(tiny_model)))

    assert missing.exit_code == 2
    assert "--tokenizer" in missing.stderr
    assert found["requests_completed"] == 3
    assert found["elapsed_ms"] > 30, "the second turn waits for the first, and 20 ms more"


def test_a_locked_schedule_is_simulated_and_names_itself(simulate: Callable[..., Result]) -> None:
    locked = CliRunner().invoke(app, ["workload", "lock", "azure.csv", "--out", "azure.lock"])
    assert locked.exit_code == 0, locked.stderr
    plain = simulate("--schedule", "azure.lock", "--speed", "2", "--step-ms", "1")

    assert plain.exit_code == 0, plain.stderr
    assert "azure own times at 2x speed" in plain.stdout


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ((), ("no workload is named",)),
        (("eight-agents", "--format", "azure"), ("--format", "leave out")),
        (("azure.csv", "--repeat-mix", "2"), ("--repeat-mix is 2", "sent once")),
        (("eight-agents", "--rate", "1", "--mmpp", "4:1,0:1"), ("give only one of", "--mmpp")),
        (("eight-agents", "--arrivals", "gamma"), ("--arrivals", "add --rate")),
        (("eight-agents", "--backlog", "--mmpp", "4:1,0:1"), ("--backlog repeats the mix",)),
        (("agentic", "--backlog"), ("agentic has sessions", "leave it out")),
        (("--schedule", "nowhere.lock"), ("nowhere.lock",)),
    ],
)
def test_what_cannot_be_simulated_is_told_in_one_line(
    simulate: Callable[..., Result], words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    result = simulate(*words)

    assert result.exit_code == 2, (result.stdout, result.stderr)
    assert len(result.stderr.splitlines()) == 1
    for part in parts:
        assert part in result.stderr
