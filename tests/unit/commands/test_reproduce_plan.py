"""Which run `batchmark reproduce` would make: the same engine, bytes and load, somewhere else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.commands.reproduce import plan_again
from harness.core.errors import UsageError
from harness.core.imported import DEFINITIONS
from harness.core.source import Recipe, SourceFlags
from harness.core.workload import Load, LoadKind

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)


def test_the_same_engine_load_seed_and_warm_up_in_a_new_folder(build: Any) -> None:
    manifest = build.manifest(Load(LoadKind.POISSON, rate_rps=2.0))
    manifest = replace(manifest, engine=replace(manifest.engine, port=8000, slots=4))
    plan = plan_again(manifest, None, NOON)

    assert plan.engines == (replace(manifest.engine, port=None),)
    assert plan.load == manifest.workload.load
    assert plan.names_load
    assert (plan.seed, plan.repeat_mix, plan.repeats, plan.warmup_requests) == (1, 4, 1, 2)
    assert plan.folder == Path("runs/20300102-120000-again-eight-agents")
    assert plan.workload == "eight-agents"


def test_what_was_named_is_named_again(build: Any) -> None:
    reading = SourceFlags(format="azure", requests=9)
    manifest = replace(build.manifest(), recipe=Recipe("/data/a.csv", reading=reading))
    plan = plan_again(manifest, Path("there"), NOON)

    assert (plan.workload, plan.source, plan.folder) == ("/data/a.csv", reading, Path("there"))


def test_a_trace_that_was_sent_at_its_own_times_is_so_again(build: Any) -> None:
    own = Load(LoadKind.REPLAY, speed=2.0, replayed="own times")
    manifest = replace(build.manifest(own), recipe=Recipe("/data/a.csv"))

    assert not plan_again(manifest, None, NOON).names_load


def test_a_locked_schedule_is_replayed_at_the_speed_it_was(build: Any) -> None:
    manifest = replace(build.manifest(), recipe=Recipe("x", schedule="/data/x.jsonl", speed=3.0))
    plan = plan_again(manifest, None, NOON)

    assert plan.schedule == Path("/data/x.jsonl")
    assert plan.load == Load(LoadKind.REPLAY, speed=3.0)


@pytest.mark.parametrize("change", [{"clock": "virtual"}, {"labels": {DEFINITIONS: "vllm"}}])
def test_a_run_that_was_not_measured_is_refused(build: Any, change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="simulated or imported"):
        plan_again(build.manifest(**change), None, NOON)
