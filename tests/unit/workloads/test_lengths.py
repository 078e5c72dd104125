"""Distributions of lengths against their closed forms, and the faults of a file that names them."""

from __future__ import annotations

import math
from collections import Counter
from statistics import fmean, median, stdev
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.core.jsonable import from_json
from workloads.lengths import LengthKind, Lengths, Outside, checked, drawer
from workloads.streams import uniforms

SHARES = uniforms(0xCADE, 0, 40_000)


def lengths_of(**fields: Any) -> Lengths:
    return checked(from_json(Lengths, fields), "output")


def drawn(**fields: Any) -> list[int]:
    return list(map(drawer(lengths_of(**fields)), SHARES))


@pytest.mark.parametrize(
    ("cap", "outside", "mean"),
    [
        (32, "resample", 15.6), (128, "resample", 53.7),
        (512, "resample", 118.5), (1536, "resample", 128.0),
        (32, "clamp", 28.3), (128, "clamp", 80.9), (512, "clamp", 125.7), (1536, "clamp", 128.0),
    ],
)  # fmt: skip
def test_exponential_lengths_under_a_cap_have_the_mean_of_the_closed_form(
    cap: int, outside: str, mean: float
) -> None:
    lengths = drawn(kind="exponential", mean=128, most=cap, outside=outside)

    # Lengths are rounded first, so what is kept lies below the cap and a half.
    kept = cap + 0.5 if outside == "resample" else cap
    share = math.exp(-kept / 128)
    exact = 128 - kept * share / (1 - share) if outside == "resample" else 128 * (1 - share)
    assert exact == pytest.approx(mean, abs=0.06)
    assert fmean(lengths) == pytest.approx(exact, rel=0.01)
    assert min(lengths) == 1
    assert max(lengths) <= cap


def test_a_clamped_cap_is_common_and_a_resampled_one_is_not() -> None:
    clamped = Counter(drawn(kind="exponential", mean=128, most=128, outside="clamp"))
    resampled = Counter(drawn(kind="exponential", mean=128, most=128, outside="resample"))

    assert clamped[128] / 40_000 == pytest.approx(math.exp(-1), abs=0.02)
    assert resampled[128] / 40_000 < 0.01


def test_uniform_lengths_have_both_bounds_and_each_length_as_often() -> None:
    """aiperf#850: one tool's ratio of 0.8 means [0.8 L, L], another's [0.2 L, 1.8 L]. Here the
    bounds are named."""
    counts = Counter(drawn(kind="uniform", least=5, most=8))

    assert sorted(counts) == [5, 6, 7, 8]
    assert all(abs(n - 10_000) < 400 for n in counts.values())


def test_normal_lengths_have_their_mean_and_spread() -> None:
    lengths = drawn(kind="normal", mean=500, sd=50, outside="resample")

    assert fmean(lengths) == pytest.approx(500, rel=0.01)
    assert stdev(lengths) == pytest.approx(50, rel=0.02)


def test_normal_lengths_below_the_least_are_drawn_again_by_the_truncated_law() -> None:
    lengths = drawn(kind="normal", mean=100, sd=50, least=100, outside="resample")

    assert min(lengths) == 100
    assert fmean(lengths) == pytest.approx(100 + 50 * math.sqrt(2 / math.pi), rel=0.01)


def test_lognormal_lengths_have_the_mean_and_spread_that_are_named() -> None:
    lengths = drawn(kind="lognormal", mean=300, sd=150)

    assert fmean(lengths) == pytest.approx(300, rel=0.01)
    assert stdev(lengths) == pytest.approx(150, rel=0.03)
    assert median(lengths) == pytest.approx(300 / math.sqrt(1.25), rel=0.01)


def test_zipf_lengths_fall_as_a_power() -> None:
    counts = Counter(drawn(kind="zipf", exponent=1.1, least=1, most=1024))

    total = sum(k**-1.1 for k in range(1, 1025))
    for k in (1, 2, 10):
        assert counts[k] / 40_000 == pytest.approx(k**-1.1 / total, rel=0.1)
    assert max(counts) <= 1024


def test_empirical_lengths_come_as_often_as_they_are_listed() -> None:
    counts = Counter(drawn(kind="empirical", values=[7, 9, 9, 9]))

    assert set(counts) == {7, 9}
    assert counts[9] / 40_000 == pytest.approx(0.75, abs=0.01)


def test_a_fixed_length_is_fixed() -> None:
    assert set(drawn(kind="fixed", tokens=512)) == {512}


@given(
    st.sampled_from(["normal", "lognormal", "exponential"]),
    st.integers(1, 3000),
    st.integers(1, 3000),
    st.sampled_from(list(Outside)),
    st.floats(0, 1, exclude_min=True, exclude_max=True),
)
def test_no_length_lies_outside_its_bounds(
    kind: str, one: int, other: int, outside: Outside, share: float
) -> None:
    least, most = sorted((one, other))
    sd = None if kind == "exponential" else 80.0
    lengths = Lengths(LengthKind(kind), mean=700.0, sd=sd, least=least, most=most, outside=outside)
    try:
        draw = drawer(checked(lengths, "prompt"))
    except ValueError as error:
        assume("lies from" not in str(error))
        raise

    assert least <= draw(share) <= most


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "fixed"}, "key 'output.tokens' is missing; fixed lengths need it"),
        ({"kind": "fixed", "tokens": 0}, "'output.tokens' is 0; it must be 1 or more"),
        ({"kind": "fixed", "tokens": 3, "mean": 3}, "'output.mean' says nothing of fixed"),
        ({"kind": "uniform", "least": 9, "most": 3}, "'output.least' is 9, more than"),
        ({"kind": "normal", "mean": 9, "sd": 3}, "'output.outside' is missing"),
        (
            {"kind": "exponential", "mean": 9, "most": 3},
            "resample or clamp, which are not the same",
        ),
        ({"kind": "exponential", "mean": math.nan}, "'output.mean' is nan"),
        ({"kind": "exponential", "mean": math.inf}, "'output.mean' is inf"),
        ({"kind": "empirical", "values": []}, "'output.values' needs at least one"),
        ({"kind": "empirical", "values": [3, 0]}, "none below 1"),
        ({"kind": "zipf", "exponent": 1, "least": 1, "most": 9**9}, "at most 2\\^20 lengths"),
        ({"kind": "gaussian"}, "'gaussian' is not a valid LengthKind"),
        (
            {"kind": "normal", "mean": 9, "sd": 1, "least": 900, "outside": "resample"},
            "no normal length of mean 9 lies from 900 to any",
        ),
    ],
)
def test_a_faulty_distribution_is_refused_with_its_key(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        lengths_of(**fields)
