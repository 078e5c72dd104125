"""What a step is made of: its token budget, chunks of prompts, and the order of the two kinds."""

from typing import Any


def chunks(plans: list[Any]) -> list[list[tuple[int, int, int]]]:
    return [[(p.sequence_id, p.first, p.tokens) for p in plan.prefills] for plan in plans]


def decoded(plans: list[Any]) -> list[list[int]]:
    return [[d.sequence_id for d in plan.decodes] for plan in plans]


def test_a_prompt_is_cut_to_the_budget_and_gets_its_first_token_with_the_last_chunk(
    bench: Any,
) -> None:
    target = bench(step_tokens=8, chunked_prefill=True)
    sequence = target.add(20, 2)
    seen = []

    for _ in range(3):
        plan = target.step()
        seen.append((chunks([plan])[0], plan.producing, sequence.generated))

    assert seen == [([(0, 0, 8)], (), 0), ([(0, 8, 8)], (), 0), ([(0, 16, 4)], (0,), 1)]
    assert [d.position for d in target.step().decodes] == [20]


def test_rows_of_decodes_count_against_the_budget(bench: Any) -> None:
    target = bench(step_tokens=8, chunked_prefill=True)
    target.add(4, 9)
    target.add(4, 9)
    target.add(20, 9)

    plans = target.steps(4)

    assert chunks(plans) == [[(0, 0, 4), (1, 0, 4)], [(2, 0, 6)], [(2, 6, 6)], [(2, 12, 6)]]
    assert decoded(plans) == [[], [0, 1], [0, 1], [0, 1]]


def test_a_prompt_that_was_begun_goes_on_before_another_begins(bench: Any) -> None:
    target = bench(step_tokens=8, chunked_prefill=True)
    target.add(12, 1)
    target.add(2, 1)

    assert chunks(target.steps(2)) == [[(0, 0, 8)], [(0, 8, 4), (1, 0, 2)]]


def test_without_chunks_the_budget_bounds_how_many_prompts_begin(bench: Any) -> None:
    target = bench(step_tokens=10)
    for prompt_tokens in (6, 4, 1, 8):
        target.add(prompt_tokens, 1)

    assert chunks(target.steps(2)) == [[(0, 0, 6), (1, 0, 4)], [(2, 0, 1), (3, 0, 8)]]


def test_a_short_prompt_of_a_batch_does_not_overtake_a_long_one_that_has_to_wait(
    bench: Any,
) -> None:
    target = bench("static", slots=3, step_tokens=10)
    for prompt_tokens in (4, 9, 1):
        target.add(prompt_tokens, 3)

    assert chunks(target.steps(3)) == [[(0, 0, 4)], [(1, 0, 9)], [(2, 0, 1)]]


def test_without_chunks_one_prompt_begins_however_long_it_is(bench: Any) -> None:
    target = bench(step_tokens=10)
    target.add(3, 9)
    target.add(50, 1)
    target.add(3, 1)

    plans = target.steps(3)

    assert chunks(plans) == [[(0, 0, 3)], [(1, 0, 50)], [(2, 0, 3)]]
    assert decoded(plans) == [[], [0], [0]]


def test_decode_first_never_lets_an_answer_wait_for_a_prompt(bench: Any) -> None:
    target = bench(step_tokens=8, chunked_prefill=True)
    target.add(4, 9)
    target.step()
    target.add(20, 1)

    assert decoded(target.steps(3)) == [[0]] * 3


def test_prefill_first_lets_answers_wait_while_there_are_prompts_to_read(bench: Any) -> None:
    target = bench(order="prefill_first", step_tokens=8, chunked_prefill=True)
    target.add(4, 3)
    target.step()
    target.add(20, 2)

    plans = target.steps(5)

    assert chunks(plans) == [[(1, 0, 8)], [(1, 8, 8)], [(1, 16, 4)], [], []]
    assert decoded(plans) == [[], [], [], [0, 1], [0]]


def test_prefill_first_decodes_when_no_prompt_finds_memory(bench: Any) -> None:
    target = bench(order="prefill_first", kv_blocks=3)
    target.add(4, 4)
    target.step()
    target.add(8, 1)

    assert decoded([target.step()]) == [[0]]


def test_padding_of_prompts_belongs_to_the_last_chunk_and_stays_in_the_budget(bench: Any) -> None:
    target = bench("static", slots=2, pad_prompts=True, step_tokens=8, chunked_prefill=True)
    target.add(3, 1)
    target.add(12, 1)

    plans = target.steps(3)

    rows = [[(p.tokens, p.padding_tokens, p.is_last) for p in plan.prefills] for plan in plans]
    assert rows == [[(3, 5, True)], [(7, 0, False)], [(5, 0, True)]]
    assert [plan.padded for plan in plans] == [0, 1, 1]


def test_whole_prompts_of_a_batch_are_read_over_several_steps_with_all_their_padding(
    bench: Any,
) -> None:
    target = bench("static", slots=3, pad_prompts=True, step_tokens=25)
    for prompt_tokens in (3, 12, 6):
        target.add(prompt_tokens, 2)

    plans = target.steps(2)

    assert [[p.padding_tokens for p in plan.prefills] for plan in plans] == [[9, 0], [6]]
    assert [len(plan.decodes) for plan in plans] == [0, 2]


def test_a_batch_is_whole_however_many_steps_it_takes_to_read(bench: Any) -> None:
    target = bench("static", slots=2, step_tokens=4, chunked_prefill=True)
    for _ in range(3):
        target.add(4, 1)

    plans = target.steps(4)

    assert chunks(plans) == [[(0, 0, 4)], [(1, 0, 3)], [(1, 3, 1)], [(2, 0, 4)]]
    assert [(plan.padded, plan.waiting) for plan in plans] == [(0, 1), (1, 1), (1, 1), (0, 0)]


def test_an_answer_that_was_preempted_is_read_again_in_chunks(bench: Any) -> None:
    settings = {"step_tokens": 6, "chunked_prefill": True, "capacity": "max_utilization"}
    target = bench(kv_blocks=5, **settings)
    target.add(4, 9)
    second = target.add(4, 9)
    while not second.preemptions:
        target.step()
    known = second.known

    plans = target.steps_to_the_end()

    again = [p for plan in plans for p in plan.prefills]
    assert [p.is_last for p in again] == [False] * (len(again) - 1) + [True]
    assert len(again) > 1
    assert sum(p.tokens for p in again) == known
    assert second.generated == 9
