"""The scheduler, one rule a test."""

import pytest

from engines.scheduling.policies import make_policy
from engines.scheduling.scheduler import Limits, Scheduler
from engines.scheduling.sequence import Sequence, SequenceState
from engines.scheduling.step import StepPlan, StepResult

MS = 1_000_000


def scheduler(policy: str, slots: int = 2, kv_blocks: int = 100, **limits: bool) -> Scheduler:
    return Scheduler(make_policy(policy), Limits(slots, kv_blocks, block_tokens=4, **limits))


def add(target: Scheduler, *answers: int, prompt_tokens: int = 3) -> list[Sequence]:
    sequences = [Sequence(i, prompt_tokens, tokens, 0) for i, tokens in enumerate(answers)]
    for sequence in sequences:
        target.add(sequence)
    return sequences


def step(target: Scheduler, now_ns: int = 0, stopped: tuple[int, ...] = ()) -> StepPlan:
    plan = target.plan(now_ns)
    assert plan is not None
    target.commit(plan, StepResult(frozenset(stopped)))
    return plan


def test_continuous_fills_a_slot_freed_in_step_k_in_step_k_plus_1() -> None:
    target = scheduler("continuous")
    add(target, 1, 5, 5)

    first, second = step(target), step(target)

    assert [p.sequence_id for p in first.prefills] == [0, 1]
    assert [p.sequence_id for p in second.prefills] == [2]
    assert [d.sequence_id for d in second.decodes] == [1]


def test_static_starts_nothing_before_the_whole_batch_has_ended() -> None:
    target = scheduler("static")
    add(target, 1, 3, 1, 1)

    plans = [step(target) for _ in range(4)]

    assert [[p.sequence_id for p in plan.prefills] for plan in plans] == [[0, 1], [], [], [2, 3]]
    assert [plan.padded for plan in plans] == [0, 1, 1, 0]


def test_static_waits_for_a_full_batch_for_ever() -> None:
    target = scheduler("static")
    add(target, 1)

    assert target.plan(10**15) is None
    assert target.wake_ns(10**15) is None


def test_static_starts_a_short_batch_when_no_more_will_come() -> None:
    target = scheduler("static")
    add(target, 1)
    target.is_draining = True

    assert step(target).running == 1


def test_dynamic_starts_what_is_there_when_the_oldest_has_waited_50_ms() -> None:
    target = scheduler("dynamic")
    add(target, 1)

    assert target.plan(49 * MS) is None
    assert target.wake_ns(49 * MS) == 50 * MS
    assert step(target, 50 * MS).running == 1


def test_dynamic_does_not_wait_when_the_batch_is_full() -> None:
    target = scheduler("dynamic")
    add(target, 1, 1)

    assert step(target, 0).running == 2


def test_a_window_may_be_given_to_static_batching_too() -> None:
    target = Scheduler(make_policy("static", 7 * MS), Limits(2, 100))
    add(target, 1)

    assert target.plan(6 * MS) is None
    assert step(target, 7 * MS).running == 1


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown policy 'orca'; choose from static, dynamic"):
        make_policy("orca")


def test_zero_slots_are_refused() -> None:
    with pytest.raises(ValueError, match="slots is 0"):
        scheduler("continuous", slots=0)


def test_an_end_token_ends_a_sequence_early() -> None:
    target = scheduler("continuous")
    add(target, 9)

    step(target, stopped=(0,))

    assert not target.has_work


def test_the_head_of_the_queue_waits_for_blocks_and_nobody_overtakes_it() -> None:
    target = scheduler("continuous", slots=3, kv_blocks=4)
    big, small = Sequence(1, 10, 4, 0), Sequence(2, 1, 1, 0)
    target.add(Sequence(0, 5, 2, 0))
    target.add(big)
    target.add(small)

    assert [p.sequence_id for p in step(target).prefills] == [0]
    assert [d.sequence_id for d in step(target).decodes] == [0]
    assert [p.sequence_id for p in step(target).prefills] == [1]


def test_a_sequence_that_can_never_fit_is_refused_with_the_numbers() -> None:
    target = scheduler("continuous", kv_blocks=2)

    with pytest.raises(ValueError, match=r"need 9 tokens of KV cache, the whole cache holds 8"):
        target.add(Sequence(0, 6, 4, 0))


@pytest.mark.parametrize(("prompt_tokens", "max_tokens"), [(0, 1), (1, 0)])
def test_a_sequence_that_asks_for_nothing_is_refused(prompt_tokens: int, max_tokens: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        scheduler("continuous").add(Sequence(0, prompt_tokens, max_tokens, 0))


def test_cancelling_a_running_sequence_frees_its_slot_and_blocks_for_the_next_step() -> None:
    target = scheduler("continuous", slots=1)
    add(target, 9, 9)
    step(target)

    target.cancel(0)

    assert target.kv_blocks_used == 0
    assert [p.sequence_id for p in step(target).prefills] == [1]


def test_cancelling_a_waiting_sequence_takes_it_out_of_the_queue() -> None:
    target = scheduler("continuous", slots=1)
    _, second, third = add(target, 2, 2, 2)
    step(target)

    target.cancel(1)

    assert second.state is SequenceState.ENDED
    assert target.waiting == 1
    step(target)
    assert [p.sequence_id for p in step(target).prefills] == [third.id]


def test_a_cancelled_sequence_of_a_static_batch_stays_as_padding() -> None:
    target = scheduler("static")
    add(target, 9, 9)
    step(target)

    target.cancel(0)

    assert step(target).padded == 1


def test_a_static_batch_whose_sequences_are_all_cancelled_is_released() -> None:
    target = scheduler("static")
    add(target, 9, 9)
    step(target)

    target.cancel(0)
    target.cancel(1)

    assert (target.kv_blocks_used, target.held) == (0, ())


def test_prompts_of_a_batch_are_padded_to_its_longest_when_asked() -> None:
    target = scheduler("static", pad_prompts=True)
    target.add(Sequence(0, 3, 1, 0))
    target.add(Sequence(1, 8, 1, 0))

    assert [p.padding_tokens for p in step(target).prefills] == [5, 0]


def test_continuous_batching_never_pads_prompts() -> None:
    target = scheduler("continuous", pad_prompts=True)
    target.add(Sequence(0, 3, 1, 0))
    target.add(Sequence(1, 8, 1, 0))

    assert step(target).prefill_padding_tokens == 0


def test_a_decode_feeds_the_token_that_was_generated_last() -> None:
    target = scheduler("continuous")
    add(target, 3, prompt_tokens=5)

    plans = [step(target) for _ in range(3)]

    assert [d.position for plan in plans for d in plan.decodes] == [5, 6]


def test_a_padding_row_never_writes_beyond_its_own_blocks() -> None:
    target = scheduler("static")
    add(target, 2, 6, prompt_tokens=3)
    plans = [step(target) for _ in range(6)]

    padding = [d for plan in plans for d in plan.decodes if d.is_padding]
    assert [d.position for d in padding] == [3] * 4
    assert all(d.position < len(d.blocks) * 4 for d in padding)
