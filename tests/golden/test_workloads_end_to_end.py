"""A trace that is run, and made again."""

from __future__ import annotations

import json
from typing import Any

import pytest

TALKS = [
    {"session_id": "a", "turns": [{"text": "How are you?", "output_length": 4},
                                  {"text": "And now?", "output_length": 6, "delay": 20}]},
    {"session_id": "b", "turns": [{"text": "Where is the river?", "output_length": 5}]},
]  # fmt: skip
RUN = "job/inhouse-continuous"


def manifest_of(program: Any, folder: str = RUN) -> Any:
    return json.loads((program.folder / folder / "manifest.json").read_text())


def test_a_trace_is_run_and_can_be_checked_for_what_it_was_read_from(program: Any) -> None:
    trace = program.folder / "talks.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in TALKS))
    ran = program(
        "run", "talks.jsonl", "--model", str(program.model), "--dtype", "float32", "--slots", "4",
        "--threads", "1", "--warmup", "1", "--policy", "continuous", "--seed", "3", "--out", "job",
        "--chat-form", "plain",
    )  # fmt: skip
    assert program.measured(ran), ran.stderr
    manifest = manifest_of(program)
    source = manifest["workload"]["source"]
    assert "talks.jsonl: format aiperf" in ran.stdout
    assert (source["file"], len(source["sha256"])) == ("talks.jsonl", 64)
    assert manifest["counts"]["ok"] == 3
    assert manifest["workload"]["prompt_tokens"] == 30 + 59 + 37
    assert manifest["recipe"]["workload"] == str(trace)

    checked = program("reproduce", RUN, "--check")
    assert checked.returncode == 0, checked.stderr
    assert "what differs: nothing" in checked.stdout

    trace.write_text(json.dumps(TALKS[1]) + "\n")
    refused = program("reproduce", RUN)
    assert refused.returncode == 4
    assert "talks.jsonl is another" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
def test_a_run_is_made_again_on_the_same_bytes_and_compared(finished: Any) -> None:
    again = finished("reproduce", RUN, "--out", "again")

    assert finished.measured(again), again.stderr
    assert "inhouse-continuous (then)" in again.stdout
    made, was = (manifest_of(finished, f) for f in ("again/inhouse-continuous", RUN))
    assert made["workload"]["digest"] == was["workload"]["digest"]
