"""`batchmark workload`, and traces named to `run`: what is printed, and every wrong word."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from harness.cli import app

TALKS = [
    {"session_id": "a", "turns": [{"text": "How are you?", "output_length": 4},
                                  {"text": "And now?", "output_length": 6, "delay": 20}]},
    {"session_id": "b", "turns": [{"text": "Where is the river?", "output_length": 5}]},
]  # fmt: skip
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:17:0{k}.0000000,{20 + k},{4 + k}\n" for k in range(6)
)


def write_files(folder: Path) -> None:
    (folder / "talks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in TALKS))
    (folder / "azure.csv").write_text(AZURE)
    (folder / "empty.csv").write_text("")
    (folder / "week.jsonl").write_text(
        "".join(json.dumps({"timestamp": day * 86_400_000, "input_length": 20, "output_length": 2,
                            "hash_ids": [day]}) + "\n" for day in range(9))
    )  # fmt: skip
    (folder / "twofold.jsonl").write_text(
        '{"timestamp": 0, "input_length": 20, "output_length": 2}\n'
    )
    (folder / "chat.jsonl").write_text(
        json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}) + "\n"
    )


@pytest.fixture
def batchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The program, in a folder of traces and with an empty cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BATCHMARK_CACHE", str(tmp_path / "cache"))
    write_files(tmp_path)
    return lambda *words: CliRunner().invoke(app, list(words))


def test_a_trace_is_locked_and_the_lock_says_where_it_is_from(
    batchmark: Callable[..., Result],
) -> None:
    locked = batchmark("workload", "lock", "azure.csv", "--out", "azure.lock")
    shown = batchmark("workload", "show", "--schedule", "azure.lock")

    assert (locked.exit_code, shown.exit_code) == (0, 0), locked.stderr + shown.stderr
    assert "azure.csv: format azure" in shown.stdout
    digest = next(line for line in locked.stdout.splitlines() if line.startswith("digest"))
    assert digest in shown.stdout
    fast = batchmark("workload", "show", "--schedule", "azure.lock", "--speed", "2")
    assert "azure own times at 2x speed" in fast.stdout
    named = batchmark("workload", "preview", "azure.lock")
    assert "give it with --schedule azure.lock" in named.stderr


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (
            ("eight-agents", "--rate", "5", "--repeat-mix", "3"),
            ("CV of gaps", "Arrivals over time"),
        ),
        (("azure.csv",), ("format azure (detected)", "requests", "answer tokens offered")),
        (("talks.jsonl",), ("--tokenizer", "sessions")),
        (("azure.csv", "--time-scale", "0.5", "--requests", "3"), ("at 2x speed",)),
        (("eight-agents",), ("all requests are due at once",)),
    ],
)
def test_workloads_and_traces_can_be_looked_at(
    batchmark: Callable[..., Result], words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    result = batchmark("workload", "preview", *words)

    assert result.exit_code == 0, result.stderr
    for part in parts:
        assert part in result.stdout


WRONG = [
    (("preview", "nowhere.csv"), ("unknown workload 'nowhere.csv'",)),
    (("preview", "empty.csv"), ("empty.csv is empty",)),
    (("preview", "azure.csv", "--format", "parquet"), ("'parquet'", "burstgpt")),
    (("preview", "azure.csv", "--format", "mooncake"), ("azure.csv",)),
    (
        ("preview", "twofold.jsonl"),
        ("add --format guidellm-trace (", "times in s) or --format mooncake (", "times in ms)"),
    ),
    (("preview", "azure.csv", "--draw-seed", "3"), ("--draw-seed is 3", "nothing", "add --thin")),
    (("preview", "eight-agents", "--draw-seed", "3"), ("--draw-seed", "leave out")),
    (("preview", "azure.csv", "--time-unit", "h"), ("--time-unit is 'h'", "ms")),
    (("preview", "azure.csv", "--time-unit", "ms"), ("--time-unit", "dates")),
    (
        ("preview", "azure.csv", "--rate", "2", "--thin", "0.5"),
        ("--thin is 0.5", "leave out --thin"),
    ),
    (("preview", "azure.csv", "--thin", "2"), ("--thin is 2", "1 at most")),
    (("preview", "azure.csv", "--requests", "9"), ("--requests is 9", "only 6")),
    (("preview", "azure.csv", "--repeat-mix", "2"), ("--repeat-mix is 2", "sent once")),
    (("preview", "eight-agents", "--format", "azure"), ("--format", "leave out")),
    (("preview", "eight-agents", "--prompts", "poems"), ("'poems'", "natural")),
    (("preview", "eight-agents", "--prompts", "natural"), ("--tokenizer",)),
    (("lock", "talks.jsonl", "--out", "x"), ("--tokenizer",)),
    (("lock", "azure.csv", "--oversize", "drop", "--out", "x"), ("--context-tokens",)),
    (
        ("lock", "azure.csv", "--oversize", "drop", "--context-tokens", "9", "--out", "x"),
        ("nothing of azure.csv is left",),
    ),
    (("fetch", "eight-agents"), ("made without a download", "azure-code")),
    (("show", "azure-code"), ("batchmark workload fetch azure-code",)),
]


@pytest.mark.parametrize(("words", "parts"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_word_about_a_workload_is_one_line_and_exit_2(
    batchmark: Callable[..., Result], words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    result = batchmark("workload", *words)

    assert result.exit_code == 2, (result.stdout, result.stderr)
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    for part in parts:
        assert part in result.stderr


RUN_WRONG = [
    (("week.jsonl", "--format", "mooncake"), ("8.0 days", "--yes")),
    (("chat.jsonl",), ("--chat-form plain",)),
    (("azure.csv", "--baseline", "nobody"), ("no baseline 'nobody'",)),
    (
        ("chat.jsonl", "--engine", "openai", "--attach", "http://127.0.0.1:9"),
        ("no tokenizer is known", "--tokenizer"),
    ),
]


@pytest.mark.parametrize(("words", "parts"), RUN_WRONG)
def test_a_trace_that_cannot_be_run_is_told_before_anything_is_started(
    batchmark: Callable[..., Result],
    tiny_model: Path,
    words: tuple[str, ...],
    parts: tuple[str, ...],
) -> None:
    model = ("--model", str(tiny_model), "--dtype", "float32")
    result = batchmark("run", *words, *model, "--out", "job")

    assert result.exit_code == 2, (result.stdout, result.stderr)
    assert result.stderr.startswith("error: ")
    for part in parts:
        assert part in result.stderr
    assert not Path("job").exists()


def test_a_run_that_is_no_run_is_not_made_again(batchmark: Callable[..., Result]) -> None:
    result = batchmark("reproduce", "nowhere")

    assert result.exit_code == 2
    assert "nowhere is not a run folder" in result.stderr
