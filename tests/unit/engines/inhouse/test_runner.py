from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from engines.inhouse import runner as module
from engines.inhouse.runner import Runner
from engines.scheduling.step import Decode, KvUse, Prefill, StepPlan

PROMPT = (5, 80, 3, 44, 9)
OTHER = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)


def plan(prefills: Sequence[Prefill] = (), decodes: Sequence[Decode] = ()) -> StepPlan:
    return StepPlan(1, tuple(prefills), tuple(decodes), 4, 0, KvUse(0, 32, 0, 0, 0))


def answer(runner: Runner, tokens: int, padding: int = 0) -> list[int]:
    """`tokens` tokens of sequence 1, whose prompt is PROMPT, alone in each step."""
    blocks = tuple(range(8))
    made = runner.execute(plan([Prefill(1, 0, len(PROMPT), padding, blocks)])).token_ids[1]
    answer = [made]
    for position in range(len(PROMPT), len(PROMPT) + tokens - 1):
        answer.append(runner.execute(plan(decodes=[Decode(1, position, blocks)])).token_ids[1])
    return answer


def test_prompt_padding_changes_no_token(tiny: Any) -> None:
    plain, padded = tiny.runner(), tiny.runner()
    for runner in (plain, padded):
        runner.add(1, PROMPT)

    assert answer(plain, 10) == answer(padded, 10, padding=7)


def test_a_padding_row_is_computed_and_its_token_thrown_away(tiny: Any) -> None:
    alone, together = tiny.runner(), tiny.runner()
    for runner in (alone, together):
        runner.add(1, PROMPT)
        runner.add(2, OTHER)
        runner.execute(plan([Prefill(1, 0, 5, 0, (0, 1, 2)), Prefill(2, 0, 11, 0, (3, 4, 5))]))
    decode = Decode(1, 5, (0, 1, 2))
    ended = Decode(2, 10, (3, 4, 5), is_padding=True)

    output = together.execute(plan(decodes=[decode, ended]))

    assert output.token_ids == alone.execute(plan(decodes=[decode])).token_ids


def test_prompts_and_decodes_of_one_step_do_not_meet(tiny: Any) -> None:
    runner = tiny.runner()
    runner.add(1, PROMPT)
    expected = answer(runner, 3)
    runner.forget(1)
    runner.add(1, PROMPT)
    runner.add(2, OTHER)
    blocks = (3, 20, 7)
    made = [runner.execute(plan([Prefill(1, 0, 5, 0, blocks)])).token_ids[1]]
    mixed = plan([Prefill(2, 0, 11, 0, (9, 1, 30))], [Decode(1, 5, blocks)])
    made.append(runner.execute(mixed).token_ids[1])
    made.append(runner.execute(plan(decodes=[Decode(1, 6, blocks)])).token_ids[1])

    assert made == expected


def test_prompts_that_are_cut_into_passes_give_the_same_tokens(
    tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefills = [
        Prefill(1, 0, 5, 0, (0, 1)),
        Prefill(2, 0, 11, 0, (2, 3, 4)),
        Prefill(3, 0, 5, 0, (5, 6)),
    ]
    whole, cut = tiny.runner(), tiny.runner()
    for runner in (whole, cut):
        for sequence_id, prompt in ((1, PROMPT), (2, OTHER), (3, PROMPT)):
            runner.add(sequence_id, prompt)
    expected = whole.execute(plan(prefills)).token_ids
    monkeypatch.setattr(module, "_PASS_ROWS", 6)

    assert cut.execute(plan(prefills)).token_ids == expected
    assert expected[1] == expected[3]


@pytest.mark.parametrize("cuts", [(1,), (4,), (8,), (1, 2, 3), (3, 9), (5, 6, 10)])
def test_a_prompt_in_chunks_gives_the_token_of_the_whole_with_its_last_one(
    tiny: Any, cuts: tuple[int, ...]
) -> None:
    whole, cut = tiny.runner(), tiny.runner()
    for runner in (whole, cut):
        runner.add(1, OTHER)
        runner.add(2, PROMPT)
    blocks = (9, 3, 30)
    expected = whole.execute(plan([Prefill(1, 0, 11, 0, blocks)])).token_ids
    edges = (0, *cuts, 11)
    made = [
        cut.execute(
            plan([Prefill(1, first, last - first, 0, blocks, is_last=last == 11)])
        ).token_ids
        for first, last in pairwise(edges)
    ]

    assert made == [{}] * len(cuts) + [expected]


def test_after_a_preemption_the_answer_so_far_is_read_again(tiny: Any) -> None:
    runner = tiny.runner()
    runner.add(1, PROMPT)
    expected = answer(runner, 6)
    again = tiny.runner()
    again.add(1, PROMPT)
    made = answer(again, 3)
    elsewhere = (20, 21, 22)

    output = again.execute(plan([Prefill(1, 0, len(PROMPT) + 3, 0, elsewhere)]))

    assert [*made, output.token_ids[1]] == expected[:4]


def test_an_end_token_stops_its_sequence_unless_it_is_ignored(tiny: Any) -> None:
    free = tiny.runner()
    free.add(1, PROMPT)
    first, second = answer(free, 2)
    runner = tiny.runner(eos_ids=(second,))
    runner.add(1, PROMPT)
    runner.add(2, PROMPT, ignore_eos=True)
    runner.execute(plan([Prefill(1, 0, 5, 0, (0, 1)), Prefill(2, 0, 5, 0, (2, 3))]))

    output = runner.execute(plan(decodes=[Decode(1, 5, (0, 1)), Decode(2, 5, (2, 3))]))

    assert first != second
    assert output.token_ids == {1: second, 2: second}
    assert output.result.stopped == {1}


def test_a_step_without_prompts_spends_no_time_on_them(tiny: Any) -> None:
    runner = tiny.runner()
    runner.add(1, PROMPT)

    prefill = runner.execute(plan([Prefill(1, 0, 5, 0, (0, 1))]))
    decode = runner.execute(plan(decodes=[Decode(1, 5, (0, 1))]))

    assert prefill.prefill_ns > 0 == prefill.decode_ns
    assert decode.decode_ns > 0 == decode.prefill_ns


def test_a_forgotten_sequence_is_unknown(tiny: Any) -> None:
    runner = tiny.runner()
    runner.add(1, PROMPT)
    runner.forget(1)
    runner.forget(1)

    assert runner.sequence_ids == ()
    with pytest.raises(KeyError):
        runner.execute(plan([Prefill(1, 0, 5, 0, (0, 1))]))
