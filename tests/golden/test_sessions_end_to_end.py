"""`batchmark run` of sessions on a tiny model: what was sent when, and what is said of the turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.analyzer.reading import read_run
from workloads.catalog import build_workload, load_spec

TALK = """
name = "talk"
description = "an agent with a tool"
token_ids = [10, 250]
count = 8

[sessions]
system_tokens = 64
turns = { kind = "fixed", tokens = 2 }
user = { kind = "uniform", least = 5, most = 20 }
answer = { kind = "fixed", tokens = 4 }
calls = { kind = "fixed", tokens = 1 }
tool = { kind = "fixed", tokens = 30 }
think_ms = { kind = "fixed", tokens = 20 }
tool_ms = { kind = "fixed", tokens = 5 }
"""


def test_sessions_are_sent_turn_by_turn_recorded_and_summed_up(program: Any) -> None:
    (program.folder / "talk.toml").write_text(TALK)
    result = program(
        "run", "talk.toml", "--model", str(program.model), "--dtype", "float32", "--slots", "4",
        "--threads", "1", "--warmup", "1", "--rate", "50", "--seed", "3",
        "--prefix-cache", "--out", "talk",
    )  # fmt: skip
    assert program.measured(result), result.stderr

    folder: Path = program.folder / "talk" / "inhouse-continuous"
    run = read_run(folder)
    spec = load_spec(str(program.folder / "talk.toml"))
    work = build_workload(spec, run.manifest.workload.load, 1, seed=3)
    assert run.manifest.workload.digest == work.digest
    assert run.manifest.counts.ok == len(work.arrivals) == 32
    seen_before = 0
    for arrival, record in zip(work.arrivals, run.requests, strict=True):
        assert (record.session, record.turn) == (arrival.request.session, arrival.request.turn)
        if arrival.after is None:
            assert record.due_ns == arrival.due_ns
            continue
        before = run.requests[arrival.after.index]
        assert before.closed_ns is not None
        assert record.due_ns == before.closed_ns + arrival.after.delay_ns <= record.sent_ns
        seen_before += before.prompt_tokens_asked // 16 * 16
    steps = [step for step in run.steps if step.started_ns >= run.manifest.start_ns]
    assert sum(step.prefix_hit_tokens or 0 for step in steps) >= seen_before

    sessions = json.loads((folder / "summary.json").read_text())["sessions"]
    assert [(turn["turn"], turn["requests"]) for turn in sessions["turns"]] == [
        (0, 8),
        (1, 8),
        (2, 8),
        (3, 8),
    ]
    assert all(value["value"] > 0 for turn in sessions["turns"] for value in turn["values"])
    assert sessions["durations"][0]["value"] > 0.030
    assert "whole session" in result.stdout
    assert "whole session" in (program.folder / "talk" / "report.html").read_text()
