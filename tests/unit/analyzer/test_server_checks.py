"""The engine's own account of a run against the client's: each check agrees, disagrees, or skips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.frame import frame_of
from harness.analyzer.server_checks import prefix_hits, token_totals
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import Check, CheckVerdict, Summary
from harness.core.engine import EngineSample
from harness.core.manifest import RunStatus
from harness.core.record import Outcome
from harness.core.rundir import RunFolder
from harness.core.units import ms_to_ns
from harness.core.workload import Load, LoadKind

PASS, WARN, SKIPPED = CheckVerdict.PASS, CheckVerdict.WARN, CheckVerdict.SKIPPED
BEFORE_MS, AFTER_MS = -20, 20_100


def at(ms: float, **values: Any) -> EngineSample:
    return EngineSample(ms_to_ns(ms), **values)


def run_of(build: Any, samples: Sequence[EngineSample], **changes: Any) -> RunFolder:
    """Four requests at once, of 10 prompt tokens and 2 tokens, that end after 5, 10, 15 and 20 s."""
    records = [build.record(i, (100, 5000 * (i + 1))) for i in range(4)]
    return replace(build.run(records, **changes), samples=tuple(samples))


def check(summary: Summary, check_id: str) -> Check:
    return next(check for check in summary.checks if check.id == check_id)


def checked(build: Any, samples: Sequence[EngineSample], check_id: str) -> Check:
    return check(summarize(run_of(build, samples)), check_id)


def ends(**counters: tuple[Any, Any]) -> list[EngineSample]:
    """A sample before the run and one after it, of counters before and after."""
    return [
        at(ms, **{name: values[i] for name, values in counters.items()})
        for i, ms in enumerate((BEFORE_MS, AFTER_MS))
    ]


def gauges(extra: float = 0.0) -> list[EngineSample]:
    """Forty readings of an engine that runs two at most; `extra` requests are not ours."""
    samples = []
    for ms in range(500, 20_500, 500):
        ours = 4 - min(ms // 5000, 4)
        samples.append(at(ms, running=min(ours, 2.0), waiting=max(ours - 2.0, 0) + extra))
    return samples


# ---- V14: in flight


def test_v14_the_engines_count_is_held_against_littles_law(build: Any) -> None:
    """4 requests of 12.5 s within 20 s: 2.5 in flight; at the 40 readings it is 2.4."""
    found = checked(build, gauges(), "V14")
    assert found.verdict is PASS
    assert found.value == "engine 2.40, client 2.40 at 40 readings (N W / T is 2.50)"


@pytest.mark.parametrize(
    ("extra", "verdict", "why"),
    [
        (0.5, PASS, ""),  # a fifth more, but half a request is not looked at
        (0.6, WARN, "the engine has requests that are not ours"),
        (-0.6, WARN, "requests wait where the engine does not count them"),
    ],
)
def test_v14_another_count_is_a_doubt(
    build: Any, extra: float, verdict: CheckVerdict, why: str
) -> None:
    found = checked(build, gauges(extra), "V14")
    assert found.verdict is verdict
    assert found.value.endswith(why)


def test_v14_a_tenth_is_allowed_of_many(build: Any) -> None:
    def found(extra: float) -> CheckVerdict:
        records = [build.record(i, (100, 20_000)) for i in range(40)]
        samples = [at(ms, running=40.0, waiting=extra) for ms in range(0, 20_000, 500)]
        run = replace(build.run(records), samples=tuple(samples))
        return check(summarize(run), "V14").verdict

    assert (found(4.0), found(4.1)) == (PASS, WARN)


def test_v14_needs_ten_readings_during_the_run(build: Any) -> None:
    early = [at(-ms, running=9.0, waiting=9.0) for ms in range(1, 40)]
    found = checked(build, [*early, *gauges()[:9]], "V14")
    assert (found.verdict, found.value) == (
        SKIPPED,
        "9 readings of the engine are too few (10 needed)",
    )


def test_v14_of_a_closed_loop_stays_the_clients_own(build: Any) -> None:
    load = Load(LoadKind.CLOSED, concurrency=4)
    found = check(summarize(run_of(build, gauges(9.0), load=load)), "V14")
    assert found.title == "client fills its slots"


# ---- V16: token totals


@pytest.mark.parametrize(
    ("prompt", "generated", "verdict"),
    [
        (40.0, 8.0, PASS),
        (41.0, 8.0, WARN),  # somebody else's prompt
        (39.0, 8.0, WARN),
        (40.0, 9.0, WARN),
        (40.0, 7.0, WARN),
    ],
)
def test_v16_totals_must_agree(
    build: Any, prompt: float, generated: float, verdict: CheckVerdict
) -> None:
    samples = ends(
        prompt_tokens_total=(500.0, 500.0 + prompt),
        generation_tokens_total=(64.0, 64.0 + generated),
    )
    found = checked(build, samples, "V16")
    assert found.verdict is verdict
    assert found.value.endswith(
        f"engine counted {prompt:.0f} prompt tokens (client 40) and "
        f"{generated:.0f} generated tokens (client 8)"
    )


@pytest.mark.parametrize(("counted", "verdict"), [(40.0, PASS), (34.0, PASS), (33.0, WARN)])
def test_v16_prompt_tokens_that_were_cached_need_not_be_counted(
    build: Any, counted: float, verdict: CheckVerdict
) -> None:
    records = [build.record(i, (100, 20_000), cached_tokens=3) for i in range(2)]
    records += [build.record(2 + i, (100, 20_000)) for i in range(2)]
    samples = ends(prompt_tokens_total=(0.0, counted))
    frame = frame_of(replace(build.run(records), samples=tuple(samples)))
    assert token_totals(frame).verdict is verdict


def test_v16_without_the_engines_totals_says_why_and_judges_the_rest(build: Any) -> None:
    found = checked(build, [], "V16")
    assert found.verdict is PASS
    assert found.value.endswith(
        "engine's totals not compared: the engine gave no readings of itself"
    )


def test_v16_what_a_failed_request_made_is_not_known(build: Any) -> None:
    records = [build.record(0, (100, 20_000)), build.failed(1)]
    samples = ends(prompt_tokens_total=(0.0, 20.0))
    found = token_totals(frame_of(replace(build.run(records), samples=tuple(samples))))
    assert found.verdict is SKIPPED
    assert found.value == "engine's totals not compared: 1 request(s) did not end well"


def test_v16_a_run_that_did_not_come_to_its_end_may_lack_records(build: Any) -> None:
    run = run_of(build, ends(prompt_tokens_total=(0.0, 99.0)), status=RunStatus.INTERRUPTED)
    found = token_totals(frame_of(run))
    assert found.verdict is SKIPPED
    assert found.value.endswith("the run did not come to its end")


def test_v16_a_client_that_was_told_no_counts_compares_none(build: Any) -> None:
    records = [build.record(0, (100, 20_000), prompt_tokens=None)]
    samples = ends(prompt_tokens_total=(0.0, 20.0))
    found = token_totals(frame_of(replace(build.run(records), samples=tuple(samples))))
    assert found.value.endswith("the client was not told all prompt tokens")


# ---- V18: prefix hits


@pytest.mark.parametrize(("hits", "verdict"), [(100, PASS), (104, PASS), (105, WARN), (180, WARN)])
def test_v18_hits_of_a_cache_that_was_declared_off_are_a_doubt(
    build: Any, hits: float, verdict: CheckVerdict
) -> None:
    """F02: hits from 100 to 180 while queries go from 1000 to 1400 are 20 %; below 1 % is noise."""
    samples = ends(
        prefix_hit_tokens_total=(100.0, float(hits)),
        prefix_query_tokens_total=(1000.0, 1400.0),
    )
    found = prefix_hits(frame_of(run_of(build, samples)))
    assert found.verdict is verdict
    share = (hits - 100) / 400
    assert found.value == f"engine found {share:.1%} of 400 tokens in its cache"


def test_v18_hits_of_a_cache_that_was_declared_on_are_none(build: Any) -> None:
    samples = ends(prefix_hit_tokens_total=(0.0, 80.0), prefix_query_tokens_total=(0.0, 100.0))
    engine = replace(build.manifest().engine, prefix_cache=True)
    assert prefix_hits(frame_of(run_of(build, samples, engine=engine))).verdict is PASS


def test_v18_a_counter_that_fell_claims_nothing(build: Any) -> None:
    samples = [
        *ends(prefix_hit_tokens_total=(100.0, 180.0), prefix_query_tokens_total=(1000.0, 1400.0)),
        at(AFTER_MS + 1, prefix_hit_tokens_total=2.0, prefix_query_tokens_total=5.0),
    ]
    found = prefix_hits(frame_of(run_of(build, samples)))
    assert found.verdict is SKIPPED
    assert "a counter of the engine fell" in found.value


def test_v18_no_query_is_no_hit(build: Any) -> None:
    samples = ends(prefix_hit_tokens_total=(1.0, 1.0), prefix_query_tokens_total=(5.0, 5.0))
    assert prefix_hits(frame_of(run_of(build, samples))).verdict is PASS


# ---- V22 and V23: the engine's histograms


def timed(mean_ms: float, count: int = 4, name: str = "ttft_s") -> list[EngineSample]:
    """A histogram that took in `count` requests of `mean_ms` on average, after 3 of the warm-up."""
    before = {"0.05": 1.0, "0.5": 3.0, "+Inf": 3.0}
    after = {"0.05": 1.0, "0.5": 3.0 + count, "+Inf": 3.0 + count}
    sums = (0.9, 0.9 + count * mean_ms / 1e3)
    return ends(**{f"{name}_buckets": (before, after), f"{name}_sum": sums})


@pytest.mark.parametrize(
    ("engine_ms", "verdict"),
    [
        (100, PASS),
        (95.1, PASS),  # 4.9 ms more: below 5 ms nothing is said
        (94.0, PASS),  # 6 ms more, but 6.4 %
        (90.0, WARN),  # 10 ms more, 11 %
        (101.0, PASS),  # 1 ms below the engine: clocks are read at other points
        (102.1, WARN),  # the client cannot be faster than the engine
    ],
)
def test_v22_the_client_sees_a_little_more_than_the_engine(
    build: Any, engine_ms: float, verdict: CheckVerdict
) -> None:
    assert checked(build, timed(engine_ms), "V22").verdict is verdict


def test_v22_says_both_means_what_lies_between_and_where_the_buckets_differ(build: Any) -> None:
    found = checked(build, timed(96.0), "V22")
    assert found.value == (
        "mean: engine 96.00 ms, client 100.00 ms, so 4.00 ms (4.2%) network and client; "
        "the same shares in each bucket"
    )
    shifted = [replace(s, ttft_s_buckets={**s.ttft_s_buckets, "0.05": 1.0 + i}) for i, s in
               enumerate(timed(96.0)) if s.ttft_s_buckets is not None]  # fmt: skip
    assert checked(build, shifted, "V22").value.endswith(
        "; within 0.05 s: engine 25.0%, client 0.0%"
    )


def test_v23_is_the_same_of_whole_answers(build: Any) -> None:
    """The client's last tokens come after 12.5 s on average."""
    found = checked(build, timed(12_498.0, name="e2e_s"), "V23")
    assert (found.verdict, found.title) == (PASS, "end-to-end agrees with the engine's")
    assert found.value.startswith("mean: engine 12498.00 ms, client 12500.00 ms, so 2.00 ms (0.0%)")
    assert checked(build, timed(11_000.0, name="e2e_s"), "V23").verdict is WARN


def test_v22_times_of_other_peoples_requests_are_not_compared(build: Any) -> None:
    found = checked(build, timed(100, count=5), "V22")
    assert found.verdict is SKIPPED
    assert found.value == "the engine timed 5 requests, the client 4"


def test_v22_only_requests_that_ended_well_are_the_clients(build: Any) -> None:
    records = [build.record(i, (100, 20_000)) for i in range(4)]
    records.append(build.record(4, (900, 20_000), outcome=Outcome.CANCELLED))
    run = replace(build.run(records), samples=tuple(timed(100)))
    assert check(summarize(run), "V22").verdict is PASS


def test_v22_counts_from_sending_as_the_engine_cannot_know_when_a_request_was_due(
    build: Any,
) -> None:
    records = [build.record(i, (1100, 20_000), sent_ms=1000) for i in range(4)]
    run = replace(build.run(records), samples=tuple(timed(100)))
    assert check(summarize(run), "V22").verdict is PASS


@pytest.mark.parametrize("check_id", ["V14", "V22", "V23"])
def test_without_readings_nothing_is_checked_and_the_reason_is_said(
    build: Any, check_id: str
) -> None:
    for samples in ([], [at(ms) for ms in range(0, 20_000, 500)]):
        found = checked(build, samples, check_id)
        assert (found.verdict, found.value) == (SKIPPED, "the engine gave no readings of itself")


def test_an_engine_that_lacks_one_thing_says_which(build: Any) -> None:
    samples = [at(ms, running=1.0) for ms in range(0, 20_000, 500)]
    summary = summarize(run_of(build, samples))
    assert check(summary, "V14").value == "the engine does not say its waiting requests"
    assert check(summary, "V22").value == "the engine does not say its times to first token"
    assert check(summary, "V23").value == "the engine does not say its end-to-end times"


def test_simulated_runs_have_no_server(build: Any) -> None:
    summary = summarize(run_of(build, gauges(9.0), clock="virtual"))
    assert {check(summary, i).verdict for i in ("V14", "V22", "V23")} == {SKIPPED}


def test_none_of_these_checks_can_spoil_a_run(build: Any) -> None:
    samples = [
        *ends(
            prompt_tokens_total=(0.0, 9e9),
            prefix_hit_tokens_total=(0.0, 9e9),
            prefix_query_tokens_total=(0.0, 9e9),
        ),
        *gauges(99.0),
    ]
    summary = summarize(run_of(build, sorted(samples, key=lambda s: s.at_ns)))
    assert {check(summary, i).verdict for i in ("V14", "V16", "V18")} == {WARN}
    assert summary.validity.value == "WARN"
