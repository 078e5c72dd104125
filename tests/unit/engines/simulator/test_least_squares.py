"""Least squares without negative coefficients, by the conditions of its optimum and by scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.simulator.least_squares import (
    Floats,
    columns_told_apart,
    nonnegative_fit,
    robust_fit,
)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Floats, Floats]:
    """Rows of three counts of very unequal size, and values of either sign."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = np.array([1.0, draw(st.floats(1, 50)), draw(st.floats(1, 1e5))])
    features = rng.uniform(0.1, 1, (draw(st.integers(3, 40)), 3)) * sizes
    truth = rng.normal(size=3) / sizes
    return features, features @ truth + rng.normal(size=len(features)) * draw(st.floats(0, 1))


@given(problems())
def test_no_other_coefficients_of_0_or_more_come_closer(problem: tuple[Floats, Floats]) -> None:
    features, values = problem

    found = nonnegative_fit(features, values)

    # The conditions of Karush, Kuhn and Tucker, which the optimum alone meets.
    scaled = features / np.linalg.norm(features, axis=0)
    slope = scaled.T @ (features @ found - values)
    small = 1e-7 * max(float(np.linalg.norm(values)), 1e-9)
    assert (found >= 0).all()
    assert (slope >= -small).all()
    assert (np.abs(slope[found > 0]) <= small).all()


@given(problems())
def test_the_coefficients_are_those_of_scipy(problem: tuple[Floats, Floats]) -> None:
    optimize = pytest.importorskip("scipy.optimize", reason="scipy is not installed")
    features, values = problem
    sizes = np.linalg.norm(features, axis=0)

    expected = optimize.nnls(features / sizes, values)[0]

    small = 1e-6 * max(float(np.abs(expected).max()), 1e-6)
    assert nonnegative_fit(features, values) * sizes == pytest.approx(expected, abs=small)


def test_a_column_of_zeros_gets_nothing() -> None:
    features = np.array([[1.0, 0.0], [2.0, 0.0]])

    assert nonnegative_fit(features, np.array([3.0, 6.0])).tolist() == [3.0, 0.0]


def test_a_constant_column_is_not_told_from_the_first() -> None:
    features = np.array([[1.0, 8.0, 100.0], [1.0, 8.0, 300.0], [1.0, 8.0, 200.0]])

    assert columns_told_apart(features, np.array([5.0, 7.0, 6.0])) == (0, 2)


def test_a_step_that_was_held_up_moves_the_fit_no_further_for_being_held_up_longer() -> None:
    features = np.column_stack([np.ones(40), np.arange(40.0)])
    times = features @ np.array([100.0, 5.0])
    times *= np.random.default_rng(1).normal(1, 0.01, 40)
    longer, longest = times.copy(), times.copy()
    longer[::8] *= 10
    longest[::8] *= 1000

    assert robust_fit(features, longest) == pytest.approx(robust_fit(features, longer), rel=1e-6)
    assert robust_fit(features, longer) == pytest.approx([100, 5], rel=0.02)
