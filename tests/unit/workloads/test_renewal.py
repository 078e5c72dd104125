"""Gaps of a family: their mean, their spread, and a count that is not biased by where they begin."""

from __future__ import annotations

import random
from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from workloads.renewal import (
    CV_LEAST,
    CV_MOST,
    GapFamily,
    Gaps,
    inverse_weibull_shape,
    renewal_instants_s,
)

# Seconds of the first arrivals.
GOLDEN = {
    GapFamily.GAMMA: [0.395071, 0.605785, 0.608077],
    GapFamily.WEIBULL: [0.32455, 1.059549, 4.320211],
}
FAMILIES = pytest.mark.parametrize("family", list(GapFamily))


@FAMILIES
@pytest.mark.parametrize("cv", [0.2, 1.0, 2.0])
def test_gaps_have_their_rate_and_their_coefficient(family: GapFamily, cv: float) -> None:
    instants = list(renewal_instants_s(Gaps(family, 10.0, cv), 4000.0, random.Random(1)))
    gaps = [after - before for before, after in pairwise(instants)]

    assert all(gap >= 0 for gap in gaps)
    assert fmean(gaps) == pytest.approx(0.1, rel=0.04)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(cv, rel=0.06)


@FAMILIES
@pytest.mark.parametrize("cv", [0.3, 3.0])
def test_a_short_window_has_as_many_arrivals_as_its_rate_says_on_average(
    family: GapFamily, cv: float
) -> None:
    """Begun with a whole gap, windows of 2 gaps would have 6 arrivals with a cv of 3, and 1.5 with
    0.3."""
    rng, gaps = random.Random(2), Gaps(family, 1.0, cv)
    counts = [sum(1 for _ in renewal_instants_s(gaps, 2.0, rng)) for _ in range(3000)]

    assert fmean(counts) == pytest.approx(2.0, abs=4 * pstdev(counts) / 3000**0.5)


@pytest.mark.parametrize("cv", [CV_LEAST, 0.5, 1.0, CV_MOST])
def test_every_coefficient_that_is_allowed_has_a_weibull_shape(cv: float) -> None:
    inverse = inverse_weibull_shape(cv)

    assert 2e-4 < inverse < 49
    assert cv != 1 or inverse == pytest.approx(1.0)


@FAMILIES
@pytest.mark.parametrize("cv", [CV_LEAST, CV_MOST])
def test_the_widest_and_the_narrowest_gaps_end(family: GapFamily, cv: float) -> None:
    instants = list(renewal_instants_s(Gaps(family, 2.0, cv), 100.0, random.Random(3)))

    assert instants == sorted(instants)
    assert all(0 <= at_s < 100 for at_s in instants)


@FAMILIES
def test_a_seed_draws_the_same_instants_always(family: GapFamily) -> None:
    drawn = renewal_instants_s(Gaps(family, 1.0, 2.0), 10.0, random.Random("5/servegen/2"))

    assert [round(at_s, 6) for at_s in drawn][:3] == GOLDEN[family]
