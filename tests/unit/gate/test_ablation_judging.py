"""From runs to an ablation: which count, which factors were at work, what is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.summarize import summarize
from harness.core.ablation_plan import LADDER, Level, factors_between, level_spec
from harness.core.engine import EngineSpec
from harness.core.manifest import RunStatus
from harness.core.record import StepRecord
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload
from harness.gate.ablation import Ablation, AblationLevel
from harness.gate.ablation_judging import LevelAttempts, cautions_of, judge_levels
from harness.gate.ablation_remarks import Sent, observe, remarks, sent_of, shares_prefixes
from harness.gate.ablation_table import claims, level_table, not_counted, waterfall_tables
from harness.gate.attempt import Attempt

STATIC, DYNAMIC, CONTINUOUS, PAGED, CHUNKED, PREFIX = LADDER
BASE = EngineSpec("inhouse", "inhouse", "smollm2", slots=4)
SENT = Sent(LoadKind.POISSON, 9, prompt_tokens_longest=900, slots=4, step_tokens=512)


@pytest.fixture
def attempt(build: Any) -> Callable[..., Attempt]:
    """A run of a level that took `speed`: eight requests of four tokens."""

    def make(level: Level, speed: float = 1.0, index: int = 1, **changes: Any) -> Attempt:
        records = [build.record(i, [(100 * i + 50 * k) / speed for k in range(1, 5)]) for i in range(8)]  # fmt: skip
        spec = level_spec(BASE, level)
        seeds = {"workload": build.workload(seed=index, digest=str(index) * 64)}
        run = build.run(records, [build.step()], engine=spec, **{**seeds, **changes})
        return Attempt(f"{level.name}-{index}", run, summarize(run))

    return make


def rungs(make: Callable[..., Attempt], speeds: dict[str, Sequence[float]]) -> list[LevelAttempts]:
    return [
        LevelAttempts(level, tuple(make(level, s, i) for i, s in enumerate(speeds[level.key], 1)))
        for level in LADDER
        if level.key in speeds
    ]


def made(ladder: Sequence[LevelAttempts]) -> Ablation:
    levels = judge_levels(ladder, SENT)
    words = ("SmolLM2 bf16, 2-core AMD EPYC, eight-agents x4 backlog", ("batchmark",), "1", "now")
    return Ablation(levels[0].name, *words, (1, 2, 3), levels, cautions_of(ladder))


def ratio_of(level: AblationLevel, metric: str = "output_tok_s") -> float | None:
    value = next(v for v in level.values if v.metric == metric)
    return None if value.to_before is None else value.to_before.ratio


def test_each_level_is_worth_what_it_was_made_with(attempt: Callable[..., Attempt]) -> None:
    speeds = {"static": (1, 2, 3), "dynamic": (1, 2, 3), "continuous": (1.5, 3, 4.5)}
    found = made(rungs(attempt, speeds))

    assert [ratio_of(level) for level in found.levels[1:]] == pytest.approx([1, 1.5], rel=1e-3)
    assert [level.adds for level in found.levels] == [
        ("static batching",), ("dynamic batching",), ("continuous batching",)
    ]  # fmt: skip
    assert not_counted(found) == ""


def test_a_run_that_is_invalid_or_failed_counts_for_nothing_and_is_shown(
    attempt: Callable[..., Attempt], build: Any
) -> None:
    ladder = rungs(attempt, {"static": (1, 1, 1), "dynamic": (2, 2, 2)})
    bad = [build.record(0), *(build.failed(i) for i in range(1, 8))]
    run = build.run(bad, engine=level_spec(BASE, DYNAMIC))
    stopped = attempt(DYNAMIC, 9, 2, status=RunStatus.FAILED, failure="the server ended")
    faulty = (
        Attempt("inhouse-dynamic-1", run, summarize(run)),
        stopped,
        Attempt("inhouse-dynamic-3"),
    )
    found = made([ladder[0], LevelAttempts(DYNAMIC, faulty)])
    dynamic = found.levels[1]

    assert [run.outcome for run in dynamic.runs] == ["INVALID", "FAILED", "NOT RUN"]
    assert "V15" in (dynamic.runs[0].why or "")
    assert dynamic.runs[1].why == "the server ended"
    assert ratio_of(dynamic) is None
    assert not_counted(found).startswith("3 of 6 runs do not count: inhouse-dynamic-1 is INVALID")
    table = level_table(found)
    assert [column.title for column in table.columns][-1] == "Why not"
    assert "the server ended" in table.rows[1][-1].text
    assert waterfall_tables(found)[0].rows[1][2].text.startswith("none")
    assert next(iter(claims(found)))[0] == "no ratio"


def test_one_invalid_round_leaves_the_others(attempt: Callable[..., Attempt]) -> None:
    ladder = rungs(attempt, {"static": (1, 1, 1, 1), "dynamic": (2, 2, 2, 2)})
    cut = replace(ladder[1].attempts[1], failure="interrupted")
    attempts = (ladder[1].attempts[0], cut, *ladder[1].attempts[2:])
    step = made([ladder[0], LevelAttempts(DYNAMIC, attempts)]).levels[1].values[0].to_before

    assert step is not None
    assert (step.rounds, step.ratio) == (3, pytest.approx(2, rel=1e-3))


def test_levels_of_one_round_that_sent_other_bytes_are_doubted(
    attempt: Callable[..., Attempt],
) -> None:
    alike = [LevelAttempts(level, (attempt(level),)) for level in (STATIC, DYNAMIC)]
    unlike = [alike[0], LevelAttempts(DYNAMIC, (attempt(DYNAMIC, index=2),))]

    assert "DIFFERENT_PROMPTS" not in {doubt.code for doubt in cautions_of(alike)}
    assert "DIFFERENT_PROMPTS" in {doubt.code for doubt in cautions_of(unlike)}


def test_a_step_of_two_factors_is_doubted_and_a_factor_of_two_settings_is_not(
    attempt: Callable[..., Attempt],
) -> None:
    def codes(*levels: Level) -> set[str]:
        ladder = [LevelAttempts(level, (attempt(level),)) for level in levels]
        return {doubt.code for doubt in cautions_of(ladder)}

    assert "MORE_THAN_ONE_FACTOR" not in codes(PAGED, CHUNKED)
    assert "MORE_THAN_ONE_FACTOR" in codes(CONTINUOUS, CHUNKED)


def said(
    build: Any,
    level: Level,
    here: Sequence[StepRecord],
    before: Sequence[StepRecord] = (),
    sent: Sent = SENT,
) -> str:
    """What is remarked on the step to `level` from the rung below it."""
    sides = [observe([build.run([], steps)]) for steps in (before, here)]
    below = LADDER[LADDER.index(level) - 1]
    return " ".join(remarks(factors_between(below, level), sides[0], sides[1], sent))


def test_a_cache_that_was_never_short_is_said_with_its_largest_use(build: Any) -> None:
    steps = [build.step(kv_blocks_used=31, kv_blocks_total=100)]
    short = [build.step(waiting=1, running=3)]

    assert "paged KV cache was not at work: the KV cache was never short, 31.0 %" in said(build, PAGED, steps, steps)  # fmt: skip
    assert said(build, PAGED, steps, short) == ""
    assert said(build, PAGED, [build.step(preempted=1)], steps) == ""
    assert said(build, PAGED, steps, [build.step(waiting=5)]) != "", "all slots were taken"


def test_dynamic_batching_is_idle_in_a_backlog(build: Any) -> None:
    backlog = replace(SENT, load=LoadKind.BACKLOG)

    assert said(build, DYNAMIC, [build.step()]) == ""
    assert "but for the last one of 1" in said(build, DYNAMIC, [build.step()], sent=backlog)
    assert "but for" not in said(build, DYNAMIC, [build.step()], sent=replace(backlog, requests=8))


def test_continuous_batching_is_idle_where_nothing_was_padded(build: Any) -> None:
    assert "no answer" in said(build, CONTINUOUS, [build.step()], [build.step()])
    assert said(build, CONTINUOUS, [build.step()], [build.step(running=3, padded=1)]) == ""
    assert said(build, CONTINUOUS, [build.step()]) == "", "nothing is known of the level below"


def test_chunked_prefill_is_idle_when_no_prompt_is_longer_than_the_budget(build: Any) -> None:
    assert said(build, CHUNKED, [build.step()]) == ""
    equal = replace(SENT, prompt_tokens_longest=512)
    assert "longest 512, --batched-tokens 512" in said(build, CHUNKED, [build.step()], sent=equal)


def test_a_prefix_cache_without_a_hit_is_idle(build: Any) -> None:
    assert "was not at work" in said(build, PREFIX, [build.step(prefix_hit_tokens=0)])
    assert said(build, PREFIX, [build.step(prefix_hit_tokens=16)]) == ""
    assert said(build, PREFIX, [build.step()]) == "", "an engine that does not say is not doubted"


def test_steps_of_the_warm_up_say_nothing(build: Any) -> None:
    run = build.run([], [build.step(preempted=1, started_ms=5)], start_ns=10_000_000)

    assert observe([run]) is None
    assert said(build, DYNAMIC, [], sent=replace(SENT, load=LoadKind.BACKLOG)) == ""


def workload(*prompts: tuple[int, ...]) -> Workload:
    arrivals = tuple(Arrival(0, Request(i, "A", p, 2)) for i, p in enumerate(prompts))
    return Workload("w", 0, 1, Load(LoadKind.BACKLOG), arrivals)


def test_prefixes_are_shared_when_a_full_block_of_two_prompts_is_the_same() -> None:
    block = tuple(range(16))

    assert shares_prefixes(workload((*block, 1), (*block, 2)))
    assert not shares_prefixes(workload(block[:15], block[:15])), "no full block"
    assert not shares_prefixes(workload((*block, 1), (9, *block)))
    assert sent_of(workload((1,), block), BASE).prompt_tokens_longest == 16


def test_an_interval_that_holds_1_is_marked(attempt: Callable[..., Attempt]) -> None:
    speeds = {"static": (1, 1, 1), "dynamic": (1.1, 0.9, 1), "continuous": (2, 2.02, 1.98)}
    table = waterfall_tables(made(rungs(attempt, speeds)))[0]
    steps = [row[2].text for row in table.rows]

    assert steps[0] == "baseline"
    assert steps[1].startswith("~ ")
    assert steps[2] == "2.01x"
    assert [row[4].text for row in table.rows] == ["", "3", "3"]


def test_one_round_says_that_it_gives_no_interval(attempt: Callable[..., Attempt]) -> None:
    table = waterfall_tables(made(rungs(attempt, {"static": (1,), "dynamic": (2,)})))[0]

    assert "95 % interval" not in [column.title for column in table.columns]
    assert "1 round(s) give no interval (--rounds 3 does)" in table.notes


def test_a_p99_that_is_not_known_gives_way_to_the_longest_with_its_reason(
    attempt: Callable[..., Attempt],
) -> None:
    tables = waterfall_tables(made(rungs(attempt, {"static": (1,), "dynamic": (2,)})))

    assert [t.columns[1].title for t in tables][2:] == ["longest TTFT", "longest TPOT"]
    assert any("TTFT p99 is not known: 8 requests cannot support p99 (368 needed)" in note for note in tables[2].notes)  # fmt: skip
