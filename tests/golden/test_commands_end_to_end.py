"""The commands on finished runs, and every wrong word on a command line."""

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def job(finished: Any, program: Any) -> Any:
    """A program of its own with a copy of the finished job."""
    shutil.copytree(finished.folder / "job", program.folder / "job")
    return program


def assert_refused(result: Any, code: int, *parts: str) -> None:
    assert result.returncode == code, (result.stdout, result.stderr)
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("error: ")
    for part in parts:
        assert part in result.stderr


def test_a_run_can_be_shown(job: Any) -> None:
    result = job("show", "job/inhouse-continuous")

    assert result.returncode == 0, result.stderr
    assert "12 of 12 ok" in result.stdout
    assert "output tok/s" in result.stdout


def test_a_baseline_can_be_saved_listed_and_compared_with(job: Any) -> None:
    saved = job("baseline", "save", "nightly", "job/inhouse-static")
    listed = job("baseline", "list")
    compared = job("compare", "job/inhouse-continuous", "--baseline", "nightly")

    assert (saved.returncode, listed.returncode, compared.returncode) == (0, 0, 0)
    assert "nightly" in listed.stdout
    assert "output tok/s vs nightly (tiny-llama fp32" in compared.stdout
    assert "UNPAIRED_RUNS" in compared.stdout


def test_a_baseline_is_not_replaced_unless_asked(job: Any) -> None:
    job("baseline", "save", "nightly", "job/inhouse-static")

    assert_refused(job("baseline", "save", "nightly", "job/inhouse-static"), 2, "exists already")
    again = job("baseline", "save", "nightly", "job/inhouse-static", "--replace")
    assert again.returncode == 0


def test_no_baselines_yet_says_how_to_save_one(program: Any) -> None:
    result = program("baseline", "list")

    assert result.returncode == 0
    assert "batchmark baseline save NAME RUN" in result.stdout


def test_a_report_of_chosen_runs_can_be_written(job: Any) -> None:
    result = job(
        "report", "job/inhouse-static", "job/inhouse-continuous", "--baseline", "inhouse-static",
        "--out", "page.html",
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    assert "vs inhouse-static" in (job.folder / "page.html").read_text()


def change_manifest(folder: Path, **changes: Any) -> None:
    file = folder / "manifest.json"
    data = json.loads(file.read_text())
    for key, value in changes.items():
        part, _, name = key.partition("__")
        data[part][name] = value
    file.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"workload__shape_digest": "x", "workload__title": "other x1 backlog"}, "workload"),
        ({"facts__model_digest": "x"}, "model"),
        ({"machine__cpu_model": "another CPU"}, "CPU"),
        ({"facts__dtype": "bfloat16"}, "dtype"),
    ],
)
def test_a_baseline_of_another_kind_is_not_comparable_and_says_what_differs(
    job: Any, change: dict[str, Any], word: str
) -> None:
    change_manifest(job.folder / "job/inhouse-static", **change)
    assert job("baseline", "save", "nightly", "job/inhouse-static").returncode == 0

    result = job("compare", "job/inhouse-continuous", "--baseline", "nightly")

    assert_refused(result, 4, word, "(baseline)", "(candidate)")
    assert "x output tok/s" not in result.stdout


def test_a_run_folder_with_a_cut_last_line_is_shown_with_a_caution(job: Any) -> None:
    file = job.folder / "job/inhouse-continuous/requests.jsonl"
    file.write_bytes(file.read_bytes()[:-30])

    result = job("show", "job/inhouse-continuous")

    assert result.returncode == 0, result.stderr
    assert "CUT_LAST_LINE" in result.stdout


WRONG = [
    (("run", "nine-agents"), 2, ("unknown workload 'nine-agents'", "eight-agents")),
    (("run", "eight-agents", "--engine", "warp"), 2, ("'warp'", "inhouse")),
    (("run", "eight-agents", "--policy", "orca"), 2, ("'orca'", "continuous")),
    (("run", "eight-agents", "--slots", "0"), 2, ("--slots is 0",)),
    (("run",), 2, ("no workload is named", "--schedule")),
    (("run", "eight-agents", "--rate", "-1"), 2, ("--rate is -1",)),
    (("run", "eight-agents", "--rate", "1", "--cv", "0"), 2, ("--cv is 0", "constant")),
    (("run", "eight-agents", "--rate", "1", "--burstiness", "-1"), 2, ("--burstiness is -1",)),
    (("run", "eight-agents", "--rate", "1", "--arrivals", "pareto"), 2, ("'pareto'", "gamma")),
    (("run", "eight-agents", "--stages", "1:30,2"), 2, ("--stages has '2'", "rate:seconds")),
    (("run", "eight-agents", "--stages", "1:3", "--repeat-mix", "2"), 2, ("--repeat-mix",)),
    (("run", "--schedule", "nowhere.jsonl"), 2, ("nowhere.jsonl",)),
    (("run", "--schedule", "bad.toml"), 2, ("bad.toml is not a locked schedule", "lock")),
    (("run", "eight-agents", "--rate", "1", "--concurrency", "2"), 2, ("only one of",)),
    (("run", "eight-agents", "--baseline", "nobody"), 2, ("no baseline 'nobody'", "save")),
    (("run", "bad.toml"), 2, ("bad.toml", "unknown key 'rate'")),
    (("run", "tiny.toml", "--out", "."), 2, ("exists already", "--out")),
    (("compare", "nowhere", "--baseline", "x"), 2, ("nowhere is not a run folder",)),
    (("show", "nowhere"), 2, ("nowhere is not a run folder",)),
    (("report", "nowhere"), 2, ("nowhere is not a run folder",)),
    (("baseline", "save", "a/b", "nowhere"), 2, ("a/b", "letters, digits")),
    (("model", "fetch", "gpt-9"), 2, ("'gpt-9'", "smollm2-135m")),
    (("simulate", "eight-agents", "--policy", "orca"), 2, ("'orca'",)),
    (("simulate", "eight-agents", "--slots", "0"), 2, ("--slots is 0",)),
    (("simulate", "eight-agents", "--backlog", "--rate", "1"), 2, ("--backlog",)),
    (("simulate", "eight-agents", "--window-ms", "5"), 2, ("--backlog",)),
    (("serve", "--model", "nowhere.gguf"), 2, ("nowhere.gguf",)),
    (("serve", "--model", "noise.gguf"), 2, ("noise.gguf", "GGUF")),
    (("serve", "--model", "empty"), 2, ("empty", "config.json")),
    (("serve", "--policy", "orca"), 2, ("'orca'",)),
    (("serve", "--dtype", "int3"), 2, ("'int3'", "bfloat16")),
    (("workload", "show", "nine-agents"), 2, ("unknown workload",)),
    (("workload", "show"), 2, ("no workload is named",)),
    (("workload", "lock", "tiny.toml", "--out", "long.toml"), 2, ("exists already", "--out")),
]


@pytest.mark.parametrize(("words", "code", "parts"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_a_wrong_word_is_one_line_with_its_value_and_what_to_do(
    program: Any, words: tuple[str, ...], code: int, parts: tuple[str, ...]
) -> None:
    (program.folder / "bad.toml").write_text(
        'name = "x"\ndescription = ""\nrate = 1\nrequests = []'
    )
    (program.folder / "noise.gguf").write_bytes(b"\x00" * 100)
    (program.folder / "empty").mkdir()

    result = program(*words)

    assert_refused(result, code, *parts)
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "words", [("serve", "x"), ("frob",), ("run", "x", "--frob"), ("run", "x", "--slots", "many")]
)
def test_a_wrong_flag_is_a_usage_error(program: Any, words: tuple[str, ...]) -> None:
    result = program(*words)

    assert result.returncode == 2
    assert "Usage:" in result.stderr


def test_a_locked_workload_is_shown_and_sent_as_it_was_locked(program: Any) -> None:
    load = ("--rate", "50", "--cv", "1.5", "--repeat-mix", "2", "--seed", "3")
    locked = program("workload", "lock", "tiny.toml", "--out", "tiny.jsonl", *load)
    drawn = program("workload", "show", "tiny.toml", *load)
    shown = program("workload", "show", "--schedule", "tiny.jsonl")
    result = program(
        "run", "--schedule", "tiny.jsonl", "--model", str(program.model), "--dtype", "float32",
        "--slots", "4", "--threads", "1", "--out", "job",
    )  # fmt: skip

    assert (locked.returncode, drawn.returncode) == (0, 0), locked.stderr + drawn.stderr
    assert shown.stdout == drawn.stdout
    assert program.measured(result), result.stderr
    assert "tiny x2 gamma 50/s cv 1.5, seed 3: 1 run" in result.stdout
    workload = json.loads((program.folder / "job/inhouse-continuous/manifest.json").read_text())[
        "workload"
    ]
    assert f"digest        {workload['digest']}\n" in locked.stdout
    assert (workload["seed"], workload["load"]["cv"]) == (3, 1.5)


def test_a_run_in_stages_sends_the_mix_as_often_as_it_takes(program: Any) -> None:
    result = program.run_tiny("--stages", "40:0.5,0:0.1,10-60:0.5", "--seed", "1", out="job")

    assert program.measured(result), result.stderr
    words = "tiny.toml stages 40/s over 0.5 s, 0/s over 0.1 s, 10-60/s over 0.5 s"
    assert f"{words}, seed 1: 1 run" in result.stdout
    manifest = json.loads((program.folder / "job/inhouse-continuous/manifest.json").read_text())
    assert manifest["workload"]["repeat_mix"] is None
    assert manifest["counts"]["ok"] == manifest["workload"]["requests"] > 8
    assert "as often as the stages last" in (program.folder / "job/report.html").read_text()


@pytest.mark.parametrize("command", ["serve", "run"])
def test_a_port_in_use_is_named_with_what_to_do(program: Any, command: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        if command == "serve":
            result = program("serve", "--model", str(program.model), "--port", port)
            assert_refused(result, 2, f"port {port}", "--port")
        else:
            result = program.run_tiny("--port", port, out="job")
            assert result.returncode in (2, 4)
            assert f"port {port}" in result.stderr


def test_a_truncated_model_is_refused_with_both_sizes(program: Any) -> None:
    broken = program.folder / "broken"
    shutil.copytree(program.model, broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])

    result = program("serve", "--model", str(broken))

    assert_refused(result, 2, "model.safetensors", "bytes")


def test_a_server_that_dies_while_loading_ends_the_run_with_its_last_words(program: Any) -> None:
    (program.folder / "damaged.gguf").write_bytes(b"GGUF\x03")
    result = program("run", "tiny.toml", "--model", "damaged.gguf", "--out", "job")

    assert result.returncode == 4
    assert "Traceback" not in result.stderr
    assert "damaged.gguf" in result.stderr
    manifest = json.loads((program.folder / "job/inhouse-continuous/manifest.json").read_text())
    assert manifest["status"] == "failed"


def test_a_model_that_does_not_exist_is_told_before_anything_is_started(program: Any) -> None:
    result = program("run", "tiny.toml", "--model", "nowhere.gguf", "--out", "job")

    assert result.returncode == 2
    assert "'nowhere.gguf' is none; give --model one that exists" in result.stderr
    assert not (program.folder / "job").exists()
