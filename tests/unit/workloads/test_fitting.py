"""Requests that are too long for the context: dropped, or clamped, and every one counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.workload import After, Arrival, Request
from workloads.fitting import fitted
from workloads.importers.losses import Losses


def arrival(
    index: int, prompt: int, answer: int, session: str | None = None, after: int | None = None
) -> Arrival:
    request = Request(index, "", tuple(range(prompt)), answer, session, int(after is not None))
    return Arrival(0, request, None if after is None else After(after, 5))


def lengths(arrivals: list[Arrival]) -> list[tuple[int, int, int]]:
    return [
        (a.request.index, len(a.request.prompt_token_ids), a.request.max_tokens) for a in arrivals
    ]


def counted(losses: Losses) -> list[tuple[str, int, int]]:
    return [(loss.kind.value, loss.rows, loss.first_row) for loss in losses.counted()]


def test_dropped_requests_are_counted_and_the_others_numbered_anew() -> None:
    losses = Losses()
    made = [arrival(0, 5, 5), arrival(1, 96, 5), arrival(2, 95, 5), arrival(3, 200, 1)]

    assert lengths(list(fitted(made, 100, "drop", losses))) == [(0, 5, 5), (1, 95, 5)]
    assert counted(losses) == [("dropped", 2, 2)]


def test_clamped_prompts_keep_their_beginning_and_their_answer() -> None:
    losses = Losses()
    (kept,) = fitted([arrival(0, 200, 40)], 100, "clamp", losses)

    assert kept.request.prompt_token_ids == tuple(range(60))
    assert kept.request.max_tokens == 40
    assert counted(losses) == [("clamped", 1, 1)]


def test_an_answer_that_fills_the_context_leaves_no_prompt_to_clamp() -> None:
    losses = Losses()

    assert list(fitted([arrival(0, 10, 100)], 100, "clamp", losses)) == []
    assert counted(losses) == [("dropped", 1, 1)]


def test_later_turns_go_with_a_turn_that_is_dropped_and_others_wait_for_the_right_one() -> None:
    losses = Losses()
    made = [
        arrival(0, 500, 1),
        arrival(1, 10, 1, "a"),
        arrival(2, 10, 1, "b"),
        arrival(3, 20, 1, "a", after=1),
        arrival(4, 500, 1, "b", after=2),
        arrival(5, 20, 1, "b", after=4),
        arrival(6, 30, 1, "a", after=3),
    ]
    kept = list(fitted(made, 100, "drop", losses))

    assert [(a.request.session, a.after and a.after.index) for a in kept] == [
        ("a", None), ("b", None), ("a", 0), ("a", 2),
    ]  # fmt: skip
    assert counted(losses) == [("dropped", 2, 1), ("dropped", 1, 6)]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), max_size=20),
    st.integers(2, 60),
    st.sampled_from(["drop", "clamp"]),
)
def test_whatever_is_kept_fits_and_whatever_is_not_is_counted(
    sizes: list[tuple[int, int]], context: int, oversize: str
) -> None:
    losses = Losses()
    made = [arrival(i, prompt, answer) for i, (prompt, answer) in enumerate(sizes)]
    kept = list(fitted(made, context, oversize, losses))  # type: ignore[arg-type]

    assert all(prompt + answer <= context and prompt for _, prompt, answer in lengths(kept))
    dropped = sum(rows for kind, rows, _ in counted(losses) if kind == "dropped")
    assert len(kept) + dropped == len(sizes)


@pytest.mark.parametrize("oversize", ["drop", "clamp"])
def test_what_fits_is_left_as_it_was(oversize: str) -> None:
    made = [arrival(0, 10, 1, "a"), arrival(1, 20, 1, "a", after=0)]
    losses = Losses()

    assert list(fitted(made, 100, oversize, losses)) == made  # type: ignore[arg-type]
    assert losses.counted() == ()
