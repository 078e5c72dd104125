"""Which levels are measured, and what the engine is told on each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.ablation_plan import (
    LADDER,
    AblateFlags,
    choose_levels,
    factors_between,
    level_spec,
)
from harness.core.engine import EngineSpec
from harness.core.engine_flags import EngineFlags
from harness.core.errors import UsageError
from harness.core.load_flags import LoadFlags
from harness.core.plan import RunFlags

RUN = RunFlags("mix", EngineFlags(model="m"), LoadFlags(), 1, 3, None, None, None, None)
FLAGS = AblateFlags(run=RUN)
BASE = EngineSpec("inhouse", "inhouse", "m", slots=4, batched_tokens=64, kv_tokens=999, threads=2)


def keys(flags: AblateFlags, *, shares: bool = False) -> list[str]:
    return [level.key for level in choose_levels(flags, shares_prefixes=shares)]


def test_the_prefix_cache_is_a_level_only_where_prefixes_are_shared_or_it_is_asked_for() -> None:
    plain = ["static", "dynamic", "continuous", "paged", "chunked"]

    assert keys(FLAGS) == plain
    assert keys(FLAGS, shares=True) == [*plain, "prefix"]
    assert keys(replace(FLAGS, prefix_cache=True)) == [*plain, "prefix"]
    assert keys(replace(FLAGS, levels="static,paged"), shares=True) == ["static", "paged"]
    assert keys(replace(FLAGS, levels="static, paged", prefix_cache=True)) == ["static", "paged", "prefix"]  # fmt: skip


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ("static,orca", "--levels has 'orca', which is no level; choose from static, dynamic"),
        ("static", "name two at least"),
        ("", "--levels has ''"),
        ("continuous,static", "in this order: static,dynamic"),
        ("static,static", "each once"),
    ],
)
def test_levels_that_are_no_ladder_are_refused(levels: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        keys(replace(FLAGS, levels=levels))


def test_each_level_adds_its_factor_and_keeps_those_below_it() -> None:
    specs = [level_spec(BASE, level) for level in LADDER]

    assert [s.policy for s in specs] == ["static", "dynamic", *["continuous"] * 4]
    assert [s.args[1] for s in specs] == [*["reserved"] * 3, *["paged"] * 3]
    assert [s.batched_tokens for s in specs] == [None, None, None, None, 64, 64]
    assert [s.chunked_prefill for s in specs] == [False] * 4 + [True] * 2
    assert [s.prefix_cache for s in specs] == [False] * 5 + [True]
    assert {(s.slots, s.kv_tokens, s.threads, s.model) for s in specs} == {(4, 999, 2, "m")}
    assert len({s.name for s in specs}) == len(LADDER)


def test_a_step_over_a_rung_left_out_has_both_factors() -> None:
    static, _, continuous, paged, chunked, _ = LADDER

    assert factors_between(continuous, paged) == (paged,)
    assert factors_between(static, continuous) == LADDER[1:3]
    assert factors_between(continuous, chunked) == (paged, chunked)


def test_a_budget_without_room_for_every_slot_is_refused_where_it_counts() -> None:
    small = replace(BASE, batched_tokens=3)

    assert level_spec(small, LADDER[3]).batched_tokens is None
    with pytest.raises(UsageError, match="--batched-tokens is 3, but each of --slots 4"):
        level_spec(small, LADDER[4])
