"""The OpenAI dialect on tables of bytes."""

from __future__ import annotations

import json

import pytest

from engines.dialects.openai_completions import OpenAICompletionsDialect
from harness.core.engine import Capture, Ending, Read
from harness.core.record import Answer, Outcome, TokenEvent, TokenSource
from harness.core.workload import Request

DONE = b"data: [DONE]\n\n"
FINISH = b'data: {"choices":[{"text":"","finish_reason":"length"}]}\n\n'


def event(payload: object) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"


def text_event(text: str, token_ids: list[int] | None = None, finish: str | None = None) -> bytes:
    return event({"choices": [{"text": text, "token_ids": token_ids, "finish_reason": finish}]})


def usage_event(completion_tokens: int, prompt_tokens: int = 3) -> bytes:
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return event({"choices": [], "usage": usage})


def capture(
    *bodies: bytes, ending: Ending = Ending.COMPLETE, status: int | None = 200, detail: str = ""
) -> Capture:
    reads = tuple(Read(received_ns, body) for received_ns, body in enumerate(bodies, start=1))
    return Capture(
        sent_ns=0,
        status=status,
        headers=(("Content-Type", "text/event-stream"),),
        first_byte_ns=1,
        reads=reads,
        closed_ns=len(reads) + 1,
        ending=ending,
        detail=detail,
    )


def decode(*bodies: bytes, ending: Ending = Ending.COMPLETE) -> Answer:
    return OpenAICompletionsDialect().decode(capture(*bodies, ending=ending))


def test_encode_asks_for_a_greedy_streamed_answer_of_exact_length() -> None:
    request = Request(index=0, label="a", prompt_token_ids=(5, 6), max_tokens=7)

    wire = OpenAICompletionsDialect().encode(request, "some-model")

    assert (wire.method, wire.path) == ("POST", "/v1/completions")
    assert ("Content-Type", "application/json") in wire.headers
    assert json.loads(wire.body) == {
        "model": "some-model",
        "prompt": [5, 6],
        "max_tokens": 7,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def body_of(dialect: OpenAICompletionsDialect) -> dict[str, object]:
    request = Request(index=0, label="a", prompt_token_ids=(5, 6), max_tokens=7)
    body = json.loads(dialect.encode(request, "m").body)
    assert isinstance(body, dict)
    return body


def test_encode_asks_for_token_ids_only_of_servers_that_know_them() -> None:
    assert body_of(OpenAICompletionsDialect(asks_token_ids=True))["return_token_ids"] is True


def test_encode_asks_for_running_usage_only_of_servers_that_know_it() -> None:
    body = body_of(OpenAICompletionsDialect(asks_running_usage=True))

    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_encode_sends_text_to_servers_that_take_no_ids() -> None:
    spelt = OpenAICompletionsDialect(prompt_as_text=lambda ids: "+".join(map(str, ids)))

    assert body_of(spelt)["prompt"] == "5+6"


def test_encode_can_leave_out_ignore_eos_and_add_fields_of_the_engine() -> None:
    config = '{"eos_token_id": -1}'
    dialect = OpenAICompletionsDialect(
        ignores_eos_by=None, extra=(("generation_config", config), ("temperature", 0.5))
    )

    body = body_of(dialect)

    assert "ignore_eos" not in body
    assert body["generation_config"] == config
    assert body["temperature"] == 0.5


def test_each_event_is_stamped_with_the_read_that_completed_it() -> None:
    first = text_event("a")

    answer = decode(first[:-1], first[-1:] + text_event("b"), text_event("c") + FINISH + DONE)

    assert answer.events == (
        TokenEvent(2, None, "a"),
        TokenEvent(2, None, "b"),
        TokenEvent(3, None, "c"),
    )
    assert answer.outcome is Outcome.OK
    assert answer.finish_reason == "length"


def test_token_ids_are_the_best_count() -> None:
    body = text_event("a", [1]) + text_event("bc", [2, 3], "length") + usage_event(9) + DONE

    answer = decode(body)

    assert [e.tokens for e in answer.events] == [1, 2]
    assert (answer.output_tokens, answer.output_tokens_source) == (3, TokenSource.ENGINE_IDS)
    assert answer.prompt_tokens == 3


def test_a_token_that_decodes_to_nothing_yet_is_a_token() -> None:
    answer = decode(text_event("", [228]) + text_event("你", [189, 160], "length") + DONE)

    assert answer.events == (TokenEvent(1, 1, ""), TokenEvent(1, 2, "你"))


def test_text_that_was_held_back_and_brings_no_token_counts_none() -> None:
    answer = decode(text_event("", [1]) + text_event("a", [], "length") + DONE)

    assert [e.tokens for e in answer.events] == [1, 0]
    assert answer.output_tokens == 1


def test_ids_that_cover_only_a_part_do_not_decide_the_count() -> None:
    answer = decode(text_event("a", [1]) + text_event("b") + FINISH + usage_event(5) + DONE)

    assert [e.tokens for e in answer.events] == [1, None]
    assert (answer.output_tokens, answer.output_tokens_source) == (5, TokenSource.FINAL_USAGE)


def test_running_usage_gives_tokens_per_event() -> None:
    def step(text: str, completed: int, finish: str | None = None) -> bytes:
        usage = {"prompt_tokens": 3, "completion_tokens": completed}
        return event({"choices": [{"text": text, "finish_reason": finish}], "usage": usage})

    body = step("a", 1) + step("bcd", 4) + step("", 5) + step("e", 5, "length")
    answer = decode(body + usage_event(5) + DONE)

    assert [e.tokens for e in answer.events] == [1, 3, 1, 0]
    assert (answer.output_tokens, answer.output_tokens_source) == (5, TokenSource.RUNNING_USAGE)


@pytest.mark.parametrize("finish", ["length", None])
def test_a_final_usage_that_rides_on_a_last_empty_chunk_is_no_token(finish: str | None) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    last = event({"choices": [{"text": "", "finish_reason": finish}], "usage": usage})
    before = b"" if finish else FINISH

    answer = decode(text_event("a") + text_event("b") + before + last + DONE)

    assert [e.tokens for e in answer.events] == [None, None]
    assert (answer.output_tokens, answer.output_tokens_source) == (2, TokenSource.FINAL_USAGE)


def test_without_ids_and_usage_the_chunks_are_counted_and_said_so() -> None:
    answer = decode(text_event("a") + text_event("bb") + FINISH + DONE)

    assert (answer.output_tokens, answer.output_tokens_source) == (2, TokenSource.CHUNKS)
    assert answer.prompt_tokens is None


def test_the_last_usage_is_kept_beside_a_better_count() -> None:
    answer = decode(text_event("a", [1], "length") + usage_event(9) + DONE)

    assert (answer.output_tokens, answer.usage_tokens) == (1, 9)


@pytest.mark.parametrize(
    ("details", "cached"),
    [
        ({"cached_tokens": 2}, 2),
        ({}, None),
        (None, None),
        ("x", None),
        ({"cached_tokens": "x"}, None),
    ],
)
def test_what_the_engine_had_in_its_cache_is_read(details: object, cached: int | None) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": details}

    answer = decode(text_event("a", None, "stop") + event({"choices": [], "usage": usage}) + DONE)

    assert answer.cached_tokens == cached
    assert answer.output_tokens == 1


def delta_event(**delta: object) -> bytes:
    return event({"choices": [{"delta": delta}]})


def test_the_first_text_of_the_answer_is_not_reasoning_nor_a_tool_call() -> None:
    call = [{"function": {"name": "f", "arguments": "{}"}}]

    answer = decode(
        delta_event(role="assistant", content=""),
        delta_event(reasoning="hm"),
        delta_event(reasoning_content="hm", content=""),
        delta_event(tool_calls=call),
        delta_event(content="x", reasoning="hm"),
        delta_event(content="y"),
        FINISH + DONE,
    )

    assert answer.first_event_ns == 1
    assert answer.events[0].received_ns == 2
    assert answer.first_answer_ns == 5
    assert [e.text for e in answer.events] == ["hm", "hm", "f{}", "hmx", "y"]


def test_the_first_text_of_a_completion_is_of_the_answer() -> None:
    answer = decode(text_event("", [1]), text_event("a", [2]), FINISH + DONE)

    assert answer.events[0].received_ns == 1
    assert answer.first_answer_ns == 2


def test_an_answer_of_reasoning_alone_has_no_first_text_of_its_own() -> None:
    answer = decode(delta_event(reasoning="hm"), FINISH + DONE)

    assert answer.outcome is Outcome.OK
    assert answer.first_answer_ns is None


@pytest.mark.parametrize(
    ("ending", "outcome", "kind"),
    [
        (Ending.CONNECT_FAILED, Outcome.FAILED, "connect"),
        (Ending.RESET, Outcome.FAILED, "reset"),
        (Ending.CUT, Outcome.FAILED, "cut"),
        (Ending.BAD_FRAMING, Outcome.FAILED, "bad_framing"),
        (Ending.COMPLETE, Outcome.FAILED, "cut"),
        (Ending.CANCELLED, Outcome.CANCELLED, None),
        (Ending.NOT_ENDED, Outcome.UNFINISHED, None),
    ],
)
def test_tokens_before_a_bad_ending_are_kept(
    ending: Ending, outcome: Outcome, kind: str | None
) -> None:
    answer = decode(text_event("a", [1]), text_event("b", [2]), ending=ending)

    assert [e.text for e in answer.events] == ["a", "b"]
    assert answer.output_tokens == 2
    assert answer.outcome is outcome
    assert (answer.error.kind if answer.error else None) == kind


def test_a_connection_that_failed_tells_the_systems_words() -> None:
    nothing = capture(status=None, ending=Ending.CONNECT_FAILED, detail="Connection refused")

    answer = OpenAICompletionsDialect().decode(nothing)

    assert answer.error is not None
    assert (answer.error.kind, answer.error.message) == ("connect", "Connection refused")
    assert (answer.output_tokens, answer.output_tokens_source) == (None, None)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"too long","type":"x"}}', "too long"),
        (b'{"error":"Unauthorized"}', "Unauthorized"),
        (b'{"object":"error","message":"bad"}', "bad"),
        (b'{"detail":[{"msg":"field"}]}', '[{"msg":"field"}]'),
        (b"<html>\n <b>Bad</b>\r\n</html>", "<html> <b>Bad</b> </html>"),
        (b"[1]", "[1]"),
        (b"\xff", "�"),
        (b"", "the server gave no reason"),
    ],
)
def test_an_http_error_carries_the_servers_words(body: bytes, message: str) -> None:
    answer = OpenAICompletionsDialect().decode(capture(body, status=503))

    assert answer.outcome is Outcome.FAILED
    assert answer.error is not None
    assert (answer.error.kind, answer.error.message) == ("http_503", message)


def test_a_long_message_is_shortened() -> None:
    answer = OpenAICompletionsDialect().decode(capture(b"x" * 1000, status=500))

    assert answer.error is not None
    assert len(answer.error.message) == 300
    assert answer.error.message.endswith("…")


@pytest.mark.parametrize("payload", [b"{", b"[1]", b'"a"', b'{"choices":[{"text":"\xff"}]}'])
def test_a_payload_that_is_no_json_object_fails_the_request(payload: bytes) -> None:
    answer = decode(text_event("a") + b"data: " + payload + b"\n\n" + FINISH + DONE)

    assert answer.outcome is Outcome.FAILED
    assert answer.error is not None
    assert answer.error.kind == "bad_json"
    assert [e.text for e in answer.events] == ["a"]


def test_an_error_that_is_not_escaped_is_the_servers_and_no_bad_json() -> None:
    answer = decode(text_event("a") + b'data: {"error": "no "pad" token"}\n\n')

    assert answer.error is not None
    assert answer.error.kind == "in_stream_error"
    assert '"pad"' in answer.error.message


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_that_the_server_aborted_has_failed(reason: str) -> None:
    answer = decode(text_event("a") + text_event("", None, reason) + DONE)

    assert answer.outcome is Outcome.FAILED
    assert answer.error is not None
    assert answer.error.kind == "aborted"
    assert reason in answer.error.message


def test_what_the_server_said_goes_before_how_the_connection_ended() -> None:
    answer = decode(text_event("a") + event({"error": "out of memory"}), ending=Ending.CANCELLED)

    assert answer.outcome is Outcome.FAILED
    assert answer.error is not None
    assert answer.error.kind == "in_stream_error"


def test_what_follows_done_is_not_read() -> None:
    answer = decode(text_event("a") + FINISH + DONE + text_event("b") + b"data: {\n\n")

    assert answer.outcome is Outcome.OK
    assert [e.text for e in answer.events] == ["a"]


@pytest.mark.parametrize(
    "choices", [{"a": 1}, [None], ["x"], [{"text": 5}], [{"delta": []}], [{"token_ids": "x"}]]
)
def test_choices_of_a_strange_shape_carry_nothing(choices: object) -> None:
    answer = decode(event({"choices": choices}) + text_event("a") + FINISH + DONE)

    assert answer.outcome is Outcome.OK
    assert [e.text for e in answer.events] == ["a"]
