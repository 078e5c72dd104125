"""The dialect on tables of bytes, and on the same bytes cut in every way."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.dialect import OpenAICompletionsDialect, SseParser
from engines.openai_chunks import read_chunk, read_unusual_chunk
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


def payloads(*chunks: bytes) -> list[bytes]:
    parser = SseParser()
    return [payload for chunk in chunks for payload in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: x\n\n", [b"x"]),
        (b"data:x\n\n", [b"x"]),
        (b"data:  x\n\n", [b" x"]),
        (b"data: x\r\n\r\n", [b"x"]),
        (b"data: x\r\r", [b"x"]),
        (b"data: x\n\r\n", [b"x"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data\n\n", [b""]),
        (b"data:\n\n", [b""]),
        (b": ping\n\n", []),
        (b": ping\ndata: x\n\n", [b"x"]),
        (b"event: e\nid: 1\nretry: 5\ndata: x\n\n", [b"x"]),
        (b"\xef\xbb\xbfdata: x\n\n", [b"x"]),
        (b"data: x\n\n\xef\xbb\xbfdata: y\n\n", [b"x"]),
        (b"datas: x\n\n", []),
        (b"data: a\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: unfinished\n", []),
    ],
)
def test_the_parser_follows_the_standard(body: bytes, expected: list[bytes]) -> None:
    assert payloads(body) == expected


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_a_stream_cut_at_any_byte_has_the_same_payloads(line_end: bytes) -> None:
    lines = ["data: 你好", "data: 🙂", "", ": c", "", "data:x", ""]
    body = b"\xef\xbb\xbf" + b"".join(line.encode() + line_end for line in lines)

    for at in range(len(body) + 1):
        assert payloads(body[:at], body[at:]) == ["你好\n🙂".encode(), b"x"]


def test_a_payload_comes_out_with_the_byte_that_completes_it() -> None:
    parser = SseParser()

    assert parser.feed(b"data: x\r\n") == []
    assert parser.feed(b"\r") == [b"x"]
    assert parser.feed(b"\n") == []


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


def test_encode_asks_for_token_ids_only_of_servers_that_know_them() -> None:
    request = Request(index=0, label="a", prompt_token_ids=(5,), max_tokens=1)

    wire = OpenAICompletionsDialect(asks_token_ids=True).encode(request, "m")

    assert json.loads(wire.body)["return_token_ids"] is True


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


TEXTS = st.text(
    alphabet=st.one_of(st.sampled_from("你好🙂é \n\r\"'\\:"), st.characters(codec="utf-8")),
    min_size=1,
    max_size=6,
)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    line_end = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    pieces = [
        text_event(text, draw(st.one_of(st.none(), st.just([1]), st.just([1, 2]))))
        for text in draw(st.lists(TEXTS, max_size=5))
    ]
    comment = draw(st.sampled_from([b"", b": ping\n\n", b"data:\n\n"]))
    tail = draw(
        st.sampled_from(
            [FINISH + usage_event(3) + DONE, FINISH, DONE, b"", event({"error": "x"}), b"data: {"]
        )
    )
    return comment.join([b"", *pieces, tail]).replace(b"\n", line_end)


@given(body=streams(), data=st.data())
def test_any_cutting_into_reads_gives_the_same_answer(body: bytes, data: st.DataObject) -> None:
    offsets = st.integers(min_value=0, max_value=len(body))
    cuts = sorted(data.draw(st.lists(offsets, max_size=12)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    cut = decode(*pieces)

    assert without_stamps(cut) == without_stamps(decode(body))
    stamps = [e.received_ns for e in cut.events]
    assert stamps == sorted(stamps)


@given(text=st.text(alphabet="你好世界🙂🚀é", min_size=1, max_size=20))
def test_text_of_wide_characters_survives_being_read_byte_by_byte(text: str) -> None:
    body = b"".join(text_event(character, [1]) for character in text) + FINISH + DONE

    answer = decode(*(body[at : at + 1] for at in range(len(body))))

    assert "".join(e.text for e in answer.events) == text
    assert answer.output_tokens == len(text)


def without_stamps(answer: Answer) -> Answer:
    events = tuple(e._replace(received_ns=0) for e in answer.events)
    first_event_ns = None if answer.first_event_ns is None else 0
    return replace(answer, events=events, first_event_ns=first_event_ns)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=4,
)
choices = st.fixed_dictionaries(
    {},
    optional={
        "text": json_values | st.text(max_size=4),
        "finish_reason": json_values | st.sampled_from(["stop", "length"]),
        "token_ids": json_values | st.lists(st.integers(0, 9), max_size=3),
        "delta": json_values | st.fixed_dictionaries({"content": st.text(max_size=3)}),
    },
)
chunk_payloads = st.fixed_dictionaries(
    {},
    optional={
        "choices": json_values | st.lists(choices, max_size=2),
        "usage": json_values
        | st.fixed_dictionaries(
            {}, optional={"prompt_tokens": json_values, "completion_tokens": json_values}
        ),
        "error": json_values | st.fixed_dictionaries({"message": st.text(max_size=3)}),
        "object": json_values | st.just("error"),
        "message": json_values,
        "detail": json_values,
    },
)


@given(chunk_payloads)
def test_the_quick_reading_of_a_chunk_says_what_the_slow_one_says(payload: object) -> None:
    encoded = msgspec.json.encode(payload)

    assert read_chunk(encoded) == read_unusual_chunk(encoded)
