"""The native dialects of TGI, SGLang and llama-server: what they ask for, and odd payloads."""

from __future__ import annotations

import json

import pytest

from engines.dialects.llama_completion import LlamaCppDialect
from engines.dialects.sglang_generate import SglangDialect
from engines.dialects.tgi_generate import TgiDialect
from harness.core.engine import Capture, Dialect, Ending, Read
from harness.core.record import Answer, Outcome, TokenSource
from harness.core.workload import Request

REQUEST = Request(index=0, label="a", prompt_token_ids=(5, 6), max_tokens=7)
NATIVE = [TgiDialect(str), SglangDialect(), LlamaCppDialect()]


def decode(dialect: Dialect, *payloads: object, ending: Ending = Ending.COMPLETE) -> Answer:
    """The answer to events of `payloads`, one read each; bytes go as they are."""
    bodies = (p if isinstance(p, bytes) else json.dumps(p).encode() for p in payloads)
    reads = tuple(Read(at, b"data: " + body + b"\n\n") for at, body in enumerate(bodies, start=1))
    return dialect.decode(Capture(0, 200, (), 1, reads, 99, ending))


def asked(dialect: Dialect) -> tuple[str, object]:
    wire = dialect.encode(REQUEST, "some-model")
    assert wire.method == "POST"
    assert dict(wire.headers) == {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
    }
    return wire.path, json.loads(wire.body)


def test_tgi_is_asked_in_text_and_cannot_be_told_to_ignore_eos() -> None:
    dialect = TgiDialect(lambda ids: "+".join(map(str, ids)))

    assert asked(dialect) == (
        "/generate_stream",
        {
            "inputs": "5+6",
            "parameters": {"max_new_tokens": 7, "do_sample": False, "details": True},
        },
    )


def test_sglang_is_asked_for_nothing_that_it_would_refuse() -> None:
    assert asked(SglangDialect()) == (
        "/generate",
        {
            "input_ids": [5, 6],
            "sampling_params": {"max_new_tokens": 7, "temperature": 0, "ignore_eos": True},
            "stream": True,
        },
    )


@pytest.mark.parametrize("caches_prompt", [False, True])
def test_llama_server_is_told_whether_it_may_reuse_a_prompt(*, caches_prompt: bool) -> None:
    assert asked(LlamaCppDialect(caches_prompt)) == (
        "/completion",
        {
            "prompt": [5, 6],
            "n_predict": 7,
            "temperature": 0,
            "ignore_eos": True,
            "cache_prompt": caches_prompt,
            "stream": True,
        },
    )


@pytest.mark.parametrize("dialect", NATIVE, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize(
    ("payload", "kind", "message"),
    [
        ({"error": {"message": "boom"}}, "in_stream_error", "boom"),
        ({"error": "boom"}, "in_stream_error", "boom"),
        ({"object": "error", "message": "boom"}, "in_stream_error", "boom"),
        ({"detail": "boom"}, "in_stream_error", "boom"),
        (b'{"error": "a "b" c"}', "in_stream_error", '{"error": "a "b" c"}'),
        (b"{", "bad_json", "Input data was truncated, in: {"),
        (b"[1]", "bad_json", "Expected `object`, got `array`, in: [1]"),
        ({"choices": [{"text": "a"}]}, "empty", "the stream carried no token"),
    ],
)
def test_a_payload_that_is_no_event_fails_the_request(
    dialect: Dialect, payload: object, kind: str, message: str
) -> None:
    answer = decode(dialect, payload)

    assert answer.outcome is Outcome.FAILED
    assert answer.error is not None
    assert (answer.error.kind, answer.error.message) == (kind, message)


@pytest.mark.parametrize(
    ("dialect", "payload"),
    [
        (TgiDialect(str), {"token": {"id": 1}}),
        (TgiDialect(str), {"token": {"text": "a"}, "details": {"generated_tokens": "x"}}),
        (SglangDialect(), {"output_ids": ["x"], "meta_info": {}}),
        (SglangDialect(), {"text": "a", "meta_info": {"completion_tokens": "x"}}),
        (LlamaCppDialect(), {"content": "a", "tokens_predicted": "x"}),
    ],
)
def test_an_event_of_another_shape_is_loud(dialect: Dialect, payload: object) -> None:
    answer = decode(dialect, payload)

    assert answer.error is not None
    assert answer.error.kind == "bad_json"


@pytest.mark.parametrize("ending", [Ending.CUT, Ending.RESET])
@pytest.mark.parametrize(
    ("dialect", "last"),
    [
        (TgiDialect(str), {"token": {"text": "a"}, "generated_text": "a"}),
        (LlamaCppDialect(), {"content": "a", "stop": True, "stop_type": "limit"}),
    ],
)
def test_after_the_last_event_it_no_longer_matters_how_the_connection_ends(
    dialect: Dialect, last: object, ending: Ending
) -> None:
    assert decode(dialect, last, b"{", ending=ending).outcome is Outcome.OK


def test_llama_tokens_without_text_count_when_the_end_tells_of_them() -> None:
    last = {"content": "", "stop": True, "stop_type": "limit", "tokens_predicted": 1}

    answer = decode(LlamaCppDialect(), last)

    assert answer.outcome is Outcome.OK
    assert [e.tokens for e in answer.events] == [1]
    assert answer.output_tokens_source is TokenSource.RUNNING_USAGE


@pytest.mark.parametrize(
    ("word", "reason"),
    [("limit", "length"), ("eos", "stop"), ("word", "stop"), ("none", "none")],
)
def test_llama_says_why_it_stopped_in_words_of_its_own(word: str, reason: str) -> None:
    answer = decode(LlamaCppDialect(), {"content": "a", "stop": True, "stop_type": word})

    assert answer.finish_reason == reason


@pytest.mark.parametrize(
    ("word", "reason"),
    [("length", "length"), ("eos_token", "stop"), ("stop_sequence", "stop")],
)
def test_tgi_says_why_it_stopped_in_words_of_its_own(word: str, reason: str) -> None:
    details = {"finish_reason": word, "generated_tokens": 1}

    answer = decode(TgiDialect(str), {"token": {"text": "a"}, "details": details})

    assert answer.finish_reason == reason


def sglang_event(text: str, ids: list[int], total: int | None, reason: object = None) -> object:
    meta = {"completion_tokens": total, "finish_reason": reason}
    return {"text": text, "output_ids": ids, "meta_info": meta}


LENGTH = {"type": "length", "length": 3}


def test_sglang_events_that_were_merged_carry_all_their_tokens() -> None:
    answer = decode(
        SglangDialect(),
        sglang_event("a", [1], 1),
        sglang_event("abcd", [1, 2, 3, 4], 4, LENGTH),
    )

    assert [(e.tokens, e.text) for e in answer.events] == [(1, "a"), (3, "bcd")]


def test_sglang_says_nothing_new_twice() -> None:
    answer = decode(
        SglangDialect(),
        *[sglang_event("ab", [1, 2], 2)] * 3,
        sglang_event("abc", [1, 2, 3], 3, LENGTH),
    )

    assert [(e.tokens, e.text) for e in answer.events] == [(2, "ab"), (1, "c")]


def test_sglang_ids_are_taken_as_the_whole_where_a_stop_token_was_cut_off() -> None:
    answer = decode(
        SglangDialect(),
        sglang_event("a", [1], 1),
        sglang_event("ab", [1, 2], 2),
        sglang_event("abc", [1, 2, 3], 4, {"type": "stop", "matched": 9}),
    )

    assert [e.text for e in answer.events] == ["a", "b", "c"]
    assert (answer.output_tokens, answer.usage_tokens) == (3, 4)


def test_sglang_counts_by_its_usage_where_it_sends_no_ids() -> None:
    answer = decode(
        SglangDialect(),
        {"text": "a", "meta_info": {"completion_tokens": 1}},
        {"text": "abc", "meta_info": {"completion_tokens": 3, "finish_reason": LENGTH}},
    )

    assert [(e.tokens, e.text) for e in answer.events] == [(1, "a"), (2, "bc")]
    assert answer.output_tokens_source is TokenSource.RUNNING_USAGE


def test_sglang_an_abort_that_forgets_the_answer_takes_nothing_back() -> None:
    abort = {"type": "abort", "message": "time is up", "status_code": 503}

    answer = decode(SglangDialect(), sglang_event("ab", [1, 2], 2), sglang_event("", [], 0, abort))

    assert answer.error is not None
    assert (answer.error.kind, answer.error.message) == ("aborted", "time is up (status 503)")
    assert answer.output_tokens == 2
