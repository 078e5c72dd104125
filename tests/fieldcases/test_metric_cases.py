"""Faults that users of other tools reported, of kinds A (metric definitions) and C (failure
accounting), with the answers that are right here. The names are ours; the numbers of issues are
where somebody met the fault. Kind H is in test_comparison_cases."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from engines.dialects.openai_completions import OpenAICompletionsDialect
from harness.analyzer.frame import frame_of
from harness.analyzer.metrics import METRICS, find_metric
from harness.analyzer.summary import CheckVerdict, Validity
from harness.core.engine import Capture, Ending, Read
from harness.core.jsonable import to_json
from harness.core.record import Outcome, RequestError, RequestRecord
from harness.core.units import ms_to_ns
from harness.core.workload import Load, LoadKind
from harness.loadgen.recorder import Asked, to_record

CLOSED = Load(LoadKind.CLOSED, concurrency=1)


DONE = b"data: [DONE]\n\n"


def event(payload: object) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def text(words: str, finish: str | None = None, **more: object) -> bytes:
    return event({"choices": [{"text": words, "finish_reason": finish, **more}]})


def usage(completion_tokens: int) -> bytes:
    counts = {"prompt_tokens": 10, "completion_tokens": completion_tokens}
    return event({"choices": [], "usage": counts})


def recorded(reads: list[tuple[int, bytes]], asked: int) -> RequestRecord:
    """The record of a stream whose reads came so many ms after it was sent, as a run keeps it."""
    start_ns = 10**9
    at = [Read(start_ns + ms_to_ns(ms), body) for ms, body in reads]
    headers = (("content-type", "text/event-stream"),)
    first_ns, end_ns = at[0].received_ns, at[-1].received_ns
    capture = Capture(start_ns, 200, headers, first_ns, tuple(at), end_ns, Ending.COMPLETE)
    answer = OpenAICompletionsDialect().decode(capture)
    return to_record(Asked(0, "chat", 0, 10, asked), capture, answer, start_ns)


@dataclass(frozen=True)
class Stream:
    """One stream (instants in ms from its send), and what its request must come to (ms)."""

    case: str
    events_ms: tuple[float, ...]
    tokens: tuple[int | None, ...] | None
    usage: int
    ttft: float | None
    tpot: float | None
    e2e: float | None
    gaps: tuple[float, ...]
    closed_ms: float | None = None
    first_byte_ms: float | None = None


STREAMS = [
    # vllm#3768: a role-only chunk at 1 ms is a first byte, not a first token.
    Stream("A01", (200, 220), None, 2, 200, 20, 220, (20,), first_byte_ms=1),
    # vllm#55508: the usage event and the end of the stream come after the last token.
    Stream("A05", (100, 1000), None, 10, 100, 100, 1000, (900,), closed_ms=1201),
    # vllm#12288: the usage says 100, the text shows 60 of them.
    Stream("A06", (0, 990), (30, 30), 100, 0, 10, 990, (990,)),
    # inference-perf#364; A20, llmperf#99: several tokens per event, and no TTFT in their gaps.
    Stream("A09", (100, 130, 160), (1, 3, 4), 8, 100, 60 / 7, 160, (30, 30)),
    # sglang#12064: three tokens each 9 ms are 3 ms a token, and gaps of 9.
    Stream("A10", (100, 109, 118), (1, 3, 3), 7, 100, 3, 118, (9, 9)),
    # vllm#27485: three events, thirty tokens, no counts in the events.
    Stream("A11", (10, 155, 300), (None,) * 3, 30, 10, 10, 300, (145, 145)),
    # sglang#1005: the time to the first token is no gap.
    Stream("A14", tuple(range(500, 600, 10)), None, 10, 500, 10, 590, (10,) * 9),
    # llmeter#31: one output token has no time per token, and keeps all else.
    Stream("A18", (70,), None, 1, 70, None, 70, ()),
    # nm-vllm#142: three events in one read have gaps of 0.
    Stream("B04", (50, 50, 50), None, 3, 50, 0, 50, (0, 0)),
]


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.case)
def test_one_stream_comes_to_exact_figures(build: Any, stream: Stream) -> None:
    record = build.record(0, stream.events_ms, tokens=stream.tokens, usage=stream.usage)
    if stream.closed_ms is not None:
        record = replace(record, closed_ns=round(stream.closed_ms * 1e6))
    if stream.first_byte_ms is not None:
        record = replace(record, first_byte_ns=round(stream.first_byte_ms * 1e6))
    run = build.run([record], load=CLOSED)
    summary = build.summary([record], load=CLOSED)
    found = {
        name: None if (value := summary.value(f"{name}_s_mean")) is None else value * 1e3
        for name in ("ttft", "tpot", "e2e")
    }
    expected = {"ttft": stream.ttft, "tpot": stream.tpot, "e2e": stream.e2e}
    assert found == pytest.approx(expected)
    assert [gap * 1e3 for gap in frame_of(run).gaps_s] == pytest.approx(sorted(stream.gaps))
    assert summary.value("output_tokens") == stream.usage
    assert summary.value("failure_rate") == 0


def test_a02_an_empty_answer_has_no_ttft(build: Any) -> None:
    """vllm#6064: six empty answers pulled the median TTFT to 0."""
    empty = [build.record(i, (), asked=2, output_tokens=None) for i in range(6)]
    normal = [build.record(6 + i, (100, 110)) for i in range(6)]
    summary = build.summary([*empty, *normal])
    assert summary.value("ttft_s_p50") == 0.1
    assert summary.value("ttft_s_mean") == pytest.approx(0.1)
    assert summary.validity is Validity.INVALID


def test_a06_a_stream_that_hides_tokens_is_pointed_out(build: Any) -> None:
    """vllm#12288: the usage counts, and the mismatch is said."""
    summary = build.summary([build.record(0, (0, 990), tokens=[30, 30], usage=100)])
    assert "TOKEN_COUNTS_DIFFER" in {caution.code for caution in summary.cautions}


def test_a03_an_empty_first_chunk_is_an_event_and_no_token(build: Any) -> None:
    """tensorzero#4961: elsewhere it is the first token. Both instants have a metric of their own."""
    with_role = build.record(0, (200, 220), first_event_ns=ms_to_ns(1))
    empty = build.record(0, (), asked=2, output_tokens=None, first_event_ns=ms_to_ns(1))
    summary, of_empty = build.summary([with_role]), build.summary([empty])
    assert summary.value("time_to_first_event_s_mean") == 0.001
    assert summary.value("ttft_s_mean") == 0.200
    assert of_empty.value("time_to_first_event_s_mean") == 0.001
    assert of_empty.value("ttft_s_mean") is None


def test_a06_ids_and_usage_that_disagree_are_pointed_out(build: Any) -> None:
    """vllm#12288, the other way round: the ids count, and the usage says another number."""
    stream = [(0, text("a", token_ids=[1])), (10, text("b", "length", token_ids=[2]))]
    summary = build.summary([recorded([*stream, (11, usage(3) + DONE)], asked=2)])
    assert summary.value("output_tokens") == 2
    said = [c.message for c in summary.cautions if c.code == "TOKEN_COUNTS_DIFFER"]
    assert len(said) == 1
    assert said[0].startswith("1 request(s)")


def test_a08_an_answer_longer_than_was_asked_for_is_flagged(build: Any) -> None:
    """inference-perf#564: a mean output of 14,382 tokens under a limit of 8,192. Nothing is counted
    by a tokenizer of ours, so such a count can only be the engine's."""
    summary = build.summary([build.record(0, range(0, 400, 20), asked=10)])
    check = next(check for check in summary.checks if check.id == "V16")
    assert check.verdict is CheckVerdict.INVALID


BUNDLE = [(100, "abcd", 4), (110, "e", 5), (120, "f", 6), (130, "g", 7), (140, "h", 8)]


def bundled(counts: Callable[[int], dict[str, Any]]) -> list[tuple[int, bytes]]:
    """The stream of A13: four tokens in its first event, then one each 10 ms."""
    reads = [(ms, event({"choices": [{"text": t}], **counts(n)})) for ms, t, n in BUNDLE]
    return [*reads, (150, text("", "length") + usage(8) + DONE)]


@pytest.mark.parametrize(
    ("case", "counts", "after_ms", "code"),
    [
        ("running usage", lambda n: {"usage": {"completion_tokens": n}}, 10.0, "BUNDLED"),
        (
            "reasoning counted in it",
            lambda n: {
                "usage": {
                    "completion_tokens": n,
                    "completion_tokens_details": {"reasoning_tokens": min(n, 6)},
                }
            },
            10.0,
            "BUNDLED",
        ),
        ("final usage only", lambda _: {}, None, "ASSUMED"),
    ],
)
def test_a13_a_first_event_that_bundles_tokens_has_both_values_and_a_note(
    build: Any, case: str, counts: Any, after_ms: float | None, code: str
) -> None:
    """aiperf#1279: 40 ms over 7 tokens flatter; over the 4 that came in them they are 10 ms each.
    With reasoning, all counts include it, so none is subtracted from another kind."""
    summary = build.summary([recorded(bundled(counts), asked=8)])
    assert summary.value("output_tokens") == 8
    assert summary.value("tpot_s_mean") == pytest.approx(0.040 / 7)
    after_s = None if after_ms is None else pytest.approx(after_ms / 1e3)
    assert summary.value("tpot_after_first_event_s_mean") == after_s
    codes = {c.code for c in summary.cautions if c.code.startswith("FIRST_EVENT")}
    assert codes == {f"FIRST_EVENT_{code}"}


@pytest.mark.parametrize("spelling", ["reasoning", "reasoning_content"])
def test_a23_reasoning_and_answer_have_first_tokens_of_their_own(build: Any, spelling: str) -> None:
    """guidellm#737: reasoning was not timed, and decoding seemed to collapse."""
    reads = [
        (28_640, event({"choices": [{"delta": {spelling: "hm"}}]})),
        (34_690, event({"choices": [{"delta": {"content": "x"}}]})),
        (35_940, event({"choices": [{"delta": {"content": "y"}, "finish_reason": "stop"}]})),
        (35_941, usage(3) + DONE),
    ]
    summary = build.summary([recorded(reads, asked=3)])
    assert summary.value("ttft_s_mean") == 28.640
    assert summary.value("time_to_first_answer_s_mean") == 34.690
    assert summary.value("tpot_s_mean") == pytest.approx((35.940 - 28.640) / 2)


def test_a24_an_answer_of_reasoning_only_is_timed_and_has_no_answer_token(build: Any) -> None:
    """sglang#23018: TTFT 0 and gaps of 0, because no `content` came."""
    reads = [(50 + i, event({"choices": [{"delta": {"reasoning": "hm"}}]})) for i in range(32)]
    reads.append((90, event({"choices": [{"delta": {}, "finish_reason": "length"}]}) + usage(32)))
    summary = build.summary([recorded([*reads, (91, DONE)], asked=32)])
    assert summary.value("ttft_s_mean") == 0.050
    assert summary.value("tpot_s_mean") == pytest.approx(0.001)
    assert summary.value("failure_rate") == 0
    assert summary.value("time_to_first_answer_s_mean") is None


def test_a15_requests_and_gaps_weigh_differently_and_say_so(build: Any) -> None:
    """vllm#6531: 2 gaps of 50 ms and 98 of 10 ms are 30 by request and 10.8 by gap."""
    slow = build.record(0, [i * 50 for i in range(3)])
    fast = build.record(1, [i * 10 for i in range(99)])
    summary = build.summary([slow, fast])
    gaps = frame_of(build.run([slow, fast])).gaps_s
    assert summary.value("tpot_s_mean") == pytest.approx(0.030)
    assert gaps.mean() == pytest.approx(0.0108)
    assert summary.value("inter_chunk_s_p50") == 0.010
    assert "each request weighing the same" in find_metric("tpot_s_mean").definition
    assert "each gap weighing the same" in find_metric("inter_chunk_s_p50").definition


def test_a16_time_per_token_leaves_out_the_first(build: Any) -> None:
    """guidellm#1144: 55.0, neither 100.8 (whole latency) nor 18.2 (weighted by tokens)."""
    few = build.record(0, [1000 + 100 * i for i in range(11)])
    many = build.record(1, [1000 + 10 * i for i in range(101)])
    assert build.summary([few, many]).value("tpot_s_mean") == pytest.approx(0.0550)


def test_a19_a_run_of_one_token_answers_has_no_tpot(build: Any) -> None:
    """flexible-inference-bench#68: not NaN, not a division by zero."""
    summary = build.summary([build.record(i, (100,)) for i in range(100)])
    for value in summary.values:
        if value.metric.startswith("tpot"):
            assert value.value is None
            assert value.reason is not None
            assert value.reason.startswith("n/a (0 samples)")
    assert summary.value("ttft_s_p90") == 0.1
    assert "NaN" not in json.dumps(to_json(summary), allow_nan=False)


def test_a28_a_rate_covers_the_time_of_what_it_counts(build: Any) -> None:
    """tt-inference-server#4848: 11 tok/s over the run; 100 tok/s while decoding has another name."""
    record = build.record(0, [900 + 10 * i for i in range(11)])
    steps = [build.step(0, 0, decode_ns=0, decode_tokens=0, prefill_ns=890_000_000)]
    steps += [build.step(i, 900 + 10 * i, decode_ns=10_000_000, decode_tokens=1) for i in range(10)]
    summary = build.summary([record], steps, load=CLOSED)
    assert summary.value("output_tok_s") == 11.0
    assert summary.value("decode_output_tok_s") == pytest.approx(100.0)
    assert summary.value("tpot_s_mean") == pytest.approx(1 / 100)


def test_no_metric_calls_gaps_between_chunks_inter_token() -> None:
    """sglang#12064, vllm#27485: with several tokens per event the two are not the same."""
    for metric in METRICS:
        words = f"{metric.name} {metric.title} {metric.definition}".lower()
        assert "itl" not in words
        assert "inter-token" not in words


def test_c02_tokens_that_no_event_brought_make_a_run_invalid(build: Any) -> None:
    """sglang#9585: prompts over the context limit all "succeeded", with as many tokens as asked."""
    empty = recorded([(1, text("", "stop") + usage(1000) + DONE)], asked=1000)
    summary = build.summary([empty] * 1)
    assert empty.outcome is Outcome.FAILED
    assert summary.validity is Validity.INVALID
    for metric in ("ttft_s_mean", "tpot_s_mean", "output_tok_s"):
        assert summary.value(metric) is None


def test_c15_empty_answers_under_load_are_failures(build: Any) -> None:
    """vllm#3209: 20 to 50 % empty answers counted as success."""
    empty = replace(recorded([(1, text("", "stop") + DONE)], asked=2), index=4)
    summary = build.summary([*(build.record(i) for i in range(4)), empty])
    assert summary.value("failure_rate") == 0.2
    assert next(c.verdict for c in summary.checks if c.id == "V15") is CheckVerdict.INVALID


def failed_at(build: Any, index: int, ms: float) -> Any:
    """A request that got a token, and failed at `ms`."""
    record = build.record(index, (ms,), asked=2, outcome=Outcome.FAILED)
    return replace(record, error=RequestError("inband_error", "out of memory"))


def test_c01_a_failed_request_does_not_raise_the_rate(build: Any) -> None:
    """vllm#57519: an error inside a stream of status 200 counted as success."""
    good = build.record(0, [10 * (i + 1) for i in range(100)])
    alone = build.summary([good])
    both = build.summary([good, failed_at(build, 1, 50)])
    assert alone.value("output_tok_s") == both.value("output_tok_s") == 100.0
    assert both.value("output_tokens") == 100
    assert both.value("request_s") == 1.0


def test_c04_the_time_of_a_failure_enters_no_latency(build: Any) -> None:
    """guidellm#444: ten that fail at 60 s beside ten that do not."""
    good = [build.record(i, (100 + i, 200 + i)) for i in range(10)]
    bad = [failed_at(build, 10 + i, 60_000) for i in range(10)]
    alone, both = build.summary(good), build.summary([*good, *bad])
    for metric in ("ttft_s_mean", "ttft_s_max", "e2e_s_mean", "e2e_s_max", "tpot_s_mean"):
        assert alone.value(metric) == both.value(metric)
    assert alone.value("inter_chunk_s_p50") == both.value("inter_chunk_s_p50")
    # Half of the requests failed, so the median is that of the slowest which did not.
    assert both.value("e2e_s_p50") == 0.209


@pytest.mark.parametrize("case", ["C06", "C07"])
def test_c06_c07_a_run_in_which_all_failed_has_a_summary(build: Any, case: str) -> None:
    """sglang#35005, Switchyard#766: division by zero, or no summary at all."""
    kind = {"C06": "connect_failed", "C07": "timeout"}[case]
    error = RequestError(kind, "refused")
    records = [replace(build.failed(i), error=error, http_status=None) for i in range(20)]
    summary = build.summary(records)
    assert summary.validity is Validity.INVALID
    assert summary.value("failure_rate") == 1.0
    assert summary.manifest.counts.failed == 20
    for metric in ("ttft_s_p50", "ttft_s_mean", "e2e_s_p50", "output_tok_s", "output_tokens"):
        assert summary.value(metric) is None
    text = json.dumps(to_json(summary), allow_nan=False)
    assert "more than 50 % of the requests failed" in text


def test_c08_an_answer_that_is_shorter_than_asked_is_told(build: Any) -> None:
    """inference-perf#655: 10 of 1024 tokens, closed cleanly, counted as any other."""
    summary = build.summary([build.record(0, range(10, 110, 10), asked=1024, finish_reason="stop")])
    check = next(check for check in summary.checks if check.id == "V16")
    assert check.verdict is CheckVerdict.INVALID
    assert "OUTPUT_NOT_AS_ASKED" in {caution.code for caution in summary.cautions}


def test_c13_a_run_with_one_success_does_not_look_like_any_other(build: Any) -> None:
    """vllm#26478: one answer of a hundred made a table like that of a good run."""
    summary = build.summary([build.record(0), *(build.failed(i) for i in range(1, 100))])
    assert summary.validity is Validity.INVALID
    assert summary.value("failure_rate") == 0.99
    assert "REQUESTS_FAILED" in {caution.code for caution in summary.cautions}


def test_c11_a_request_that_never_came_back_is_missed(build: Any) -> None:
    """sample-apj-sup-sa#181: `failed=0`, though 9 % of the answers never came."""
    counts = build.run([build.record(i) for i in range(100)]).manifest.counts
    summary = build.summary([build.record(i) for i in range(91)], counts=counts)
    check = next(check for check in summary.checks if check.id == "V01")
    assert check.verdict is CheckVerdict.INVALID
    assert "91 recorded as ok, 100 counted" in check.value


def test_c12_requests_that_failed_are_no_throughput(build: Any) -> None:
    """aspnet/Benchmarks#320: 404s counted as requests per second."""
    records = [failed_at(build, i, 100) for i in range(10)]
    summary = build.summary(records)
    assert summary.value("request_s") == 0
    assert summary.value("failure_rate") == 1
