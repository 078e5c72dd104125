from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from harness.analyzer.intervals import (
    MOST_PAIRS,
    clopper_pearson,
    noninferiority,
    pairs_needed,
    pass_probability,
    resolvable_margin,
    wilson,
)

diffs = st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=12)
margins = st.floats(0.01, 0.3)


@given(diffs, margins)
def test_the_p_values_are_those_of_a_t_test_against_the_margin(
    values: list[float], margin: float
) -> None:
    assume(max(values) - min(values) > 1e-3)
    found = noninferiority(values, margin)
    for p, side in ((found.p_noninf, "less"), (found.p_fail, "greater")):
        oracle = stats.ttest_1samp(values, math.log1p(margin), alternative=side)
        assert p == pytest.approx(oracle.pvalue, rel=1e-6, abs=1e-12)
        assert found.t == pytest.approx(oracle.statistic)
    bounds = stats.ttest_1samp(values, 0).confidence_interval(0.90)
    assert (found.lo, found.hi) == pytest.approx((bounds.low, bounds.high), abs=1e-9)


@given(diffs, margins)
def test_the_verdict_by_p_is_the_verdict_by_interval(values: list[float], margin: float) -> None:
    assume(max(values) - min(values) > 1e-3)
    found, limit = noninferiority(values, margin), math.log1p(margin)
    assume(min(abs(found.lo - limit), abs(found.hi - limit)) > 1e-9)
    assert (found.p_noninf < 0.05) == (found.hi < limit)
    assert (found.p_fail < 0.05) == (found.lo > limit)


@given(diffs, margins, st.floats(-0.3, 0.3))
def test_a_slower_candidate_moves_the_estimate_by_as_much(
    values: list[float], margin: float, shift: float
) -> None:
    plain = noninferiority(values, margin)
    moved = noninferiority([d + shift for d in values], margin)
    assert moved.d == pytest.approx(plain.d + shift, abs=1e-12)
    assert moved.sd == pytest.approx(plain.sd, abs=1e-12)
    assert moved.resolvable_margin_90 == pytest.approx(plain.resolvable_margin_90, abs=1e-9)


@given(diffs, margins)
def test_swapping_the_sides_turns_the_interval_around(values: list[float], margin: float) -> None:
    there = noninferiority(values, margin)
    back = noninferiority([-d for d in values], margin)
    assert (back.lo, back.d, back.hi) == pytest.approx((-there.hi, -there.d, -there.lo))


@given(diffs, margins, st.randoms())
def test_the_order_of_the_pairs_says_nothing(
    values: list[float], margin: float, rng: object
) -> None:
    shuffled = list(values)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert noninferiority(shuffled, margin) == noninferiority(values, margin)


@pytest.mark.parametrize(("d", "p_noninf"), [(0.0, 0.0), (math.log1p(0.05), 0.5), (0.1, 1.0)])
def test_without_noise_the_difference_itself_decides(d: float, p_noninf: float) -> None:
    found = noninferiority([d] * 5, 0.05)
    assert (found.p_noninf, found.p_fail) == (p_noninf, 1 - p_noninf)
    assert (found.t, found.lo, found.hi) == (None, d, d)
    assert (found.resolvable_margin_90, found.pairs_needed_90) == (0.0, 2)


@pytest.mark.parametrize(
    ("values", "margin"),
    [([0.1], 0.05), ([0.1, math.inf], 0.05), ([0.1, math.nan], 0.05), ([0.1, 0.2], 0.0)],
)
def test_what_says_nothing_of_a_margin_is_refused(values: list[float], margin: float) -> None:
    with pytest.raises(ValueError, match="say nothing about a margin"):
        noninferiority(values, margin)


# Percent: what 5 and 10 pairs can resolve at a standard deviation of 1, 2, 3 and 5 %.
@pytest.mark.parametrize(
    ("n", "expected"), [(5, (1.62, 3.27, 4.95, 8.38)), (10, (1.01, 2.03, 3.06, 5.15))]
)
def test_what_so_many_pairs_resolve_is_what_the_tables_say(
    n: int, expected: tuple[float, ...]
) -> None:
    found = [100 * resolvable_margin(sd, n) for sd in (0.01, 0.02, 0.03, 0.05)]
    assert found == pytest.approx(expected, abs=0.006)


@given(st.floats(0.005, 0.1), st.integers(3, 30))
def test_at_the_margin_that_is_resolved_nine_in_ten_pass(sd: float, n: int) -> None:
    margin = resolvable_margin(sd, n)
    assert pass_probability(sd, n, margin) == pytest.approx(0.90, abs=1e-4)


@given(st.floats(0.001, 0.2), margins)
def test_one_pair_fewer_than_needed_is_not_enough(sd: float, margin: float) -> None:
    n = pairs_needed(sd, margin)
    assume(n is not None and n > 2)
    assert n is not None
    assert pass_probability(sd, n, margin) >= 0.90 > pass_probability(sd, n - 1, margin)


def test_more_pairs_than_anyone_measures_are_none() -> None:
    assert pairs_needed(10.0, 0.01) is None
    assert pairs_needed(0.3, 0.03) is not None
    assert MOST_PAIRS == 1000


@given(st.integers(1, 500), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_intervals_of_a_share_are_those_of_scipy(
    total: int, data: st.DataObject, confidence: float
) -> None:
    count = data.draw(st.integers(0, total))
    test = stats.binomtest(count, total)
    for found, method in (
        (wilson(count, total, confidence), "wilson"),
        (clopper_pearson(count, total, confidence), "exact"),
    ):
        oracle = test.proportion_ci(confidence, method)
        assert (found.lo, found.hi) == pytest.approx((oracle.low, oracle.high), abs=1e-9)
        assert 0 <= found.lo <= count / total <= found.hi <= 1


def test_more_confidence_is_a_wider_interval() -> None:
    for one, two in pairwise((0.5, 0.8, 0.95, 0.99)):
        narrow, wide = wilson(3, 10, one), wilson(3, 10, two)
        assert wide.lo < narrow.lo < 0.3 < narrow.hi < wide.hi
