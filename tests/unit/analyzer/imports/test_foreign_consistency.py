"""A file against itself: what adds up passes, and each thing that does not is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.analyzer.imports.consistency import counted_failures, doubtful_units, faults_of
from harness.analyzer.imports.result import Claim, Result, Row, TokenKind
from harness.core.record import Outcome
from harness.core.workload import Load, LoadKind


def claim(quantity: str, statistic: str, value: float) -> Claim:
    return Claim(quantity, statistic, value, f"{statistic}_{quantity}", "s")


# 100 requests of 10 tokens in 50 s, 8 at once: 2 requests a second, 20 tokens a second.
WHOLE = Result(
    tokens=TokenKind.SERVER,
    load=Load(LoadKind.CLOSED, concurrency=8),
    claims=(
        claim("ttft_s", "min", 0.5),
        claim("ttft_s", "mean", 1.0),
        claim("ttft_s", "p50", 0.9),
        claim("ttft_s", "p99", 2.0),
        claim("ttft_s", "max", 2.5),
        claim("e2e_s", "mean", 3.7),
        claim("tpot_s", "mean", 0.3),
        claim("output_tok_s", "", 20.0),
        claim("request_s", "", 2.0),
    ),
    planned=100,
    completed=100,
    failed=0,
    duration_s=50.0,
    output_tokens=1000,
    concurrency=8,
)


def with_claim(quantity: str, statistic: str, value: float) -> Result:
    others = (c for c in WHOLE.claims if (c.quantity, c.statistic) != (quantity, statistic))
    return replace(WHOLE, claims=(*others, claim(quantity, statistic, value)))


def test_a_file_that_adds_up_has_no_fault() -> None:
    assert faults_of(WHOLE) == ()
    assert doubtful_units(WHOLE) == ()


@pytest.mark.parametrize(
    ("quantity", "statistic", "value", "part"),
    [
        ("ttft_s", "p50", 2.1, "p50_ttft_s is 2.1, more than p99_ttft_s, 2"),
        ("ttft_s", "p99", 2.6, "p99_ttft_s is 2.6, more than max_ttft_s"),
        ("ttft_s", "mean", 2.6, "mean_ttft_s is 2.6, more than max_ttft_s"),
        ("ttft_s", "min", 1.1, "mean_ttft_s is 1, less than min_ttft_s"),
        ("ttft_s", "min", -0.1, "less than nothing"),
        ("e2e_s", "mean", 0.9, "longer than mean_e2e_s"),
        ("e2e_s", "mean", 60.0, "and the run took 50 s"),
        ("e2e_s", "mean", 5.0, "latency times rate is 10 requests in flight, and 8 were allowed"),
        ("output_tok_s", "", 25.0, "1000 over 50 s is 20"),
        ("request_s", "", 2.5, "100 over 50 s is 2"),
        ("total_tok_s", "", 19.0, "less than the output tokens alone"),
    ],
)
def test_each_contradiction_is_named(
    quantity: str, statistic: str, value: float, part: str
) -> None:
    assert any(part in fault for fault in faults_of(with_claim(quantity, statistic, value)))


def test_more_ended_than_were_sent() -> None:
    assert "101 requests ended of 100" in faults_of(replace(WHOLE, failed=1))[0]


def test_equal_statistics_are_in_order() -> None:
    flat = tuple(claim("ttft_s", word, 1.0) for word in ("min", "mean", "p50", "p90", "p99", "max"))

    assert faults_of(replace(WHOLE, claims=flat)) == ()


def test_a_rate_that_counts_failed_requests_is_seen_and_is_no_contradiction() -> None:
    """80 ended well, 20 failed; 2 a second over 50 s are all 100."""
    counting = replace(WHOLE, completed=80, failed=20, output_tokens=1000)

    assert counted_failures(counting) == 20
    assert faults_of(counting) == ()
    assert counted_failures(WHOLE) is None


@pytest.mark.parametrize("factor", [1000, 1 / 1000])
@pytest.mark.parametrize("quantity", ["e2e_s", "ttft_s"])
def test_a_thousand_times_off_is_a_unit(quantity: str, factor: float) -> None:
    value = next(c.value for c in WHOLE.claims if (c.quantity, c.statistic) == (quantity, "mean"))
    found = doubtful_units(with_claim(quantity, "mean", value * factor))

    # A first token far too early does not show beside a long answer.
    assert bool(found) is not (quantity == "ttft_s" and factor < 1)


def test_requests_that_are_not_those_of_the_summary_are_a_fault() -> None:
    rows = tuple(
        Row(Outcome.OK, ttft_s=1.5, e2e_s=3.7, prompt_tokens=5, output_tokens=10)
        for _ in range(100)
    )

    faults = faults_of(replace(WHOLE, rows=rows))

    assert faults == ("mean_ttft_s is 1 s, the mean of its requests is 1.5 s",)
    fewer = tuple(replace(row, ttft_s=1.0, output_tokens=5) for row in rows)
    assert "its requests have 500" in faults_of(replace(WHOLE, rows=fewer))[0]
