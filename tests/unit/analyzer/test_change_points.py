"""E-divisive: its statistic by hand, what it finds in steps, and how often it cries wolf."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise, product
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analyzer.change_points import (
    FALSE_ALARMS,
    LEAST_POINTS,
    LEAST_SIDE,
    PERMUTATIONS,
    change_points,
)

REFERENCE = json.loads((Path(__file__).parent / "statistics_reference.json").read_text())


def seeded(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def noise(seed: int, count: int, spread: float = 0.01) -> np.ndarray:
    return 100 * np.exp(seeded(seed).normal(0, spread, count))


def places(values: object, seed: int = 7) -> list[int]:
    return [point.index for point in change_points(values, seeded(seed))]  # type: ignore[arg-type]


def divergence(left: Sequence[float], right: Sequence[float]) -> float:
    """The scaled energy distance of two samples, straight from its definition."""

    def mean(pairs: Iterable[tuple[float, float]]) -> float:
        return fmean(abs(a - b) for a, b in pairs)

    n, m = len(left), len(right)
    within = mean(combinations(left, 2)) + mean(combinations(right, 2))
    return n * m / (n + m) * (2 * mean(product(left, right)) - within)


@pytest.mark.parametrize(
    ("left", "right", "key"),
    [([1, 1, 1], [5, 5, 5], "[1,1,1,5,5,5] Q(3,6)"), ([0, 1], [10, 11], "[0,1,10,11] Q(2,4)")],
)
def test_the_divergence_is_the_one_worked_out_by_hand(
    left: list[float], right: list[float], key: str
) -> None:
    assert divergence(left, right) == pytest.approx(REFERENCE["e_divisive"][key])


def test_the_reference_series_splits_where_its_divergence_is_greatest() -> None:
    known = REFERENCE["e_divisive"]
    series, best = known["series"], known["best"]

    split = divergence(series[: best["tau"]], series[best["tau"] : best["kappa"]])
    assert split == pytest.approx(best["Q"])
    # Repeated, it is long enough to be looked at: down where it starts again, up in the middle.
    assert places(series * 2) == [8, 14, 22]


def test_a_step_is_found_where_it_is_and_both_ways_of_telling_it_agree() -> None:
    series = [float(v) for v in noise(1, 30)]
    series[17:] = [v * 1.05 for v in series[17:]]

    (point,) = change_points(series, seeded())
    assert point.index == 17
    assert point.p == pytest.approx(1 / (PERMUTATIONS + 1))
    clearest = max(range(5, 26), key=lambda at: divergence(series[:at], series[at:]))
    assert clearest == 17


@pytest.mark.parametrize("seed", range(8))
def test_steps_up_and_down_are_found_to_within_a_run(seed: int) -> None:
    series = noise(seed, 60)
    series[20:40] *= 0.94
    found = places(series)

    assert len(found) == 2
    assert all(abs(seen - true) <= 1 for seen, true in zip(found, (20, 40), strict=True))


def test_with_no_change_a_series_is_split_no_oftener_than_it_says() -> None:
    alarms = sum(bool(places(noise(1000 + seed, 24), seed)) for seed in range(400))

    # 400 series at 1 %: 4 are expected, and 13 or more would come once in 3,000.
    assert FALSE_ALARMS == 0.01
    assert alarms <= 12


def test_heavy_tails_and_outliers_do_not_make_alarms() -> None:
    tails = (np.exp(seeded(s).standard_t(2, 30)) for s in range(100))
    assert sum(bool(places(t)) for t in tails) <= 5

    series = noise(3, 40)
    series[[10, 25]] *= 3
    assert places(series) == []


def test_fewer_points_than_it_needs_are_never_split() -> None:
    step = [100.0] * (LEAST_POINTS // 2) + [200.0] * (LEAST_POINTS // 2)
    assert places(step[1:]) == []
    assert places(step) == [LEAST_POINTS // 2]


def test_equal_values_have_no_change() -> None:
    assert places([5.0] * 50) == []


def test_the_same_series_and_seed_give_the_same_points() -> None:
    series = noise(4, 80)
    series[30:] *= 1.02
    assert change_points(series, seeded()) == change_points(series, seeded())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        change_points([1.0] * 30 + [value], seeded())


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=20, max_size=40),
    st.floats(0.001, 1000),
    st.floats(-100, 100),
)
def test_another_unit_or_origin_moves_no_change_point(
    levels: list[int], factor: float, offset: float
) -> None:
    moved = [level * factor + offset for level in levels]
    found = places(levels)

    assert all(after - before >= LEAST_SIDE for before, after in pairwise([0, *found, len(levels)]))
    assert len(places(moved)) == len(found)
