"""What `--slo` and `--share` mean, and what is refused."""

from __future__ import annotations

import pytest

from harness.analyzer.intervals import wilson
from harness.core.errors import UsageError
from harness.core.objectives import Objective, parse_objectives
from harness.core.slo import Slo


def test_a_percentile_is_a_share_of_requests() -> None:
    (found,) = parse_objectives(["ttft_p99=2s"], None)

    assert found == Objective("ttft_p99=2s", (Slo("ttft", 2.0),), 0.99)


@pytest.mark.parametrize("word", ["tpot_p50=50ms", "tpot_s_p50 = 50 ms", "tpot_p50=0.05s"])
def test_a_metric_may_be_called_as_in_tables_or_short(word: str) -> None:
    (found,) = parse_objectives([word], None)

    assert found.title == "tpot_p50=50ms"
    assert found.slos == (Slo("tpot", 0.05),)
    assert found.share == 0.5


def test_limits_of_single_requests_hold_together() -> None:
    found = parse_objectives(["ttft=500ms", "e2e_p90=3s", "tpot=50ms"], 0.95)

    assert [objective.title for objective in found] == [
        "e2e_p90=3s",
        "95 % of requests within tpot=50ms and ttft=500ms",
    ]
    assert found[1].share == 0.95


def test_ninety_nine_of_a_hundred_must_meet_them_by_default() -> None:
    assert parse_objectives(["ttft=2s"], None)[0].share == 0.99


@pytest.mark.parametrize("word", ["failure_rate=1%", "failure_rate=0.01"])
def test_failures_are_a_share_too(word: str) -> None:
    (found,) = parse_objectives([word], None)

    assert found.title == "failure_rate=1%"
    assert found.slos == ()
    assert found.share == pytest.approx(0.99)


@pytest.mark.parametrize("percent", [50, 90, 95, 99])
def test_as_many_requests_as_needed_show_it_and_one_fewer_do_not(percent: int) -> None:
    (objective,) = parse_objectives([f"ttft_p{percent}=1s"], None)
    n = objective.requests_needed

    assert wilson(n, n).lo >= objective.share > wilson(n - 1, n - 1).lo


WRONG = [
    ([], None, "no --slo is given"),
    (["ttft_mean=2s"], None, "'ttft_mean=2s'"),
    (["itl_p99=2s"], None, "'itl_p99=2s'"),
    (["ttft_p0=2s"], None, "p1 to p99"),
    (["ttft_p100=2s"], None, "'ttft_p100=2s'"),
    (["ttft_p99=2"], None, "ttft"),
    (["ttft_p99=0s"], None, "ttft"),
    (["ttft_p99"], None, "ttft"),
    (["=2s"], None, "'=2s'"),
    (["failure_rate=1s"], None, "as 0.01 or 1%"),
    (["failure_rate=1"], None, "as 0.01 or 1%"),
    (["failure_rate=0%"], None, "as 0.01 or 1%"),
    (["ttft_p99=2s", "ttft_p99=1s"], None, "bounds ttft_p99 twice"),
    (["ttft=2s", "ttft=1s"], None, "two limits on ttft"),
    (["ttft=2s"], 1.0, "--share is 1"),
    (["ttft=2s"], 99.0, "--share is 99"),
    (["ttft_p99=2s"], 0.99, "no --slo bounds a single request"),
]


@pytest.mark.parametrize(("words", "share", "part"), WRONG, ids=[str(w[:2]) for w in WRONG])
def test_what_is_wrong_is_named(words: list[str], share: float | None, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_objectives(words, share)

    assert part in str(caught.value)
    assert "\n" not in str(caught.value)
