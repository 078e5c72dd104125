"""Flags to a plan."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.core.engine_flags import EngineFlags, KnownEngines
from harness.core.errors import UsageError
from harness.core.jsonable import from_json, to_json
from harness.core.load_flags import LoadFlags, mix_repeats, parse_load
from harness.core.phases import parse_phases
from harness.core.plan import RunFlags, plan_run
from harness.core.stages import parse_stages
from harness.core.workload import Load, LoadKind

FLAGS = RunFlags(
    workload="eight-agents",
    engines=EngineFlags(engines="inhouse", policies="static, continuous", model="m"),
    load=LoadFlags(repeat_mix=4), seed=7, repeats=1, warmup_requests=1,
    baseline="inhouse-static", out=None, deadline_s=None,
)  # fmt: skip
KNOWN = KnownEngines({"inhouse": ("continuous", "static", "dynamic")})
NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def test_each_policy_becomes_an_engine_with_a_name_of_its_own() -> None:
    plan = plan_run(FLAGS, NOON, KNOWN)

    assert [e.name for e in plan.engines] == ["inhouse-static", "inhouse-continuous"]
    assert plan.is_baseline_measured
    assert plan.folder == Path("runs/20260102-120000-eight-agents")


def test_a_batch_of_the_largest_engine_is_sent_before_measuring_unless_told_otherwise() -> None:
    flags = replace(FLAGS, warmup_requests=None, engines=replace(FLAGS.engines, slots=5))

    assert plan_run(flags, NOON, KNOWN).warmup_requests == 5
    assert plan_run(FLAGS, NOON, KNOWN).warmup_requests == 1


def test_a_seed_that_was_not_given_is_a_fresh_one() -> None:
    seeds = {plan_run(replace(FLAGS, seed=None), NOON, KNOWN).seed for _ in range(4)}

    assert len(seeds) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workers": "0"}, "--workers is '0'"),
        ({"workers": "many"}, "--workers is 'many'"),
        ({"repeats": 0}, "--repeats is 0"),
        ({"deadline_s": 0.0}, "--deadline-s is 0"),
        ({"warmup_requests": -1}, "--warmup is -1"),
        ({"workload": None}, "no workload is named"),
        ({"load": LoadFlags(schedule=Path("x.jsonl"))}, "--seed is 7, but a locked schedule"),
        ({"load": LoadFlags(repeat_mix=-1)}, "--repeat-mix is -1"),
    ],
)
def test_a_value_out_of_range_is_named_with_its_flag(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plan_run(replace(FLAGS, **change), NOON, KNOWN)  # type: ignore[arg-type]


FILE = Path("locked.jsonl")
LOADS = [
    (LoadFlags(), Load(LoadKind.BACKLOG), "backlog"),
    (LoadFlags(backlog=True), Load(LoadKind.BACKLOG), "backlog"),
    (LoadFlags(concurrency=3), Load(LoadKind.CLOSED, concurrency=3), "closed loop 3"),
    (LoadFlags(rate_rps=0.5), Load(LoadKind.POISSON, rate_rps=0.5), "poisson 0.5/s"),
    (
        LoadFlags(rate_rps=2, arrivals="poisson"),
        Load(LoadKind.POISSON, rate_rps=2),
        "poisson 2/s",
    ),
    (
        LoadFlags(rate_rps=2, arrivals="constant"),
        Load(LoadKind.CONSTANT, rate_rps=2),
        "constant 2/s",
    ),
    (
        LoadFlags(rate_rps=2, arrivals="gamma", cv=1.5),
        Load(LoadKind.GAMMA, rate_rps=2, cv=1.5),
        "gamma 2/s cv 1.5",
    ),
    (
        LoadFlags(rate_rps=2, burstiness=0.25),
        Load(LoadKind.GAMMA, rate_rps=2, cv=2),
        "gamma 2/s cv 2",
    ),
    (
        LoadFlags(stages="1-4:60"),
        Load(LoadKind.STAGES, stages=parse_stages("1-4:60")),
        "stages 1-4/s over 60 s",
    ),
    (
        LoadFlags(mmpp="40:5,0:15"),
        Load(LoadKind.MMPP, phases=parse_phases("40:5,0:15")),
        "mmpp 40/s for 5 s, 0/s for 15 s",
    ),
    (LoadFlags(schedule=FILE), Load(LoadKind.REPLAY, speed=1), "locked schedule at 1x speed"),
    (
        LoadFlags(schedule=FILE, speed=2.5),
        Load(LoadKind.REPLAY, speed=2.5),
        "locked schedule at 2.5x speed",
    ),
]


@pytest.mark.parametrize(("flags", "load", "words"), LOADS, ids=[row[2] for row in LOADS])
def test_flags_become_a_load_with_words_of_its_own(
    flags: LoadFlags, load: Load, words: str
) -> None:
    assert parse_load(flags) == load
    assert str(load) == words
    assert from_json(Load, to_json(load)) == load


def test_only_a_closed_loop_counts_latency_from_sending() -> None:
    assert [kind for kind in LoadKind if not Load(kind).is_open_loop] == [LoadKind.CLOSED]
    timed = {kind for kind in LoadKind if Load(kind).is_timed}
    assert set(LoadKind) - timed == {LoadKind.BACKLOG, LoadKind.CLOSED}


NAN, INF = float("nan"), float("inf")
WRONG = [
    (LoadFlags(rate_rps=0), "--rate is 0"),
    (LoadFlags(rate_rps=-1), "--rate is -1"),
    (LoadFlags(rate_rps=NAN), "--rate is nan"),
    (LoadFlags(rate_rps=INF), "--rate is inf"),
    (LoadFlags(concurrency=0), "--concurrency is 0"),
    (LoadFlags(concurrency=1, rate_rps=1), "give only one of"),
    (LoadFlags(backlog=True, stages="1:1"), "give only one of"),
    (LoadFlags(rate_rps=1, schedule=FILE), "give only one of"),
    (LoadFlags(rate_rps=1, mmpp="40:5,0:15"), "give only one of"),
    (LoadFlags(mmpp="40:5"), "--mmpp is '40:5'"),
    (LoadFlags(rate_rps=1, arrivals="pareto"), "--arrivals is 'pareto'; choose from poisson, con"),
    (LoadFlags(rate_rps=1, arrivals="backlog"), "--arrivals is 'backlog'"),
    (LoadFlags(arrivals="gamma"), "--arrivals is gamma, but says nothing without --rate"),
    (LoadFlags(stages="1:1", cv=1), "--cv is 1, but says nothing without --rate"),
    (LoadFlags(burstiness=1), "--burstiness is 1, but says nothing without --rate"),
    (LoadFlags(rate_rps=1, arrivals="gamma"), "--arrivals gamma needs --cv or --burstiness"),
    (LoadFlags(rate_rps=1, arrivals="poisson", cv=1), "--arrivals poisson takes neither"),
    (LoadFlags(rate_rps=1, arrivals="constant", cv=1), "--arrivals constant takes neither"),
    (LoadFlags(rate_rps=1, cv=1, burstiness=1), "give only one of --cv and --burstiness"),
    *((LoadFlags(rate_rps=1, cv=cv), f"--cv is {cv:g}") for cv in (0, -1, NAN, INF, 101)),
    *((LoadFlags(rate_rps=1, burstiness=k), f"--burstiness is {k:g}") for k in (0, -1, NAN, INF)),
    (LoadFlags(stages="2:30s"), "--stages has '2:30s'"),
    (LoadFlags(stages="2:30", repeat_mix=2), "--stages decides how many requests are sent"),
    (LoadFlags(schedule=FILE, repeat_mix=2), "--schedule decides how many requests are sent"),
    (LoadFlags(speed=2), "--speed is 2, but says nothing without --schedule"),
    (LoadFlags(schedule=FILE, speed=0), "--speed is 0"),
    (LoadFlags(schedule=FILE, speed=NAN), "--speed is nan"),
    (LoadFlags(repeat_mix=0), "--repeat-mix is 0"),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "message"), WRONG, ids=[row[1] for row in WRONG])
def test_a_load_that_makes_no_sense_is_refused_with_its_flag(
    flags: LoadFlags, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        parse_load(flags)


def test_the_mix_is_sent_once_unless_something_else_is_said() -> None:
    assert mix_repeats(LoadFlags()) == 1
    assert mix_repeats(LoadFlags(repeat_mix=3)) == 3
    assert mix_repeats(LoadFlags(stages="1:1")) is None


def test_a_plan_of_a_locked_schedule_is_named_after_its_file() -> None:
    flags = replace(
        FLAGS, workload=None, load=LoadFlags(schedule=Path("a/locked.jsonl")), seed=None
    )
    plan = plan_run(flags, NOON, KNOWN)

    assert plan.folder == Path("runs/20260102-120000-locked")
    assert plan.schedule == Path("a/locked.jsonl")


def test_a_plan_in_stages_has_no_number_of_mixes_in_its_title() -> None:
    plan = plan_run(replace(FLAGS, load=LoadFlags(stages="2:30")), NOON, KNOWN)

    assert plan.title == "eight-agents stages 2/s over 30 s"
    assert plan_run(FLAGS, NOON, KNOWN).title == "eight-agents x4 backlog"
