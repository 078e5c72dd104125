"""The scheduler: policies, slots, and what becomes of a cancelled sequence."""

import gc
import sys
from typing import Any

import pytest

from engines.scheduling.limits import Limits
from engines.scheduling.policies import make_policy
from engines.scheduling.scheduler import Scheduler
from engines.scheduling.sequence import Sequence, SequenceState

MS = 1_000_000


def test_continuous_fills_a_slot_freed_in_step_k_in_step_k_plus_1(bench: Any) -> None:
    target = bench(slots=2)
    for answer in (1, 5, 5):
        target.add(3, answer)

    first, second = target.steps(2)

    assert [p.sequence_id for p in first.prefills] == [0, 1]
    assert [p.sequence_id for p in second.prefills] == [2]
    assert [d.sequence_id for d in second.decodes] == [1]


def test_static_starts_nothing_before_the_whole_batch_has_ended(bench: Any) -> None:
    target = bench("static", slots=2)
    for answer in (1, 3, 1, 1):
        target.add(3, answer)

    plans = target.steps_to_the_end()

    assert [[p.sequence_id for p in plan.prefills] for plan in plans] == [[0, 1], [], [], [2, 3]]
    assert [plan.padded for plan in plans] == [0, 1, 1, 0]


def test_static_waits_for_a_full_batch_for_ever(bench: Any) -> None:
    target = bench("static")
    target.add(3, 1)
    target.scheduler.is_draining = False

    assert target.scheduler.plan(10**15) is None
    assert target.scheduler.wake_ns(10**15) is None


def test_static_starts_a_short_batch_when_no_more_will_come(bench: Any) -> None:
    target = bench("static")
    target.add(3, 1)

    assert target.step().running == 1


def test_dynamic_starts_what_is_there_when_the_oldest_has_waited_50_ms(bench: Any) -> None:
    target = bench("dynamic")
    target.add(3, 1)
    target.scheduler.is_draining = False

    assert target.scheduler.plan(49 * MS) is None
    assert target.scheduler.wake_ns(49 * MS) == 50 * MS
    assert target.scheduler.plan(50 * MS).running == 1


def test_dynamic_does_not_wait_when_the_batch_is_full(bench: Any) -> None:
    target = bench("dynamic", slots=2)
    target.scheduler.is_draining = False
    target.add(3, 1)
    target.add(3, 1)

    assert target.step().running == 2


def test_a_window_may_be_given_to_static_batching_too() -> None:
    target = Scheduler(make_policy("static", 7 * MS), Limits(2, 100))
    target.add(Sequence(0, 3, 1, 0))

    assert target.plan(6 * MS) is None
    plan = target.plan(7 * MS)
    assert plan is not None
    assert plan.running == 1


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown policy 'orca'; choose from static, dynamic"):
        make_policy("orca")


def test_an_end_token_ends_a_sequence_early(bench: Any) -> None:
    target = bench()
    target.add(3, 9)

    target.step(0)

    assert not target.scheduler.has_work


def test_a_sequence_that_can_never_fit_is_refused_when_it_is_added(bench: Any) -> None:
    with pytest.raises(ValueError, match="the whole cache holds 8"):
        bench(kv_blocks=2).add(6, 4)


def test_a_decode_feeds_the_token_that_was_generated_last(bench: Any) -> None:
    target = bench()
    target.add(5, 3)

    assert [d.position for plan in target.steps(3) for d in plan.decodes] == [5, 6]


def test_the_queue_is_counted_in_sequences_and_in_prompt_tokens(bench: Any) -> None:
    target = bench(slots=1)
    for prompt_tokens in (3, 5, 7):
        target.add(prompt_tokens, 2)
    target.step()

    assert (target.scheduler.waiting, target.scheduler.waiting_tokens) == (2, 12)
    target.scheduler.cancel(1)
    assert (target.scheduler.waiting, target.scheduler.waiting_tokens) == (1, 7)


def test_cancelling_a_waiting_sequence_takes_it_out_of_the_queue(bench: Any) -> None:
    target = bench(slots=1)
    _, second, third = (target.add(3, 1) for _ in range(3))
    target.step()

    target.scheduler.cancel(second.id)

    assert second.state is SequenceState.ENDED
    assert [p.sequence_id for p in target.step().prefills] == [third.id]


def test_cancelling_a_decoding_sequence_frees_its_slot_and_blocks_for_the_next_step(
    bench: Any,
) -> None:
    target = bench(slots=1)
    first, second = target.add(3, 9), target.add(3, 9)
    target.step()
    assert first.state is SequenceState.DECODING

    target.scheduler.cancel(first.id)

    assert (first.state, target.scheduler.kv_blocks_used) == (SequenceState.ENDED, 0)
    assert [p.sequence_id for p in target.step().prefills] == [second.id]


def test_cancelling_a_sequence_between_two_chunks_frees_its_blocks(bench: Any) -> None:
    target = bench(step_tokens=8, chunked_prefill=True)
    sequence = target.add(20, 2)
    target.step()
    assert (sequence.state, sequence.stored) == (SequenceState.READING, 8)

    target.scheduler.cancel(sequence.id)

    assert target.scheduler.kv_blocks_used == 0
    assert not target.scheduler.has_work


def test_cancelling_a_preempted_sequence_takes_it_out_of_the_queue(bench: Any) -> None:
    target = bench(kv_blocks=4, capacity="max_utilization")
    first, second = target.add(7, 6), target.add(7, 6)
    while not second.preemptions:
        target.step()

    target.scheduler.cancel(second.id)

    assert second.state is SequenceState.ENDED
    assert target.scheduler.waiting == 0
    target.steps_to_the_end()
    assert first.generated == 6


def test_a_cancelled_sequence_of_a_static_batch_stays_as_padding(bench: Any) -> None:
    target = bench("static", slots=2)
    target.add(3, 9)
    target.add(3, 9)
    target.step()

    target.scheduler.cancel(0)

    assert target.step().padded == 1


def test_a_sequence_cancelled_before_its_prompt_is_read_pads_nothing(bench: Any) -> None:
    target = bench("static", slots=2, step_tokens=4, chunked_prefill=True)
    _, second = target.add(4, 3), target.add(4, 3)
    target.step()
    assert (second.state, second.stored) == (SequenceState.READING, 0)

    target.scheduler.cancel(second.id)

    assert second.state is SequenceState.ENDED
    assert [(plan.running, plan.padded) for plan in target.steps_to_the_end()] == [(1, 0)] * 2


def test_a_static_batch_whose_sequences_are_all_cancelled_is_released(bench: Any) -> None:
    target = bench("static", slots=2)
    target.add(3, 9)
    target.add(3, 9)
    target.step()

    target.scheduler.cancel(0)
    target.scheduler.cancel(1)

    assert (target.scheduler.kv_blocks_used, target.scheduler.held) == (0, ())


def test_cancelling_what_is_padding_or_over_or_unknown_changes_nothing(bench: Any) -> None:
    target = bench("static", slots=2)
    padding, running = target.add(3, 1), target.add(3, 3)
    target.step()
    assert padding.state is SequenceState.PADDING

    for sequence_id in (padding.id, 99):
        target.scheduler.cancel(sequence_id)
    assert padding.state is SequenceState.PADDING

    target.steps_to_the_end()
    target.scheduler.cancel(running.id)
    assert running.generated == 3


def test_prompts_of_a_batch_are_padded_to_its_longest_when_asked(bench: Any) -> None:
    target = bench("static", pad_prompts=True)
    target.add(3, 1)
    target.add(8, 1)

    assert [p.padding_tokens for p in target.step().prefills] == [5, 0]


def test_continuous_batching_never_pads_prompts(bench: Any) -> None:
    target = bench(pad_prompts=True)
    target.add(3, 1)
    target.add(8, 1)

    assert target.step().prefill_padding_tokens == 0


def test_a_padding_row_never_writes_beyond_its_own_blocks(bench: Any) -> None:
    target = bench("static", slots=2)
    target.add(3, 2)
    target.add(3, 6)

    padding = [d for plan in target.steps(6) for d in plan.decodes if d.is_padding]
    assert [d.position for d in padding] == [3] * 4
    assert all(d.position < len(d.blocks) * 4 for d in padding)


@pytest.mark.parametrize("capacity", ["guaranteed_no_evict", "max_utilization"])
def test_a_step_takes_no_more_work_when_ten_thousand_wait(bench: Any, capacity: str) -> None:
    counts = []
    for waiting in (10, 10_000):
        target = bench(capacity=capacity, prefix_cache=True)
        for _ in range(waiting):
            target.add(9, 4, keys="ab")
        calls = 0

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        gc.disable()  # what a collection calls is no work of the scheduler
        sys.setprofile(count)
        try:
            target.steps(4)
        finally:
            sys.setprofile(None)
            gc.enable()
        counts.append(calls)

    assert counts[0] == counts[1]
