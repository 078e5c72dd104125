from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.analyzer.estimators import welch_ratio
from harness.analyzer.significance import (
    benjamini_hochberg,
    cliffs_delta,
    fisher,
    hodges_lehmann,
    holm,
    kolmogorov_smirnov,
    mann_whitney,
    sign_flip,
)

whole = st.integers(-5, 5).map(float)
p_values = st.lists(st.floats(0, 1), min_size=1, max_size=8)
sides = st.lists(whole, min_size=1, max_size=6)


@given(st.lists(whole, min_size=1, max_size=9))
def test_the_sign_flip_counts_every_way_to_sign(diffs: list[float]) -> None:
    sums = [
        sum(s * abs(d) for s, d in zip(signs, diffs, strict=True))
        for signs in product((-1, 1), repeat=len(diffs))
    ]
    assert sign_flip(diffs) == sum(s >= sum(diffs) for s in sums) / len(sums)


@given(st.lists(st.floats(0.01, 1) | st.floats(-1, -0.01), min_size=2, max_size=11))
def test_the_sign_flip_is_the_permutation_test_of_scipy(diffs: list[float]) -> None:
    oracle = stats.permutation_test(
        (np.array(diffs),), np.sum, permutation_type="samples", alternative="greater"
    )
    assert sign_flip(diffs) == pytest.approx(oracle.pvalue)


def test_five_pairs_are_the_fewest_for_five_percent() -> None:
    assert sign_flip([0.1] * 4) == 1 / 16
    assert sign_flip([0.1] * 5) == 1 / 32


def test_many_pairs_go_over_to_the_normal_limit_without_a_jump() -> None:
    diffs = [0.1 if i % 3 else -0.1 for i in range(40)]
    assert sign_flip([*diffs, 0.05]) == pytest.approx(sign_flip(diffs), abs=0.02)
    assert sign_flip([0.0] * 50) == 1.0


def test_no_differences_are_refused() -> None:
    with pytest.raises(ValueError, match="no differences"):
        sign_flip([])


@given(p_values)
def test_holm_never_helps_and_keeps_the_order(values: list[float]) -> None:
    adjusted = holm(values)
    assert all(p <= a <= 1 for p, a in zip(values, adjusted, strict=True))
    assert min(adjusted) == min(min(values) * len(values), 1.0)
    for (p, a), (q, b) in product(zip(values, adjusted, strict=True), repeat=2):
        assert (p < q) <= (a <= b)


@given(p_values)
def test_false_discovery_is_that_of_scipy(values: list[float]) -> None:
    oracle = stats.false_discovery_control(values)
    assert benjamini_hochberg(values) == pytest.approx(oracle.tolist())


def wins(first: list[float], second: list[float]) -> float:
    """Mann and Whitney's U: how often the first is above the second, a half where they are equal."""
    return sum((a > b) + (a == b) / 2 for a in first for b in second)


@given(sides, sides)
def test_mann_whitney_counts_every_split(first: list[float], second: list[float]) -> None:
    values, middle = [*first, *second], len(first) * len(second) / 2
    away = [
        abs(
            wins(
                [values[i] for i in chosen],
                [value for i, value in enumerate(values) if i not in chosen],
            )
            - middle
        )
        for chosen in combinations(range(len(values)), len(first))
    ]
    expected = sum(a >= away[0] for a in away) / len(away)
    assert mann_whitney(first, second) == pytest.approx(expected)
    assert mann_whitney(second, first) == pytest.approx(expected)


@given(st.lists(st.floats(-1, 1), min_size=9, max_size=9, unique=True))
def test_without_equal_values_mann_whitney_is_that_of_scipy(values: list[float]) -> None:
    oracle = stats.mannwhitneyu(values[:4], values[4:], method="exact")
    assert mann_whitney(values[:4], values[4:]) == pytest.approx(oracle.pvalue)


def test_too_many_splits_are_refused() -> None:
    with pytest.raises(ValueError, match="11 and 11 values have too many splits"):
        mann_whitney([1.0] * 11, [2.0] * 11)


@given(sides, sides, whole)
def test_effects_turn_around_with_the_sides_and_move_with_them(
    first: list[float], second: list[float], shift: float
) -> None:
    assert hodges_lehmann(second, first) == -hodges_lehmann(first, second)
    assert cliffs_delta(second, first) == pytest.approx(-cliffs_delta(first, second))
    moved = [value + shift for value in second]
    assert hodges_lehmann(first, moved) == hodges_lehmann(first, second) + shift


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_failures_are_compared_as_fisher_does(a: int, b: int, c: int, d: int) -> None:
    assume(a + b > 0)
    assume(c + d > 0)
    oracle = stats.fisher_exact([[c, d], [a, b]], alternative="greater")
    assert fisher((a, a + b), (c, c + d)) == pytest.approx(oracle.pvalue, rel=1e-7)


def test_failures_of_large_runs_are_compared_too() -> None:
    assert fisher((0, 200_000), (0, 200_000)) == pytest.approx(1.0)
    assert fisher((0, 200_000), (20, 200_000)) == pytest.approx(0.5**20, rel=1e-3)


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.integers(8, 60), st.integers(8, 60), st.floats(0, 1.5))
def test_kolmogorov_and_smirnov_agree_with_the_exact_test_of_scipy(
    seed: int, m: int, n: int, shift: float
) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=m), rng.normal(shift, 1, size=n)
    exact = stats.ks_2samp(first, second, method="exact").pvalue
    limit = kolmogorov_smirnov(first, second)
    assert exact - 0.04 <= limit <= exact + 0.15
    assert exact <= limit or exact > 0.02  # where it decides, it errs on the careful side
    assert limit < 0.01 or exact > 0.002


def test_equal_samples_have_one_distribution_and_separate_ones_have_not() -> None:
    low, high = list(range(40)), list(range(100, 140))
    assert kolmogorov_smirnov(low, low) == 1.0
    assert kolmogorov_smirnov(low, high) == kolmogorov_smirnov(high, low) < 1e-9
    assert kolmogorov_smirnov([5] * 50, [5] * 30) == 1.0
    with pytest.raises(ValueError, match="no values"):
        kolmogorov_smirnov([], low)


def test_samples_of_one_distribution_part_as_rarely_as_it_says() -> None:
    """Lengths are whole numbers, of which many are equal: then more rarely."""
    rng = np.random.default_rng(1)
    drawn = [rng.integers(1, 300, size=(2, 100)) for _ in range(2000)]
    share = sum(kolmogorov_smirnov(*pair) < 0.01 for pair in drawn) / len(drawn)
    assert 0.002 <= share <= 0.015


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from([1.0, 1.01, 1.5, 3.0]))
def test_what_asks_nothing_of_a_distribution_agrees_with_welch_on_runs(
    seed: int, factor: float
) -> None:
    rng = np.random.default_rng(seed)
    first = np.exp(rng.normal(0, 0.02, 8)).tolist()
    second = (factor * np.exp(rng.normal(0, 0.02, 8))).tolist()
    welch, logs = welch_ratio(first, second), (np.log(first).tolist(), np.log(second).tolist())

    assert hodges_lehmann(*logs) == pytest.approx(np.log(welch.ratio), abs=0.02)
    if factor >= 1.5:
        assert cliffs_delta(first, second) == 1
        assert mann_whitney(first, second) == pytest.approx(2 / 12870)
        assert welch.p < 1e-6
    if mann_whitney(first, second) > 0.5:
        assert welch.p > 0.05
