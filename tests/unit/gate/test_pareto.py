"""The Pareto set, against its definition by brute force."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyzer.metric import Better
from harness.gate.pareto import pareto_set

UP, DOWN = Better.HIGHER, Better.LOWER
POINTS = st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 3.0, math.inf])] * 3), max_size=12)
SENSES = st.tuples(*[st.sampled_from([UP, DOWN])] * 3)


def beats(one: tuple[float, ...], other: tuple[float, ...], better: tuple[Better, ...]) -> bool:
    """Word for word: at least as good in everything, and better in something."""
    wins = [a > b if way is UP else a < b for a, b, way in zip(one, other, better, strict=True)]
    ties = [a == b for a, b in zip(one, other, strict=True)]
    return all(w or t for w, t in zip(wins, ties, strict=True)) and any(wins)


@given(POINTS, SENSES)
def test_the_set_is_what_no_other_point_beats(
    points: list[tuple[float, ...]], better: tuple[Better, ...]
) -> None:
    expected = [i for i, p in enumerate(points) if not any(beats(q, p, better) for q in points)]

    assert pareto_set(points, better) == tuple(expected)


@given(POINTS, SENSES)
def test_every_point_outside_is_beaten_by_one_inside(
    points: list[tuple[float, ...]], better: tuple[Better, ...]
) -> None:
    inside = pareto_set(points, better)

    for i in set(range(len(points))) - set(inside):
        assert any(beats(points[k], points[i], better) for k in inside)


def test_more_throughput_at_more_latency_is_a_choice_and_less_at_more_is_none() -> None:
    points = [(100, 0.1), (180, 0.2), (170, 0.4), (200, 2.0), (200, 2.5)]

    assert pareto_set(points, (UP, DOWN)) == (0, 1, 3)


def test_equal_points_stay_together() -> None:
    assert pareto_set([(1.0, 2.0), (1.0, 2.0)], (UP, DOWN)) == (0, 1)


def test_a_number_that_has_no_better_side_decides_nothing() -> None:
    assert pareto_set([(1.0, 9.0), (2.0, 1.0)], (UP, Better.NEITHER)) == (1,)


def test_no_points_are_no_set() -> None:
    assert pareto_set([], (UP,)) == ()


@pytest.mark.parametrize("point", [(1.0,), (1.0, math.nan)])
def test_a_point_that_lacks_a_number_is_refused(point: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="it needs 2 numbers"):
        pareto_set([point], (UP, DOWN))
