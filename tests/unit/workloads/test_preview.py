"""What a preview counts: lengths, gaps, burstiness, and how much of the prompts is the same."""

from __future__ import annotations

import random
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.workload import After, Arrival, Request
from workloads.preview import histogram, preview_arrivals, preview_shapes
from workloads.shape import Message, PrefixBlocks, Shape

S = 1_000_000_000


def shapes_due(instants_s: list[float]) -> list[Shape]:
    return [Shape(10, 5, due_ns=round(at * S)) for at in instants_s]


def blocks(*ids: int, tokens: int = 512) -> Shape:
    return Shape(len(ids) * tokens, 1, blocks=PrefixBlocks(ids, tokens))


def test_lengths_have_a_mean_a_deviation_and_percentiles() -> None:
    figures = preview_shapes(Shape(length, 2) for length in (1, 2, 3, 4, 10))

    assert figures.prompt is not None
    assert (figures.prompt.mean, figures.prompt.sd) == (4.0, pytest.approx(10**0.5))
    assert (figures.prompt.least, figures.prompt.percentiles[50], figures.prompt.most) == (1, 3, 10)
    assert figures.output is not None
    assert figures.output.sd == 0.0


def test_constant_gaps_have_no_burstiness_and_poisson_gaps_have_one() -> None:
    rng = random.Random(7)
    poisson = preview_shapes(
        shapes_due(list(accumulate(rng.expovariate(5) for _ in range(20_000))))
    )
    constant = preview_shapes(shapes_due([k / 5 for k in range(20_000)]))

    assert constant.pace is not None
    assert constant.pace.cv == pytest.approx(0, abs=1e-6)
    assert constant.pace.dispersion == {1: 0.0, 10: 0.0, 60: 0.0}
    assert poisson.pace is not None
    assert poisson.pace.cv == pytest.approx(1, abs=0.05)
    assert poisson.pace.rate_rps == pytest.approx(5, rel=0.05)
    assert poisson.pace.dispersion == pytest.approx({1: 1, 10: 1, 60: 1}, abs=0.5)


def test_a_short_trace_has_no_dispersion_in_long_windows() -> None:
    figures = preview_shapes(shapes_due([k / 2 for k in range(60)]))

    assert figures.pace is not None
    assert figures.pace.dispersion[1] is not None
    assert (figures.pace.dispersion[10], figures.pace.dispersion[60]) == (None, None)
    assert figures.pace.peak_to_mean == 1.0


def test_requests_due_at_once_have_no_rate_and_offer_nothing_a_second() -> None:
    figures = preview_shapes(shapes_due([0, 0, 0]))

    assert figures.pace is not None
    assert (figures.pace.rate_rps, figures.pace.cv) == (None, None)
    assert figures.offered_tok_s(figures.prompt_lengths) is None


def test_offered_tokens_are_all_tokens_over_the_span() -> None:
    figures = preview_shapes(shapes_due([0, 1, 2, 4]))

    assert figures.offered_tok_s(figures.prompt_lengths) == 40 / 4


def test_rows_out_of_order_are_counted_as_they_are_due() -> None:
    one, other = (preview_shapes(shapes_due(at)) for at in ([3, 0, 1], [0, 1, 3]))

    assert one.pace is not None
    assert other.pace is not None
    assert one.pace.gaps_s == other.pace.gaps_s


def test_a_block_counts_as_seen_only_after_the_same_beginning() -> None:
    figures = preview_shapes([blocks(1, 2, 3), blocks(1, 2, 4), blocks(9, 2, 3)])

    assert figures.sharing.seen_share == 2 / 9
    assert figures.sharing.distinct_prompts == 3
    assert figures.sharing.block_tokens == 512


def test_the_same_prompt_twice_is_one_distinct_prompt() -> None:
    figures = preview_shapes([blocks(1, 2), blocks(1, 2), Shape(7, 1), Shape(7, 1)])

    assert figures.sharing.distinct_prompts == 3


def test_texts_are_told_apart_but_not_their_tokens() -> None:
    rows = [
        Shape(None, 4, text="a"),
        Shape(None, 4, text="a"),
        Shape(None, None, messages=(Message("user", "a"),)),
    ]
    figures = preview_shapes(rows)

    assert figures.sharing.distinct_prompts == 2
    assert figures.sharing.seen_share is None
    assert (figures.unknown_prompts, figures.unknown_outputs) == (3, 1)
    assert figures.prompt is None


def arrival(index: int, ids: tuple[int, ...], due_ns: int, after: After | None = None) -> Arrival:
    session = "a" if after is not None or index == 0 else None
    return Arrival(due_ns, Request(index, "", ids, 3, session, int(after is not None)), after)


def test_made_requests_share_what_their_tokens_share_in_blocks_of_sixteen() -> None:
    first = tuple(range(40))
    made = [arrival(0, first, 0), arrival(1, first, S), arrival(2, (*range(32), 99), 2 * S)]
    figures = preview_arrivals(made)

    assert figures.sharing.blocks == 9
    assert figures.sharing.seen_share == 5 / 9
    assert figures.sharing.distinct_prompts == 2


def test_later_turns_of_a_session_are_no_arrivals_of_their_own() -> None:
    made = [arrival(0, (1,), 0), arrival(1, (1, 2), 0, After(0, S)), arrival(2, (3,), 4 * S)]
    figures = preview_arrivals(made)

    assert (figures.requests, figures.sessions) == (3, 1)
    assert figures.pace is not None
    assert figures.pace.gaps_s.count == 1


def test_nothing_at_all_is_a_preview_too() -> None:
    figures = preview_shapes([])

    assert (figures.requests, figures.prompt, figures.pace, figures.turns) == (0, None, None, None)
    assert figures.sharing.seen_share is None


@given(st.lists(st.integers(0, 10**15), min_size=2, max_size=50))
def test_any_instants_have_gaps_that_add_up_to_the_span(due_ns: list[int]) -> None:
    figures = preview_shapes(Shape(1, 1, due_ns=due) for due in due_ns)

    assert figures.pace is not None
    gaps = figures.pace.gaps_s
    assert gaps.mean * gaps.count == pytest.approx(figures.pace.span_s)
    assert sum(count for _, _, count in histogram(figures.pace.due_s, 7)) == len(due_ns)
