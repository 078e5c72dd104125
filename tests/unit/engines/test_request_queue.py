"""Who waits for a slot: bounded by count and by prompt tokens, and timed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.serving.generation import QueueFull
from engines.serving.request_queue import QueueLimits, RequestQueue
from harness.core.units import NS_PER_MS, NS_PER_S


def filled(limits: QueueLimits, prompts: list[int], at_ns: int = 0) -> RequestQueue:
    queue = RequestQueue(limits)
    for number, prompt_tokens in enumerate(prompts):
        queue.enter(number, prompt_tokens, at_ns)
    return queue


def test_without_limits_everybody_may_wait() -> None:
    queue = filled(QueueLimits(), [10_000] * 1000)

    assert (len(queue), queue.tokens, queue.rejected) == (1000, 10_000_000, 0)


def test_one_more_than_may_wait_is_rejected_with_the_numbers_and_changes_nothing() -> None:
    queue = filled(QueueLimits(requests=2), [5, 7])

    with pytest.raises(
        QueueFull, match="2 requests wait already, the most that may is 2; ask again in 1 s"
    ):
        queue.enter(2, 9, 0)

    assert (len(queue), queue.tokens, queue.rejected) == (2, 12, 1)


def test_prompts_that_would_be_too_long_together_are_rejected_with_the_numbers() -> None:
    queue = filled(QueueLimits(tokens=20), [5, 7])

    with pytest.raises(
        QueueFull, match="12 prompt tokens wait already; with the 9 .* 21, the most that may is 20"
    ):
        queue.enter(2, 9, 0)
    queue.enter(3, 8, 0)

    assert (len(queue), queue.tokens, queue.rejected) == (3, 20, 1)


def test_a_prompt_over_the_limit_is_taken_when_nobody_else_waits() -> None:
    """Or its sender could come again for ever."""
    queue = filled(QueueLimits(tokens=20), [50])

    with pytest.raises(QueueFull):
        queue.enter(1, 1, 0)
    assert queue.tokens == 50


@pytest.mark.parametrize("leave", ["admit", "give_up"])
def test_who_leaves_makes_room(leave: str) -> None:
    queue = filled(QueueLimits(requests=1, tokens=9), [9])

    queue.admit(0, 5) if leave == "admit" else queue.give_up(0)

    assert (len(queue), queue.tokens) == (0, 0)
    queue.enter(1, 9, 6)


def test_only_the_first_admission_counts_and_only_it_is_timed() -> None:
    queue = filled(QueueLimits(), [3, 4])

    assert queue.admit(0, 30 * NS_PER_MS)
    assert not queue.admit(0, 60 * NS_PER_MS)
    queue.give_up(1)
    queue.give_up(1)

    lines = queue.waited.lines()
    assert 'batchmark_queue_seconds_bucket{le="0.02"} 0' in lines
    assert 'batchmark_queue_seconds_bucket{le="0.05"} 1' in lines
    assert "batchmark_queue_seconds_count 1" in lines
    assert "batchmark_queue_seconds_sum 0.03" in lines


def wait_s(queue: RequestQueue, now_ns: int) -> int:
    with pytest.raises(QueueFull) as raised:
        queue.enter(99_999, 1, now_ns)
    return raised.value.retry_after_s


def test_come_back_when_the_queue_will_be_empty_at_the_present_pace() -> None:
    queue = filled(QueueLimits(requests=4), [1, 1, 1, 1])
    for number in range(3):  # one every 2 s
        queue.admit(number, (number + 1) * 2 * NS_PER_S)
        queue.enter(10 + number, 1, (number + 1) * 2 * NS_PER_S)

    assert wait_s(queue, 6 * NS_PER_S) == 8
    assert wait_s(queue, 7 * NS_PER_S) == 10  # 4 requests at 3 in 7 s: 9.33 s


def test_before_anybody_was_admitted_and_when_all_goes_fast_it_is_a_second() -> None:
    queue = filled(QueueLimits(requests=2), [1, 1])

    assert wait_s(queue, 10 * NS_PER_S) == 1
    queue.admit(0, 10 * NS_PER_S + 1)
    queue.enter(2, 1, 10 * NS_PER_S + 1)
    queue.admit(1, 10 * NS_PER_S + 2)
    queue.enter(3, 1, 10 * NS_PER_S + 2)
    assert wait_s(queue, 10 * NS_PER_S + 3) == 11


def test_the_pace_is_forgotten_once_nobody_waits() -> None:
    queue = filled(QueueLimits(requests=1), [1])
    queue.admit(0, 3600 * NS_PER_S)

    queue.enter(1, 1, 7200 * NS_PER_S)

    assert wait_s(queue, 7201 * NS_PER_S) == 1


def test_the_pace_is_that_of_the_latest_admissions() -> None:
    queue = filled(QueueLimits(requests=2), [1])
    now_ns, number = 0, 0
    for step_s in (100, *[1] * 80):  # one very slow start, then one a second
        now_ns += step_s * NS_PER_S
        queue.enter(number + 1, 1, now_ns)
        queue.admit(number, now_ns)
        number += 1
    queue.enter(number + 1, 1, now_ns)

    assert wait_s(queue, now_ns) == 2


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["enter", "admit", "give_up"]), st.integers(0, 9), st.integers(1, 9)
        )
    ),
    st.one_of(st.none(), st.integers(1, 4)),
    st.one_of(st.none(), st.integers(1, 20)),
)
def test_whatever_happens_the_limits_hold_and_the_tokens_add_up(
    moves: list[tuple[str, int, int]], most: int | None, most_tokens: int | None
) -> None:
    queue = RequestQueue(QueueLimits(most, most_tokens))
    present: dict[int, int] = {}
    said: list[str] = []
    for now_ns, (move, number, prompt_tokens) in enumerate(moves):
        match move:
            case "enter" if number not in present:
                try:
                    queue.enter(number, prompt_tokens, now_ns)
                    present[number] = prompt_tokens
                except QueueFull as full:
                    said.append(f"{full} = {full.retry_after_s}")
            case "admit":
                assert queue.admit(number, now_ns) == (present.pop(number, None) is not None)
            case "give_up":
                queue.give_up(number)
                present.pop(number, None)
        assert len(queue) == len(present)
        assert queue.tokens == sum(present.values())
        assert most is None or len(queue) <= most
        assert most_tokens is None or len(queue) <= 1 or queue.tokens <= most_tokens
    assert len(said) == queue.rejected
    assert all(re.search(r"ask again in ([1-9]\d*) s = \1$", words) for words in said)
