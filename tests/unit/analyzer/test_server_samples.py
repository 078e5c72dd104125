"""What the engine said of itself: which readings count for a run, and what its counters rose by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyzer.flow import in_flight_at
from harness.analyzer.frame import RunFrame, frame_of
from harness.analyzer.measures import Unmeasured
from harness.analyzer.reading import read_run
from harness.analyzer.server_samples import Timings, gauge_table, rise, timings
from harness.analyzer.summarize import summarize
from harness.core.engine import EngineSample
from harness.core.rundir import ENGINE_SAMPLES
from harness.core.units import ms_to_ns


def at(ms: float, **values: Any) -> EngineSample:
    return EngineSample(ms_to_ns(ms), **values)


def frame(build: Any, *samples: EngineSample) -> RunFrame:
    """A run of one request, sent at 100 ms, that ends at 1000 ms."""
    run = build.run([build.record(0, (500, 1000), sent_ms=100)])
    return frame_of(replace(run, samples=samples))


def counted(*values_at: tuple[float, float | None]) -> list[EngineSample]:
    return [at(ms, preemptions_total=value) for ms, value in values_at]


def test_a_counter_rises_from_the_last_reading_before_to_the_first_after(build: Any) -> None:
    samples = counted((-20, 3.0), (90, 5.0), (500, 7.0), (1000, 9.0), (1500, 20.0))
    assert rise(frame(build, *samples), "preemptions_total") == 4.0


def test_readings_that_failed_are_passed_over(build: Any) -> None:
    samples = counted((-20, 3.0), (90, None), (500, None), (1000, None), (1500, 4.0))
    assert rise(frame(build, *samples), "preemptions_total") == 1.0


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        ([], "the engine gave no readings of itself"),
        (counted((-20, None), (1500, None)), "the engine gave no readings of itself"),
        ([at(-20, running=1.0), at(1500)], "the engine does not say its preemptions"),
        (
            counted((-20, None), (500, 1.0), (1500, 2.0)),
            "the engine was not read before the first request and after the last",
        ),
        (
            counted((-20, 1.0), (500, 2.0)),
            "the engine was not read before the first request and after the last",
        ),
        (
            counted((-20, 5.0), (500, 1.0), (1500, 9.0)),
            "a counter of the engine fell: it was started again meanwhile",
        ),
    ],
)
def test_a_counter_that_does_not_tell_is_not_measured(
    build: Any, samples: list[EngineSample], reason: str
) -> None:
    assert rise(frame(build, *samples), "preemptions_total") == Unmeasured(reason)


def test_a_run_without_requests_has_no_span(build: Any) -> None:
    run = replace(build.run([]), samples=tuple(counted((-20, 1.0), (1500, 2.0))))
    assert isinstance(rise(frame_of(run), "preemptions_total"), Unmeasured)


def test_a_histogram_gives_the_mean_and_the_share_of_each_bucket(build: Any) -> None:
    before = {"0.1": 2.0, "1.0": 2.0, "+Inf": 2.0}
    after = {"0.1": 3.0, "1.0": 5.0, "+Inf": 6.0}
    found = timings(
        frame(
            build,
            at(-20, e2e_s_buckets=before, e2e_s_sum=0.5),
            at(1500, e2e_s_buckets=after, e2e_s_sum=4.5),
        ),
        "e2e_s",
    )
    assert found == Timings(4.0, 1.0, {0.1: 0.25, 1.0: 0.75})


def test_a_histogram_that_took_nothing_in_has_no_mean(build: Any) -> None:
    same = {"e2e_s_buckets": {"0.1": 2.0, "+Inf": 2.0}, "e2e_s_sum": 0.1}
    found = timings(frame(build, at(-20, **same), at(1500, **same)), "e2e_s")
    assert found == Unmeasured("the engine timed no request")


def histogram(values: list[float]) -> dict[str, Any]:
    bounds = {"0.5": 0.5, "5.0": 5.0, "+Inf": float("inf")}
    buckets = {name: float(sum(v <= bound for v in values)) for name, bound in bounds.items()}
    return {"e2e_s_buckets": buckets, "e2e_s_sum": float(sum(values))}


TIMES_S = st.lists(st.floats(0.001, 20.0), max_size=20)


@given(run=TIMES_S.filter(bool), earlier=TIMES_S)
def test_what_came_before_the_run_does_not_count(
    build: Any, run: list[float], earlier: list[float]
) -> None:
    samples = at(-20, **histogram(earlier)), at(1500, **histogram([*earlier, *run]))
    found = timings(frame(build, *samples), "e2e_s")
    assert isinstance(found, Timings)
    assert found.requests == len(run)
    assert found.mean_s == pytest.approx(np.mean(run))
    assert found.shares == {b: pytest.approx(np.mean(np.array(run) <= b)) for b in (0.5, 5.0)}


@given(
    spans=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=20),
    instants=st.lists(st.integers(-5, 110), max_size=20),
)
def test_in_flight_is_from_the_start_to_before_the_end(
    spans: list[tuple[int, int]], instants: list[int]
) -> None:
    starts = np.array([a for a, _ in spans], dtype=np.int64)
    ends = np.array([a + length for a, length in spans], dtype=np.int64)
    found = in_flight_at(starts, ends, np.array(instants, dtype=np.int64))
    assert found.tolist() == [sum(a <= t < a + n for a, n in spans) for t in instants]


def metric(build: Any, name: str, *samples: EngineSample) -> tuple[float | None, str | None]:
    run = build.run([build.record(0, (500, 1000), sent_ms=100)])
    values = summarize(replace(run, samples=samples)).values
    return next((v.value, v.reason) for v in values if v.metric == name)


def test_gauges_are_metrics_over_the_readings_during_the_run(build: Any) -> None:
    samples = [
        at(0, running=9.0, kv_share=0.9),
        at(500, running=1.0, kv_share=0.5),
        at(1000, running=0.0, kv_share=0.7, preemptions_total=None),
        at(1500, running=9.0, kv_share=0.9),
    ]
    assert metric(build, "running_mean", *samples) == (0.5, None)
    assert metric(build, "kv_share_max", *samples) == (0.7, None)
    assert metric(build, "preemptions", *samples) == (
        None,
        "the engine does not say its preemptions",
    )
    assert metric(build, "preemptions", *counted((0, 1.0), (1000, 4.0))) == (3.0, None)


def test_a_run_between_two_readings_has_no_gauge(build: Any) -> None:
    samples = at(0, running=1.0), at(1500, running=1.0)
    assert metric(build, "running_mean", *samples) == (
        None,
        "no reading of the engine fell into the run",
    )


def test_the_gauges_over_time_have_gaps_where_nothing_was_said() -> None:
    table = gauge_table([at(-20, running=1.0, kv_share=0.5), at(500), at(1000, waiting=2)])
    assert table["at_s"].tolist() == [-0.02, 0.5, 1.0]
    assert table["running"].isna().tolist() == [False, True, True]
    assert table.iloc[2].isna().tolist() == [False, True, False, True]
    assert list(gauge_table([])) == ["at_s", "running", "waiting", "kv_share"]


def test_the_file_is_read_up_to_its_last_whole_line(build: Any, tmp_path: Path) -> None:
    folder = build.folder(tmp_path / "run", build.run([build.record(0)]))
    (folder / ENGINE_SAMPLES).write_text(
        '{"at_ns":-20,"running":1.0,"ttft_s_buckets":{"+Inf":2},"gpu":{"0.power_w":90}}\n'
        '{"at_ns":500000000}\n'
        '{"at_ns":1000000000,"running":NaN}\n'
        '{"at_ns":1500000000,"walking":1}\n'
        '{"at_ns":2000000000,"running":3'
    )
    found = read_run(folder)
    assert found.samples == (
        EngineSample(-20, running=1.0, ttft_s_buckets={"+Inf": 2.0}, gpu={"0.power_w": 90.0}),
        EngineSample(500_000_000),
    )
    assert [doubt.code for doubt in found.cautions] == ["BAD_LINE", "BAD_LINE", "CUT_LAST_LINE"]


def test_a_folder_from_before_the_engine_was_read_has_no_samples(
    build: Any, tmp_path: Path
) -> None:
    folder = build.folder(tmp_path / "run", build.run([build.record(0)]))
    found = read_run(folder)
    assert (tuple(found.samples), found.cautions) == ((), ())
