"""`batchmark run` on a tiny model: what it prints, what it leaves behind, and how it ends."""

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.reading import read_run

POLL_S = 0.02


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(POLL_S)  # another process is waited for; nothing is measured


def assert_accounted(folder: Path) -> None:
    run = read_run(folder)
    counts = run.manifest.counts
    assert counts.sent == counts.ok + counts.failed + counts.cancelled + counts.unfinished
    outcomes = Counter(record.outcome.value for record in run.requests)
    for outcome in ("ok", "failed", "cancelled", "unfinished"):
        assert getattr(counts, outcome) == outcomes[outcome]


def test_a_run_leaves_a_folder_per_policy_a_comparison_and_a_report(finished: Any) -> None:
    job = finished.folder / "job"

    files = {"comparison.json", "preflight.json", "report.html"}
    assert {path.name for path in job.iterdir()} == {"inhouse-static", "inhouse-continuous", *files}
    for policy in ("static", "continuous"):
        run = read_run(job / f"inhouse-{policy}")
        assert run.manifest.status.value == "complete"
        assert run.manifest.counts.ok == 12
        assert run.cautions == ()
        assert {record.output_tokens for record in run.requests} == {4, 8, 16, 24}
        assert_accounted(job / f"inhouse-{policy}")


def test_both_policies_were_sent_the_same_bytes(finished: Any) -> None:
    facts = [
        read_json(finished.folder / "job" / f"inhouse-{policy}" / "manifest.json")["workload"]
        for policy in ("static", "continuous")
    ]

    assert facts[0] == facts[1]
    assert facts[0]["seed"] == 5


def test_every_ratio_is_printed_with_its_baseline_model_hardware_and_workload(
    finished: Any,
) -> None:
    printed = (finished.folder / "stdout.txt").read_text()

    assert "x output tok/s vs inhouse-static (tiny-llama fp32, " in printed
    assert "tiny x3 backlog)" in printed


def test_the_step_log_holds_the_padding_that_the_arithmetic_gives(finished: Any) -> None:
    run = read_run(finished.folder / "job" / "inhouse-static")
    steps = [s for s in run.steps if s.started_ns >= run.manifest.start_ns]

    assert len(steps) == 3 * 24
    assert sum(step.padded for step in steps) == 3 * (20 + 16 + 8)
    assert sum(step.prefill_padding_tokens for step in steps) == 3 * (10 + 0 + 20 + 5)


@pytest.mark.parametrize("policy", ["static", "continuous"])
def test_the_engine_was_read_and_counted_what_the_client_did(finished: Any, policy: str) -> None:
    folder = finished.folder / "job" / f"inhouse-{policy}"
    samples = read_run(folder).samples
    checks = {c["id"]: c for c in read_json(folder / "summary.json")["checks"]}

    assert len(samples) >= 2
    assert samples[0].at_ns < 0
    assert checks["V16"]["verdict"] == "pass"
    assert checks["V16"]["value"].endswith(
        "engine counted 255 prompt tokens (client 255) and 156 generated tokens (client 156)"
    )
    assert {checks[check_id]["verdict"] for check_id in ("V22", "V23")} <= {"pass", "warn"}


def test_the_report_stands_alone(finished: Any) -> None:
    page = (finished.folder / "job" / "report.html").read_text()

    assert "vs inhouse-static (tiny-llama fp32" in page
    assert page.count("<svg") >= 4
    for outside in ("http://", "https://", "src=", "@import"):
        assert outside not in page.replace("http://www.w3.org/", "")


@pytest.mark.parametrize("load", [("--concurrency", "2"), ("--rate", "50")])
def test_other_loads_run_too(program: Any, load: tuple[str, str]) -> None:
    result = program.run_tiny("--policy", "continuous", *load, out="job")

    assert program.measured(result), result.stderr
    manifest = read_json(program.folder / "job/inhouse-continuous/manifest.json")
    assert manifest["counts"]["ok"] == 4
    assert_accounted(program.folder / "job/inhouse-continuous")


@pytest.mark.slow
def test_three_repeats_give_intervals_and_another_seed_each(program: Any) -> None:
    result = program.run_tiny(
        "--policy", "static,continuous", "--repeats", "3", "--baseline", "inhouse-static",
        "--seed", "1", out="job",
    )  # fmt: skip

    assert program.measured(result), result.stderr
    seeds = [
        read_json(program.folder / f"job/inhouse-static-{i}/manifest.json")["workload"]["seed"]
        for i in (1, 2, 3)
    ]
    (table,) = read_json(program.folder / "job/comparison.json")
    row = next(row for row in table["rows"] if row["metric"] == "output_tok_s")
    assert seeds == [1, 2, 3]
    assert row["lo"] < row["ratio"] < row["hi"]


def start_long(program: Any) -> tuple[subprocess.Popen[str], Path]:
    process = program.start(
        "run", "long.toml", "--model", str(program.model), "--dtype", "float32", "--slots", "2",
        "--threads", "1", "--warmup", "0", "--out", "job",
    )  # fmt: skip
    records = program.folder / "job/inhouse-continuous/requests.jsonl"
    wait_until(lambda: records.exists() and records.read_bytes().count(b"\n") > 0, process)
    return process, records.parent


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_is_readable_marked_and_leaves_no_server(
    program: Any, processes_in: Callable[..., list[int]], number: signal.Signals, code: int
) -> None:
    process, folder = start_long(program)

    process.send_signal(number)
    _, stderr = process.communicate()

    assert process.returncode == code
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    run = read_run(folder)
    assert run.manifest.status.value == "interrupted"
    assert (run.manifest.counts.ok, run.manifest.counts.cancelled) == (1, 1)
    assert_accounted(folder)
    assert processes_in(program.folder) == []


def test_a_server_that_is_killed_in_the_middle_ends_the_run_with_its_records_kept(
    program: Any, processes_in: Callable[..., list[int]]
) -> None:
    process, folder = start_long(program)
    (server,) = processes_in(program.folder, "serve")
    os.kill(server, signal.SIGKILL)
    _, stderr = process.communicate()

    assert process.returncode == 4
    assert "Traceback" not in stderr
    assert "the server ended on SIGKILL" in stderr
    run = read_run(folder)
    assert run.manifest.status.value == "failed"
    assert run.manifest.counts.ok == 1
    assert_accounted(folder)


def test_a_harness_that_is_killed_leaves_no_server_and_a_readable_folder(
    program: Any, processes_in: Callable[..., list[int]]
) -> None:
    process, folder = start_long(program)

    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    run = read_run(folder)
    assert run.manifest.status.value == "running"
    # Our processes outlive the harness for a moment: what was in flight may be recorded, or not.
    ended, *in_flight = [record.outcome.value for record in run.requests]
    assert ended == "ok"
    assert in_flight in ([], ["cancelled"], ["failed"])
    while processes_in(program.folder):
        time.sleep(
            POLL_S
        )  # the server sees its standard input close; the test's time-out is its limit
    shown = program("show", str(folder))
    assert shown.returncode == 0
    assert "RUN_NOT_CLOSED" in shown.stdout
