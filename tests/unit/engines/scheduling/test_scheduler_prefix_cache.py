"""Prompts that begin alike share the blocks of their beginning."""

from typing import Any


def test_a_prompt_that_begins_like_one_before_it_shares_blocks_and_reads_the_rest(
    bench: Any,
) -> None:
    target = bench(prefix_cache=True)
    first = target.add(10, 9, keys="ab")
    target.step()
    target.add(11, 9, keys="ab")

    plan = target.step()

    (prefill,) = plan.prefills
    assert (prefill.first, prefill.tokens, plan.prefix_hit_tokens) == (8, 3, 8)
    assert prefill.blocks[:2] == first.blocks[:2]
    assert prefill.blocks[2] not in first.blocks


def test_shared_tokens_count_once(bench: Any) -> None:
    target = bench(prefix_cache=True)
    for _ in range(2):
        target.add(10, 9, keys="ab")
        target.step()

    use = target.scheduler.kv_use
    assert (use.used, use.tokens_stored, use.tokens_unfilled) == (4, 8 + 3 + 2, 1 + 2)


def test_nothing_is_shared_unless_asked(bench: Any) -> None:
    target = bench()
    for _ in range(2):
        target.add(10, 9, keys="ab")
        assert target.step().prefix_hit_tokens == 0


def test_a_prompt_that_differs_in_its_first_block_shares_nothing(bench: Any) -> None:
    target = bench(prefix_cache=True)
    target.add(10, 9, keys="ab")
    target.step()
    target.add(10, 9, keys="xb")

    assert target.step().prefix_hit_tokens == 0


def test_one_token_at_least_is_read_though_all_blocks_are_known(bench: Any) -> None:
    target = bench(prefix_cache=True)
    for _ in range(2):
        target.add(8, 9, keys="ab")
        plan = target.step()

    assert [(p.first, p.tokens) for p in plan.prefills] == [(4, 4)]


def test_prompts_of_one_step_cannot_share_what_neither_has_stored(bench: Any) -> None:
    target = bench(prefix_cache=True)
    first, second = (target.add(10, 9, keys="ab") for _ in range(2))

    assert target.step().prefix_hit_tokens == 0
    assert set(first.blocks).isdisjoint(second.blocks)


def test_a_chunk_that_is_stored_can_be_shared_before_the_prompt_is_read(bench: Any) -> None:
    target = bench(slots=2, prefix_cache=True, step_tokens=8, chunked_prefill=True)
    target.add(13, 1, keys="abc")
    target.add(13, 1, keys="abx")

    first, second = target.steps(2)

    assert [(p.sequence_id, p.first, p.tokens) for p in first.prefills] == [(0, 0, 8)]
    assert [(p.sequence_id, p.first, p.tokens) for p in second.prefills] == [(0, 8, 5), (1, 8, 3)]


def test_blocks_of_an_ended_answer_are_free_and_still_found(bench: Any) -> None:
    target = bench(prefix_cache=True, kv_blocks=8)
    target.add(10, 1, keys="ab")
    target.step()

    use = target.scheduler.kv_use
    assert (use.used, use.cached) == (0, 2)
    target.add(10, 1, keys="ab")
    assert target.step().prefix_hit_tokens == 8


def test_a_cached_block_gives_way_when_its_room_is_needed(bench: Any) -> None:
    target = bench(prefix_cache=True, kv_blocks=3)
    target.add(10, 1, keys="ab")
    target.step()
    target.add(12, 1)
    target.step()
    target.add(10, 1, keys="ab")

    plan = target.step()

    assert (plan.prefix_hit_tokens, plan.kv.used) == (0, 3)


def test_tokens_of_answers_are_never_shared(bench: Any) -> None:
    target = bench(prefix_cache=True)
    target.add(4, 9, keys="a")
    target.steps_to_the_end()

    assert target.scheduler.kv_use.cached == 1


def test_a_preempted_sequence_finds_its_own_prompt_again(bench: Any) -> None:
    target = bench(kv_blocks=5, capacity="max_utilization", prefix_cache=True)
    target.add(4, 9, keys="a")
    second = target.add(4, 9, keys="b")
    while not second.preemptions:
        target.step()

    plans = target.steps_to_the_end()

    again = next(plan for plan in plans if plan.prefills)
    assert again.prefix_hit_tokens == 4
    assert [(p.sequence_id, p.first, p.tokens) for p in again.prefills] == [(1, 4, 5)]
    assert second.generated == 9


def test_a_hit_needs_no_room_and_no_budget(bench: Any) -> None:
    target = bench(kv_blocks=7, prefix_cache=True, step_tokens=6)
    target.add(16, 2, keys="abcd")
    target.step()
    target.add(3, 1)
    target.add(18, 1, keys="abcd")

    plan = target.step()

    assert [(p.sequence_id, p.first, p.tokens) for p in plan.prefills] == [(1, 0, 3), (2, 16, 2)]
    assert (plan.running, plan.prefix_hit_tokens, plan.kv.used) == (3, 16, 7)


def test_a_block_is_shared_only_when_all_of_it_is_stored(bench: Any) -> None:
    target = bench(slots=2, prefix_cache=True, step_tokens=6, chunked_prefill=True)
    target.add(8, 1, keys="ab")
    target.add(9, 1, keys="ab")

    first, second = target.steps(2)

    assert [(p.sequence_id, p.first, p.tokens) for p in first.prefills] == [(0, 0, 6)]
    assert [(p.sequence_id, p.first, p.tokens) for p in second.prefills] == [(0, 6, 2), (1, 4, 4)]


def test_who_gives_way_starts_no_sooner_than_in_the_next_step(bench: Any) -> None:
    target = bench(kv_blocks=5, capacity="max_utilization", prefix_cache=True)
    for _ in range(2):
        target.add(8, 9, keys="ab")  # read together, so that nothing is shared yet

    plans = target.steps(3)

    assert [plan.preempted for plan in plans] == [(), (1,), ()]
    assert [len(plan.prefills) for plan in plans] == [2, 0, 1]
    assert plans[2].prefix_hit_tokens == 8
