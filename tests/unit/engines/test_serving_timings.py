from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.prometheus import parse
from engines.serving.timings import BOUNDS_S, Histogram


def test_bounds_go_from_a_millisecond_to_minutes() -> None:
    assert BOUNDS_S[:4] == (0.001, 0.002, 0.005, 0.01)
    assert BOUNDS_S[-1] == 500.0
    assert list(BOUNDS_S) == sorted(set(BOUNDS_S))


@given(st.lists(st.sampled_from(BOUNDS_S) | st.floats(0, 1000)))
def test_a_bucket_counts_what_took_at_most_its_bound(durations_s: list[float]) -> None:
    histogram = Histogram("h_seconds", "Of the test.")
    for duration_s in durations_s:
        histogram.observe(duration_s)

    samples = {(s.name, s.labels.get("le")): s.value for s in parse("\n".join(histogram.lines()))}

    for bound in BOUNDS_S:
        expected = sum(d <= bound for d in durations_s)
        assert samples["h_seconds_bucket", f"{bound:g}"] == expected
    assert samples["h_seconds_bucket", "+Inf"] == samples["h_seconds_count", None]
    assert samples["h_seconds_count", None] == len(durations_s)
    assert samples["h_seconds_sum", None] == pytest.approx(sum(durations_s))
