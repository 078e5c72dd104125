from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.summarize import summarize
from harness.analyzer.summary import CheckVerdict, Summary, Validity
from harness.core.cautions import Code, caution
from harness.core.manifest import Counts, RunStatus
from harness.core.record import Outcome, TokenSource
from harness.core.workload import Load, LoadKind

PASS, WARN, INVALID, SKIPPED = (
    CheckVerdict.PASS,
    CheckVerdict.WARN,
    CheckVerdict.INVALID,
    CheckVerdict.SKIPPED,
)
CLOSED = Load(LoadKind.CLOSED, concurrency=2)


def verdict(summary: Summary, check_id: str) -> CheckVerdict:
    return next(check.verdict for check in summary.checks if check.id == check_id)


def value(summary: Summary, check_id: str) -> str:
    return next(check.value for check in summary.checks if check.id == check_id)


def codes(summary: Summary) -> set[str]:
    return {caution.code for caution in summary.cautions}


def test_a_good_run_is_valid(build: Any) -> None:
    records = [build.record(i, (10_000, 20_000)) for i in range(368)]
    summary = build.summary(records, [build.step()])
    assert {check.verdict for check in summary.checks} == {PASS, SKIPPED}
    skipped = [check.id for check in summary.checks if check.verdict is SKIPPED]
    of_this_run = ["V08", "V09", "V11", "V12", "V13"]  # a backlog, and no facts about the client
    of_this_engine = ["V14", "V18", "V19", "V21", "V22", "V23"]  # no counters, no GPU, no burn-in
    assert skipped == of_this_run + of_this_engine
    assert summary.validity is Validity.VALID
    assert summary.cautions == ()


def test_the_checks_are_named_once_each(build: Any) -> None:
    ids = [check.id for check in build.summary([]).checks]
    assert ids == [f"V{number:02}" for number in range(1, 24)]


def test_a_record_written_twice_is_found(build: Any) -> None:
    summary = build.summary([build.record(0), build.record(0)])
    assert verdict(summary, "V01") is INVALID
    assert "request 0 is recorded 2 times" in value(summary, "V01")
    assert summary.validity is Validity.INVALID


def test_a_request_without_a_record_is_found(build: Any) -> None:
    run = [build.record(0), build.record(1)]
    summary = build.summary(run, counts=Counts(planned=3, sent=3, ok=3))
    assert verdict(summary, "V01") is INVALID
    assert "2 recorded as ok, 3 counted" in value(summary, "V01")


def test_a_request_without_an_outcome_is_found(build: Any) -> None:
    summary = build.summary([build.record(0)], counts=Counts(planned=2, sent=2, ok=1))
    assert verdict(summary, "V01") is INVALID
    assert "1 of 2 sent have no outcome" in value(summary, "V01")


def test_a_killed_run_has_no_counts_to_hold_its_records_against(build: Any) -> None:
    summary = build.summary([build.record(0)], counts=Counts(planned=2), status=RunStatus.RUNNING)
    assert verdict(summary, "V01") is PASS
    assert verdict(summary, "V03") is INVALID
    assert "RUN_NOT_CLOSED" in codes(summary)


def test_accounting_in_words(build: Any) -> None:
    summary = build.summary([build.record(0), build.failed(1)])
    assert value(summary, "V01") == "2 sent = 1 ok + 1 failed + 0 cancelled + 0 unfinished"


@pytest.mark.parametrize(
    "changes",
    [
        {"sent_ns": -1},
        {"first_byte_ns": 99_999_999_999},
        {"events_ns": (110_000_000, 100_000_000)},
        {"closed_ns": 1},
        {"due_ns": 1},
    ],
)
def test_instants_out_of_order_make_a_run_invalid(build: Any, changes: dict[str, Any]) -> None:
    summary = build.summary([build.record(0), replace(build.record(1), **changes)])
    assert verdict(summary, "V02") is INVALID
    assert value(summary, "V02") == "1 record(s) out of order, the first is request 1"


def test_equal_instants_are_in_order(build: Any) -> None:
    assert verdict(build.summary([build.record(0, (0, 0))]), "V02") is PASS


def test_a_closed_loop_has_no_due_instant_to_hold_to(build: Any) -> None:
    record = replace(build.record(0, (100, 110), sent_ms=50), due_ns=10**12)
    assert verdict(build.summary([record], load=CLOSED), "V02") is PASS


@pytest.mark.parametrize("status", [RunStatus.INTERRUPTED, RunStatus.FAILED, RunStatus.RUNNING])
def test_a_run_that_did_not_end_by_itself_is_invalid(build: Any, status: RunStatus) -> None:
    summary = build.summary([build.record(0)], status=status)
    assert verdict(summary, "V03") is INVALID


def test_an_interrupted_run_says_how_far_it_came(build: Any) -> None:
    counts = Counts(planned=4, sent=1, ok=1)
    summary = build.summary([build.record(0)], counts=counts, status=RunStatus.INTERRUPTED)
    assert value(summary, "V03") == "interrupted, 1 of 4 sent"
    message = next(c.message for c in summary.cautions if c.code == "RUN_INTERRUPTED")
    assert message == "the run was interrupted: 1 of 4 requests had been sent"


@pytest.mark.parametrize(
    ("sent", "expected"), [(200, PASS), (198, PASS), (197, WARN), (196, WARN), (195, INVALID)]
)
def test_sent_is_held_against_planned(build: Any, sent: int, expected: CheckVerdict) -> None:
    records = [build.record(i) for i in range(sent)]
    summary = build.summary(records, counts=Counts(planned=200, sent=sent, ok=sent))
    assert verdict(summary, "V07") is expected


@pytest.mark.parametrize(("requests", "expected"), [(367, WARN), (368, PASS)])
def test_withheld_percentiles_are_listed(build: Any, requests: int, expected: CheckVerdict) -> None:
    summary = build.summary([build.record(i) for i in range(requests)])
    assert verdict(summary, "V05") is expected
    assert ("ttft_s_p99" in value(summary, "V05")) == (expected is WARN)
    assert "ttft_s_p90" not in value(summary, "V05")


def test_percentiles_that_no_size_would_give_are_not_withheld(build: Any) -> None:
    one_token = [build.record(i, (100,)) for i in range(368)]
    assert verdict(build.summary(one_token), "V05") is PASS


@pytest.mark.parametrize(
    ("lag_ms", "ttft_ms", "expected"),
    [
        (10, 10_000, PASS),
        (11, 10_000, WARN),
        (0.9, 10, PASS),
        (2, 102, WARN),
        (6, 127, WARN),
        (6, 120, INVALID),
    ],
)
def test_a_late_client_is_judged_by_what_it_did_to_ttft(
    build: Any, lag_ms: float, ttft_ms: float, expected: CheckVerdict
) -> None:
    records = [build.record(i, (ttft_ms, ttft_ms + 10), sent_ms=lag_ms) for i in range(6)]
    summary = build.summary(records)
    assert verdict(summary, "V06") is expected
    assert ("CLIENT_LAGGED" in codes(summary)) == (expected is not PASS)


def test_send_lag_does_not_apply_to_closed_loops_and_virtual_time(build: Any) -> None:
    records = [build.record(i, sent_ms=90) for i in range(6)]
    assert verdict(build.summary(records, load=CLOSED), "V06") is SKIPPED
    virtual = build.summary(records, clock="virtual")
    assert verdict(virtual, "V06") is SKIPPED
    assert verdict(virtual, "V20") is SKIPPED
    assert "VIRTUAL_TIME" in codes(virtual)


@pytest.mark.parametrize(("failed", "expected"), [(0, PASS), (1, WARN), (2, INVALID)])
def test_failures_warn_and_above_one_percent_invalidate(
    build: Any, failed: int, expected: CheckVerdict
) -> None:
    records = [build.record(i) for i in range(100 - failed)]
    summary = build.summary([*records, *(build.failed(100 - i) for i in range(failed))])
    assert verdict(summary, "V15") is expected
    assert ("REQUESTS_FAILED" in codes(summary)) == (failed > 0)


@pytest.mark.parametrize(
    ("total", "wrong", "expected"),
    [(1000, 0, PASS), (1000, 1, PASS), (1000, 2, WARN), (1000, 10, WARN), (1000, 11, INVALID)],
)
def test_answers_of_another_length_are_counted(
    build: Any, total: int, wrong: int, expected: CheckVerdict
) -> None:
    records = [build.record(i, asked=3 if i < wrong else 2) for i in range(total)]
    summary = build.summary(records)
    assert verdict(summary, "V16") is expected
    assert ("OUTPUT_NOT_AS_ASKED" in codes(summary)) == (wrong > 0)


def test_a_stream_that_disagrees_with_its_usage_is_found(build: Any) -> None:
    records = [build.record(i) for i in range(9)]
    summary = build.summary([*records, build.record(9, (100, 110), usage=3)])
    assert verdict(summary, "V16") is INVALID
    assert "TOKEN_COUNTS_DIFFER" in codes(summary)
    assert "OUTPUT_NOT_AS_ASKED" not in codes(summary)


@pytest.mark.parametrize(("usage", "differ"), [(2, 0), (3, 1), (None, 0)])
def test_counts_of_one_engine_that_disagree_are_found(
    build: Any, usage: int | None, differ: int
) -> None:
    """It streamed the ids of two tokens, and its last usage says another number."""
    ids = {"output_tokens_source": TokenSource.ENGINE_IDS}
    records = [build.record(0, usage_tokens=2, **ids), build.record(1, usage_tokens=usage, **ids)]
    summary = build.summary(records)
    said = [c.message for c in summary.cautions if c.code == "TOKEN_COUNTS_DIFFER"]
    assert [message.split()[0] for message in said] == [str(differ)] * (differ > 0)
    assert verdict(summary, "V16") is (INVALID if differ else PASS)
    assert value(summary, "V16").startswith(f"of 2 requests {differ} streamed another count")


def test_an_empty_answer_has_not_the_length_asked(build: Any) -> None:
    summary = build.summary([build.record(0, (), asked=5, output_tokens=None)])
    assert verdict(summary, "V16") is INVALID


def test_chunks_are_not_held_against_the_length_asked(build: Any) -> None:
    record = build.record(0, asked=8, output_tokens_source=TokenSource.CHUNKS)
    assert verdict(build.summary([record]), "V16") is SKIPPED


def test_a_run_without_warm_up_warns(build: Any) -> None:
    summary = build.summary([build.record(0)], warmup_requests=0)
    assert verdict(summary, "V20") is WARN


def test_reads_with_several_tokens_are_pointed_out(build: Any) -> None:
    one_each = build.summary([build.record(0, (100, 110))])
    in_one_event = build.summary([build.record(0, (100, 110), tokens=[1, 3])])
    in_one_read = build.summary([build.record(0, (100, 110, 110))])
    assert "COALESCED_CHUNKS" not in codes(one_each)
    for summary in (in_one_event, in_one_read):
        message = next(c.message for c in summary.cautions if c.code == "COALESCED_CHUNKS")
        assert message == "50.0% of the reads carried more than one token"


@pytest.mark.parametrize(
    ("tokens", "changes", "code"),
    [
        ((1, 1, 1), {}, None),
        ((4, 1, 1), {}, "FIRST_EVENT_BUNDLED"),
        ((None, 1, 1), {"usage": 8}, "FIRST_EVENT_ASSUMED"),
        ((None,) * 3, {"usage": 8}, "FIRST_EVENT_ASSUMED"),
        ((None,) * 3, {"usage": 3}, None),  # as many events as tokens: each carried one
        (
            (None,) * 3,
            {"usage": 3, "output_tokens_source": TokenSource.CHUNKS},
            "FIRST_EVENT_ASSUMED",
        ),
        ((4,), {}, None),  # no time per token, so nothing is assumed for it
        ((4, 1), {"outcome": Outcome.FAILED}, None),
    ],
)
def test_what_tpot_takes_the_first_event_to_be_is_said(
    build: Any, tokens: tuple[int | None, ...], changes: dict[str, Any], code: str | None
) -> None:
    record = build.record(0, [100 + 10 * i for i in range(len(tokens))], tokens=tokens, **changes)
    found = codes(build.summary([record])) & {"FIRST_EVENT_BUNDLED", "FIRST_EVENT_ASSUMED"}
    assert found == ({code} if code else set())


@pytest.mark.parametrize(
    ("flush_ms", "gap_ms", "is_buffered"),
    [
        (0, 10, False),  # plain: 32 tokens, one each 10 ms
        (5_000, 0, True),  # all events held, and let go at the end
        (5_000, 1.58, False),  # a late first token, then gaps that a fast engine could have
        (5_000, 0.2, True),
        (1, 0.2, False),  # fast throughout
    ],
)
def test_a_stream_that_was_held_back_is_pointed_out(
    build: Any, flush_ms: float, gap_ms: float, is_buffered: bool
) -> None:
    """B18: behind a buffering proxy TTFT rises to almost the whole latency, and gaps vanish."""
    record = build.record(0, [flush_ms + gap_ms * i for i in range(1, 33)])
    assert ("STREAM_LOOKS_BUFFERED" in codes(build.summary([record]))) == is_buffered


def test_a_whole_answer_in_one_event_looks_buffered_and_a_short_one_does_not(build: Any) -> None:
    long, short = build.record(0, (900,), tokens=[16]), build.record(0, (900,), tokens=[15])
    assert "STREAM_LOOKS_BUFFERED" in codes(build.summary([long]))
    assert "STREAM_LOOKS_BUFFERED" not in codes(build.summary([short]))


def test_most_of_the_long_answers_must_look_buffered(build: Any) -> None:
    held = [build.record(i, (900,), tokens=[16]) for i in range(2)]
    plain = [build.record(2 + i, range(10, 330, 10)) for i in range(2)]
    assert "STREAM_LOOKS_BUFFERED" not in codes(build.summary([*held, *plain]))
    assert "STREAM_LOOKS_BUFFERED" in codes(build.summary([*held, plain[0]]))


def test_requests_that_were_sent_again_are_pointed_out(build: Any) -> None:
    plain = build.summary([build.record(0)])
    again = build.summary([build.record(0, retries=2), build.record(1, retries=1)])
    assert "REQUESTS_RETRIED" not in codes(plain)
    (message,) = [c.message for c in again.cautions if c.code == "REQUESTS_RETRIED"]
    assert message.startswith("2 request(s) were sent again")


def test_a_small_run_says_which_percentiles_need_more(build: Any) -> None:
    summary = build.summary([build.record(i) for i in range(32)])
    messages = [c.message for c in summary.cautions if c.code == "TOO_FEW_REQUESTS"]
    assert messages == [
        "32 requests cannot support p90; it needs 36",
        "32 requests cannot support p99; it needs 368",
    ]


def test_an_engine_without_a_step_log_is_pointed_out(build: Any) -> None:
    assert "NO_STEP_LOG" in codes(build.summary([build.record(0)]))
    assert "NO_STEP_LOG" not in codes(build.summary([build.record(0)], [build.step()]))


def test_a_run_without_requests_is_judged_too(build: Any) -> None:
    summary = build.summary([], counts=Counts(planned=4))
    assert summary.validity is Validity.INVALID
    assert verdict(summary, "V15") is SKIPPED


def test_cautions_of_reading_the_folder_stay(build: Any) -> None:

    doubt = caution(Code.CUT_LAST_LINE, file="requests.jsonl")
    run = replace(build.run([build.record(0)]), cautions=(doubt,))
    assert doubt in summarize(run).cautions
