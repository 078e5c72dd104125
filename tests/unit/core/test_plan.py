"""Flags to a plan."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.core.plan import RunFlags, parse_load, plan_run
from harness.core.workload import Load, LoadKind

FLAGS = RunFlags(
    workload="eight-agents", engine="inhouse", policies="static, continuous", model="m", slots=8,
    dtype="bfloat16", threads=None, pad_prompts=True, batch_window_ms=None, repeat_mix=4,
    backlog=False, concurrency=None, rate_rps=None, seed=7, repeats=1, warmup_requests=1,
    baseline="inhouse-static", out=None, deadline_s=None, port=None,
)  # fmt: skip
NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def test_each_policy_becomes_an_engine_with_a_name_of_its_own() -> None:
    plan = plan_run(FLAGS, NOON)

    assert [e.name for e in plan.engines] == ["inhouse-static", "inhouse-continuous"]
    assert plan.is_baseline_measured
    assert plan.folder == Path("runs/20260102-120000-eight-agents")


def test_a_seed_that_was_not_given_is_a_fresh_one() -> None:
    seeds = {plan_run(replace(FLAGS, seed=None), NOON).seed for _ in range(4)}

    assert len(seeds) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots": 0}, "--slots is 0"),
        ({"repeat_mix": -1}, "--repeat-mix is -1"),
        ({"repeats": 0}, "--repeats is 0"),
        ({"threads": 0}, "--threads is 0"),
        ({"deadline_s": 0.0}, "--deadline-s is 0"),
        ({"warmup_requests": -1}, "--warmup is -1"),
        ({"policies": "static,static"}, "name each policy once"),
        ({"policies": ""}, "name each policy once"),
        ({"rate_rps": -1.0}, "--rate is -1"),
        ({"rate_rps": float("nan")}, "--rate is nan"),
        ({"rate_rps": float("inf")}, "--rate is inf"),
        ({"concurrency": 0}, "--concurrency is 0"),
        ({"concurrency": 1, "rate_rps": 1.0}, "give only one of"),
    ],
)
def test_a_value_out_of_range_is_named_with_its_flag(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plan_run(replace(FLAGS, **change), NOON)  # type: ignore[arg-type]


def test_a_load_is_a_backlog_unless_another_is_given() -> None:
    assert parse_load(None, None, backlog=False) == Load(LoadKind.BACKLOG)
    assert parse_load(3, None, backlog=False) == Load(LoadKind.CLOSED, concurrency=3)
    assert parse_load(None, 0.5, backlog=False) == Load(LoadKind.POISSON, rate_rps=0.5)
