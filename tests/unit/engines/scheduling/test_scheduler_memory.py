"""The scheduler and its memory: growth, reservation, and what gives when there is no more."""

from itertools import pairwise
from typing import Any

import pytest

from engines.scheduling.sequence import SequenceState
from engines.scheduling.step import KvUse


def admitted(plans: list[Any]) -> list[list[int]]:
    return [[p.sequence_id for p in plan.prefills] for plan in plans]


def test_paged_blocks_are_taken_as_a_sequence_grows_and_never_move(bench: Any) -> None:
    target = bench()
    target.add(3, 7)

    plans = target.steps(7)

    blocks = [(plan.prefills + plan.decodes)[0].blocks for plan in plans]
    assert [len(b) for b in blocks] == [1, 1, 2, 2, 2, 2, 3]
    assert all(later[: len(b)] == b for b, later in pairwise(blocks))


def test_reserved_blocks_are_one_run_for_the_whole_answer_from_the_start(bench: Any) -> None:
    target = bench(kv="reserved")
    target.add(3, 7)

    plans = target.steps(7)

    assert {(p.prefills + p.decodes)[0].blocks for p in plans} == {(0, 1, 2)}


def test_what_is_reserved_too_early_is_told_from_what_a_block_cannot_fill(bench: Any) -> None:
    target = bench(kv="reserved", kv_blocks=8)
    target.add(3, 7)

    first, second, third = (plan.kv for plan in target.steps(3))

    assert first == KvUse(3, 8, tokens_stored=3, tokens_unfilled=1, tokens_over_reserved=8)
    assert second == KvUse(3, 8, tokens_stored=4, tokens_unfilled=0, tokens_over_reserved=8)
    assert third == KvUse(3, 8, tokens_stored=5, tokens_unfilled=3, tokens_over_reserved=4)


def test_paged_memory_reserves_nothing(bench: Any) -> None:
    target = bench(kv_blocks=8)
    target.add(3, 7)

    assert [plan.kv.tokens_over_reserved for plan in target.steps(7)] == [0] * 7
    assert target.scheduler.kv_use == KvUse(0, 8, 0, 0, 0)


def test_between_steps_the_cache_stands_as_the_last_step_left_it(bench: Any) -> None:
    target = bench()
    target.add(3, 7)

    assert target.steps(3)[-1].kv == target.scheduler.kv_use


def test_free_blocks_that_do_not_stand_in_one_run_are_stranded(bench: Any) -> None:
    target = bench(kv="reserved", kv_blocks=6)
    for max_tokens in (1, 3, 1):
        target.add(6, max_tokens)  # two blocks each
    target.step()
    target.add(13, 1)  # four blocks, and four are free: two on either side of the second

    assert [(plan.kv.stranded, plan.waiting) for plan in target.steps(2)] == [(4, 1), (4, 1)]
    assert admitted([target.step()]) == [[3]]
    assert target.scheduler.kv_use.stranded == 0


def test_free_blocks_are_not_stranded_when_the_head_waits_for_a_slot_only(bench: Any) -> None:
    target = bench(kv="reserved", kv_blocks=4, slots=1)
    target.add(6, 2)
    target.add(6, 2)

    assert target.step().kv.stranded == 0


def test_the_head_of_the_queue_waits_for_memory_and_nobody_overtakes_it(bench: Any) -> None:
    target = bench(kv_blocks=4)
    for prompt_tokens, max_tokens in ((5, 2), (10, 4), (1, 1)):
        target.add(prompt_tokens, max_tokens)

    assert admitted(target.steps(3)) == [[0], [], [1]]


@pytest.mark.parametrize("kv", ["paged", "reserved"])
def test_a_sequence_starts_only_when_it_is_sure_to_reach_its_end(bench: Any, kv: str) -> None:
    target = bench(kv=kv, kv_blocks=5)
    target.add(4, 9)  # three blocks at its end, though one is enough now
    target.add(4, 9)

    plans = target.steps_to_the_end()

    assert admitted(plans) == [[0], *[[]] * 8, [1], *[[]] * 8]
    assert all(not plan.preempted for plan in plans)


def test_an_answer_that_ends_early_leaves_what_it_was_promised_to_others(bench: Any) -> None:
    target = bench(kv_blocks=5)
    target.add(4, 9)
    target.add(4, 9)

    target.step(0)

    assert admitted([target.step()]) == [[1]]


def test_max_utilization_starts_what_fits_now_and_preempts_the_youngest(bench: Any) -> None:
    target = bench(kv_blocks=5, capacity="max_utilization")
    first, second = target.add(4, 9), target.add(4, 9)

    plans = target.steps(6)

    assert admitted(plans) == [[0, 1], [], [], [], [], []]
    assert [plan.preempted for plan in plans] == [(), (), (), (), (), (1,)]
    assert (second.state, second.generated, second.stored) == (SequenceState.WAITING, 5, 0)
    assert second.blocks == ()
    assert (first.generated, plans[-1].waiting) == (6, 1)


def test_a_preempted_sequence_reads_prompt_and_answer_again_and_goes_on(bench: Any) -> None:
    target = bench(kv_blocks=5, capacity="max_utilization")
    _, second = target.add(4, 9), target.add(4, 9)
    target.steps(6)

    plans = target.steps_to_the_end()

    again = next(plan for plan in plans if plan.prefills).prefills
    assert [(p.sequence_id, p.first, p.tokens, p.is_last) for p in again] == [(1, 0, 9, True)]
    assert (second.generated, second.preemptions) == (9, 1)


def test_the_preempted_wait_in_front_in_order_of_arrival(bench: Any) -> None:
    target = bench(kv_blocks=6, slots=3, capacity="max_utilization")
    for _ in range(4):
        target.add(8, 9)

    plans = target.steps_to_the_end()

    assert [plan.preempted for plan in plans if plan.preempted][:2] == [(2,), (1,)]
    assert [started for started in admitted(plans) if started][:3] == [[0, 1, 2], [1], [2, 3]]


def test_no_sequence_starts_in_a_step_that_preempts(bench: Any) -> None:
    target = bench(kv_blocks=6, slots=3, capacity="max_utilization")
    for prompt_tokens, max_tokens in ((8, 9), (8, 9), (1, 1), (1, 1)):
        target.add(prompt_tokens, max_tokens)

    plans = target.steps_to_the_end()

    assert any(plan.preempted for plan in plans)
    assert not any(plan.preempted and plan.prefills for plan in plans)


def test_the_oldest_gets_its_token_in_every_step_however_scarce_memory_is(bench: Any) -> None:
    target = bench(kv_blocks=6, capacity="max_utilization")
    oldest = target.add(4, 20)
    for _ in range(3):
        target.add(4, 20)

    for step in range(20):
        target.step()
        assert oldest.generated == step + 1


@pytest.mark.parametrize("policy", ["static", "dynamic"])
def test_a_batch_never_preempts_whatever_the_capacity(bench: Any, policy: str) -> None:
    target = bench(policy, kv_blocks=5, capacity="max_utilization")
    target.add(4, 9)
    target.add(4, 9)

    plans = target.steps_to_the_end()

    assert admitted(plans) == [[0], *[[]] * 8, [1], *[[]] * 8]
    assert all(not plan.preempted for plan in plans)


def test_the_blocks_of_an_ended_answer_stay_with_its_batch(bench: Any) -> None:
    target = bench("static", slots=2)
    target.add(7, 1)
    target.add(3, 4)

    assert [plan.kv.used for plan in target.steps(4)] == [3, 3, 4, 4]
    assert target.scheduler.kv_blocks_used == 0
