"""The beginning that runs leave out when they are held against each other: the same one of each."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as with_settings
from hypothesis import strategies as st

from harness.analyzer.experiment import shared_cut_s, summarize_alike
from harness.analyzer.frame import frame_of
from harness.analyzer.rates import Window, steady_window
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import Summary
from harness.core.cautions import Code
from harness.core.imported import DEFINITIONS
from harness.core.jsonable import from_json, to_json
from harness.core.rundir import RunFolder
from harness.core.slo import parse_slos
from harness.core.stages import parse_stages
from harness.core.workload import Load, LoadKind

UNCUT_LOADS = (
    Load(LoadKind.BACKLOG),
    Load(LoadKind.CLOSED, concurrency=2),
    Load(LoadKind.STAGES, stages=parse_stages("1:10")),
    Load(LoadKind.REPLAY, speed=2.0),
)


def alike(*folders: RunFolder) -> tuple[Summary, ...]:
    return summarize_alike(folders, [summarize(folder) for folder in folders])


def codes(summary: Summary) -> set[str]:
    return {doubt.code for doubt in summary.cautions}


def test_a_run_knows_when_it_had_settled_and_alone_leaves_nothing_out(settling: Any) -> None:
    found = summarize(settling(slow=20))

    assert (found.settled_s, found.cut_s, found.left_out) == (2.0, 0.0, 0)
    assert found.value("ttft_s_max") == pytest.approx(0.040)
    assert Code.BEGINNING_LEFT_OUT not in codes(found)


def test_what_one_side_has_to_hide_is_left_out_of_both(settling: Any) -> None:
    slow, level = alike(settling(slow=20), settling())

    for found in (slow, level):
        assert (found.cut_s, found.left_out) == (2.0, 20)
        assert found.value("ttft_s_max") == found.value("ttft_s_p50") == pytest.approx(0.010)
        (said,) = [c for c in found.cautions if c.code == Code.BEGINNING_LEFT_OUT]
        assert said.message == "latencies and rates leave out 20 of 200 requests: the first 2.0 s"
    assert slow.value("e2e_s_mean") == pytest.approx(level.value("e2e_s_mean"))


def test_without_a_slow_beginning_nothing_changes(settling: Any) -> None:
    runs = [settling(), settling(speed=2.0)]
    alone = [summarize(run) for run in runs]

    assert all(cut is run for cut, run in zip(summarize_alike(runs, alone), alone, strict=True))


def test_a_series_that_never_settles_asks_for_no_cut(build: Any, settling: Any) -> None:
    run = settling()
    rising = [
        replace(r, events_ns=tuple(at + 5_000 * r.index for at in r.events_ns))
        for r in run.requests
    ]

    assert summarize(replace(run, requests=tuple(rising))).settled_s == 0.0


@pytest.mark.parametrize("load", UNCUT_LOADS, ids=lambda load: load.kind.value)
def test_a_load_without_a_steady_state_is_never_cut(settling: Any, load: Load) -> None:
    run = settling(slow=20, load=load)

    found = summarize(run, cut_s=5.0)
    assert (found.settled_s, found.cut_s, found.left_out) == (0.0, 0.0, 0)
    assert found == summarize(run)


def test_virtual_time_and_few_requests_ask_for_no_cut(settling: Any) -> None:
    assert summarize(settling(slow=20, clock="virtual")).settled_s == 0.0
    assert summarize(settling(slow=20, requests=99)).settled_s == 0.0


def test_a_cut_that_was_declared_holds_for_all(settling: Any) -> None:
    runs = [settling(slow=20), settling()]
    summaries = [summarize(runs[0]), summarize(runs[1], cut_s=3.05)]

    assert [run.left_out for run in summarize_alike(runs, summaries)] == [31, 31]


def test_rates_begin_at_the_cut(settling: Any) -> None:
    run = settling(slow=20)

    assert steady_window(frame_of(run, cut_s=2.0)) == Window(2.0, pytest.approx(19.9))
    # The last of 200 is due when the window ends, so 179 of the 180 that are left end in it.
    assert summarize(run, cut_s=2.0).value("request_s") == pytest.approx(179 / 17.9)


def test_failures_and_goodput_count_every_request(build: Any, settling: Any) -> None:
    run = settling()
    failed = tuple(
        replace(build.failed(i), due_ns=r.due_ns, sent_ns=r.sent_ns, closed_ns=r.sent_ns)
        if i < 20
        else r
        for i, r in enumerate(run.requests)
    )
    manifest = replace(
        run.manifest,
        slos=parse_slos(("ttft=500ms",)),
        counts=replace(run.manifest.counts, ok=180, failed=20),
    )

    found = summarize(replace(run, requests=failed, manifest=manifest), cut_s=2.0)
    assert found.value("failure_rate") == pytest.approx(0.1)
    assert found.value("goodput_frac") == pytest.approx(0.9)
    assert found.value("output_tokens") == 360
    assert found.value("ttft_s_p90") == pytest.approx(0.010)  # else among the failed


def test_how_late_requests_were_sent_is_no_latency(settling: Any) -> None:
    run = settling()
    late = replace(run.requests[0], sent_ns=run.requests[0].due_ns + 7_000_000)
    run = replace(run, requests=(late, *run.requests[1:]))

    assert summarize(run, cut_s=2.0).value("send_lag_s_max") == pytest.approx(0.007)


def test_the_interval_of_a_percentile_is_of_what_is_left(settling: Any) -> None:
    found = summarize(settling(slow=20), cut_s=2.0)

    (ttft,) = [value for value in found.values if value.metric == "ttft_s_p50"]
    assert ttft.ci_within is not None
    assert ttft.ci_within.n_eff <= 180
    assert ttft.ci_within.hi == pytest.approx(0.010)


def test_gaps_between_chunks_are_those_of_what_is_left(settling: Any) -> None:
    assert summarize(settling(slow=20)).value("inter_chunk_s_p90") == pytest.approx(0.010)
    slow = settling(slow=30)
    assert summarize(slow).value("inter_chunk_s_p90") == pytest.approx(0.040)
    assert summarize(slow, cut_s=3.0).value("inter_chunk_s_p90") == pytest.approx(0.010)


def test_too_few_requests_that_are_left_have_no_percentile(settling: Any) -> None:
    found = summarize(settling(requests=400), cut_s=3.3)

    (p99,) = [value for value in found.values if value.metric == "ttft_s_p99"]
    assert p99.reason == "367 requests cannot support p99 (368 needed)"


def test_a_cut_after_the_end_leaves_reasons(settling: Any) -> None:
    found = summarize(settling(), cut_s=60.0)

    reasons = {value.metric: value.reason for value in found.values}
    assert reasons["ttft_s_p50"] == "n/a (0 samples): no request has such a value"
    assert reasons["output_tok_s"] == "no request is due after the cut at 60.0 s"
    assert found.value("failure_rate") == 0.0


def test_turns_and_sessions_that_began_before_the_cut_are_left_out(settling: Any) -> None:
    run = settling(slow=20)
    talks = [replace(r, session=f"s{r.index // 2}", turn=r.index % 2) for r in run.requests]

    found = summarize(replace(run, requests=tuple(talks)), cut_s=2.0)
    assert found.sessions is not None
    assert [turn.requests for turn in found.sessions.turns] == [90, 90]
    # Each begins 100 ms before its second turn, which takes 20 ms.
    assert found.sessions.durations[1].value == pytest.approx(0.120)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"labels": {DEFINITIONS: "vllm"}}, "run-2 cannot be cut, a result of another tool"),
        ({"load": Load(LoadKind.BACKLOG)}, "run-2 cannot be cut, as its load is backlog"),
    ],
)
def test_beside_a_run_that_cannot_be_cut_none_is_and_that_is_said(
    settling: Any, changes: dict[str, Any], why: str
) -> None:
    slow, level, other = alike(settling(slow=20), settling(), settling(run_id="run-2", **changes))

    assert [run.cut_s for run in (slow, level, other)] == [0.0, 0.0, 0.0]
    (said,) = [c for c in slow.cautions if c.code == Code.BEGINNING_KEPT]
    assert said.message == f"the first 2.0 s of run-1, not settled, stay in: {why}"
    assert Code.BEGINNING_KEPT not in codes(level) | codes(other)


def test_a_summary_is_the_same_after_it_was_stored_and_an_old_one_loads(settling: Any) -> None:
    found = summarize(settling(slow=20), cut_s=2.0)
    stored = json.loads(json.dumps(to_json(found), allow_nan=False))
    assert from_json(Summary, stored) == found

    for key in ("settled_s", "cut_s", "left_out"):
        del stored[key]
    assert from_json(Summary, stored) == replace(found, settled_s=0.0, cut_s=0.0, left_out=0)


@with_settings(max_examples=8)
@given(st.lists(st.integers(0, 10), min_size=1, max_size=3))
def test_the_cut_is_the_largest_and_is_taken_once(settling: Any, batches: list[int]) -> None:
    runs = [settling(slow=5 * n, requests=120) for n in batches]
    alone = [summarize(run) for run in runs]
    cut = summarize_alike(runs, alone)

    assert {run.cut_s for run in cut} == {max(run.settled_s for run in alone)} == {max(batches) / 2}
    assert len({run.left_out for run in cut}) == 1
    assert shared_cut_s(cut) == shared_cut_s(alone)
    assert summarize_alike(runs, cut) == cut
