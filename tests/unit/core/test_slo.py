from __future__ import annotations

import pytest

from harness.core.errors import UsageError
from harness.core.slo import SLO_COLUMNS, Slo, parse_seconds, parse_slos


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("2s", 2.0), ("1.5 s", 1.5), (".5s", 0.5), ("250us", 0.00025), ("1min", 60.0)],
)
def test_a_time_has_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["500", "ms", "-1s", "0ms", "1h", "1e3ms", "nan s", "1s2s", "", "9" * 400 + "s"]
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert parse_seconds(text) is None


def test_limits_are_ordered_by_their_latency_whatever_the_order_typed() -> None:
    one, other = ("ttft=500ms", "tpot=50ms"), ("tpot=0.05s", "ttft=.5s")
    assert parse_slos(one) == parse_slos(other) == (Slo("tpot", 0.05), Slo("ttft", 0.5))
    assert parse_slos(()) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [("ttft=500ms", "ttft=500ms"), ("e2e=10s", "e2e=10s"), ("e2e=1min", "e2e=60s")],
)
def test_a_limit_is_said_as_it_may_be_typed(text: str, said: str) -> None:
    (slo,) = parse_slos((text,))
    assert str(slo) == said
    assert parse_slos((str(slo),)) == (slo,)


@pytest.mark.parametrize(
    "text", ["ttft", "ttft=", "ttft=500", "speed=1s", "ttft=0s", "=1s", "ttft_p99=1s"]
)
def test_what_is_no_limit_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_slos((text,))
    assert repr(text) in str(error.value)
    assert all(name in str(error.value) for name in SLO_COLUMNS)


def test_two_limits_on_one_latency_are_refused() -> None:
    with pytest.raises(UsageError, match="two limits on ttft, ttft=100ms and ttft=200ms"):
        parse_slos(("ttft=100ms", "tpot=1s", "ttft=200ms"))
