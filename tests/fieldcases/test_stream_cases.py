"""What goes wrong when streams are read, as users of other tools reported it: one row a case.

Stamps are milliseconds after the request was sent. References are public issue numbers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product

import pytest

from engines.dialects.openai_completions import OpenAICompletionsDialect
from harness.core.engine import Capture, Ending, Read
from harness.core.record import Answer, Outcome, TokenSource
from harness.core.units import NS_PER_MS

DONE = b"data: [DONE]\n\n"
EVENT_STREAM = "text/event-stream; charset=utf-8"


def event(payload: object) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"


def text(words: str, finish: str | None = None, **more: object) -> bytes:
    return event({"choices": [{"text": words, "finish_reason": finish, **more}]})


def delta(finish: str | None = None, **fields: object) -> bytes:
    return event({"choices": [{"delta": fields, "finish_reason": finish}]})


def usage(completion_tokens: int, choices: object = (), **more: object) -> bytes:
    counts = {"prompt_tokens": 4, "completion_tokens": completion_tokens, **more}
    return event({"choices": choices, "usage": counts})


def tool(**function: object) -> bytes:
    return delta(tool_calls=[{"index": 0, "function": function}])


END = text("", "length") + DONE
ONE = text("a")
GOOD = ONE + END


@dataclass(frozen=True, slots=True)
class Case:
    """A stream as (milliseconds, bytes) reads, and what is right.

    `events` are (milliseconds, tokens) of the events that carried payload.
    """

    name: str
    reads: list[tuple[int, bytes]]
    events: list[tuple[int, int | None]]
    output_tokens: int | None
    outcome: Outcome = Outcome.OK
    error_kind: str | None = None
    source: TokenSource | None = None
    words: str | None = None
    ending: Ending = Ending.COMPLETE
    status: int = 200
    content_type: str = EVENT_STREAM


CASES = [
    Case(
        "A01 a chunk that only names the role is no token (vllm#3768)",
        [
            (1, delta(role="assistant", content="")),
            (200, delta(content="a")),
            (220, delta(content="b") + delta("stop") + usage(2) + DONE),
        ],
        events=[(200, None), (220, None)],
        output_tokens=2,
        source=TokenSource.FINAL_USAGE,
    ),
    Case(
        "A02 a stream of empty texts has no token (vllm#6064)",
        [(1, text("") + text("") + text("", "stop") + DONE)],
        events=[],
        output_tokens=None,
        outcome=Outcome.FAILED,
        error_kind="empty",
    ),
    Case(
        "A02 also when the usage says so",
        [(1, text("", "stop") + usage(0) + DONE)],
        events=[],
        output_tokens=0,
        outcome=Outcome.FAILED,
        error_kind="empty",
    ),
    *(
        Case(
            f"A22 a stream of status {status} is no answer: 200 is (tokenomics#16)",
            [(1, GOOD)],
            events=[],
            output_tokens=None,
            outcome=Outcome.FAILED,
            error_kind=f"http_{status}",
            status=status,
        )
        for status in (201, 206)
    ),
    Case(
        "A05 the trailing usage is no token (vllm#55508)",
        [(900, text("a")), (1000, text("b", "length")), (1200, usage(2)), (1201, DONE)],
        events=[(900, None), (1000, None)],
        output_tokens=2,
    ),
    Case(
        "A06 usage goes before counting chunks (vllm#12288)",
        [(100, text("a")), (200, text("b", "length") + usage(100) + DONE)],
        events=[(100, None), (200, None)],
        output_tokens=100,
        source=TokenSource.FINAL_USAGE,
    ),
    Case(
        "A09 several tokens in an event are several (inference-perf#364)",
        [
            (100, text("a", token_ids=[1])),
            (130, text("bcd", token_ids=[2, 3, 4])),
            (160, text("efgh", "length", token_ids=[5, 6, 7, 8]) + usage(8) + DONE),
        ],
        events=[(100, 1), (130, 3), (160, 4)],
        output_tokens=8,
        source=TokenSource.ENGINE_IDS,
    ),
    Case(
        "A13 running usage shows that the first event bundles four tokens (aiperf#1279)",
        [
            (100, usage(4, [{"text": "abcd"}])),
            (110, usage(5, [{"text": "e"}])),
            (120, usage(6, [{"text": "f", "finish_reason": "length"}]) + usage(6) + DONE),
        ],
        events=[(100, 4), (110, 1), (120, 1)],
        output_tokens=6,
        source=TokenSource.RUNNING_USAGE,
    ),
    Case(
        "A18 an answer of one token is an answer (llmeter#31)",
        [(100, text("a", "length") + usage(1) + DONE)],
        events=[(100, None)],
        output_tokens=1,
    ),
    Case(
        "A22 reasoning tokens are counted once (tokenomics#16)",
        [
            (9, GOOD.removesuffix(DONE)),
            (10, usage(100, completion_tokens_details={"reasoning_tokens": 60}) + DONE),
        ],
        events=[(9, None)],
        output_tokens=100,
    ),
    Case(
        "A23 reasoning is generated text (guidellm#737)",
        [
            (28640, delta(reasoning="hm")),
            (30000, delta(reasoning_content="hm")),
            (34690, delta(content="x") + delta("stop") + DONE),
        ],
        events=[(28640, None), (30000, None), (34690, None)],
        output_tokens=3,
        source=TokenSource.CHUNKS,
    ),
    Case(
        "A24 an answer of reasoning only is an answer (sglang#23018)",
        [(50, delta(reasoning_content="hm", content=None)), (60, delta("length") + DONE)],
        events=[(50, None)],
        output_tokens=1,
    ),
    Case(
        "A26 pieces of a tool call are generated text (aiperf#804)",
        [
            (1, delta(role="assistant", content=None)),
            (20, tool(name="f", arguments="")),
            (30, tool(arguments="")),
            (40, tool(arguments="{}") + delta("tool_calls") + DONE),
        ],
        events=[(20, None), (40, None)],
        output_tokens=2,
    ),
    Case(
        "B01 no blank is needed after data: (genai-bench#159)",
        [(5, GOOD.replace(b"data: ", b"data:"))],
        events=[(5, None)],
        output_tokens=1,
        words="a",
    ),
    Case(
        "B01 nor are two harmful",
        [(5, GOOD.replace(b"data: ", b"data:  "))],
        events=[(5, None)],
        output_tokens=1,
        words="a",
    ),
    Case(
        "B04 three events of one read share its stamp (nm-vllm#142)",
        [(7, text("a") + text("b") + text("c") + END)],
        events=[(7, None)] * 3,
        output_tokens=3,
    ),
    Case(
        "B06 a line of 9 MiB is a line (TensorRT-LLM#13952)",
        [(1, text("a", logprobs="x" * (9 * 2**20))), (2, END)],
        events=[(1, None)],
        output_tokens=1,
    ),
    Case(
        "B07 comments are no events (sglang#37986)",
        [(1, b": keep-alive\n\n"), (2, b":\r\n\r\n"), (90, ONE), (95, b": x\n"), (99, END)],
        events=[(90, None)],
        output_tokens=1,
    ),
    Case(
        "B10 an empty data: is a ping (python-sdk#1670)",
        [(1, b"data:\n\n"), (2, b"data: \n\n"), (3, GOOD)],
        events=[(3, None)],
        output_tokens=1,
    ),
    Case(
        "B11 a comment in the middle of a read ends nothing (continue#13144)",
        [(4, ONE + ONE + b": ping\n\n" + ONE + END)],
        events=[(4, None)] * 3,
        output_tokens=3,
    ),
    *(
        Case(
            f"B12 usage beside {words} is read (llmeter#34)",
            [(1, ONE + text("", "length")), (2, last + DONE)],
            events=[(1, None)],
            output_tokens=7,
            source=TokenSource.FINAL_USAGE,
        )
        for words, last in (
            ("an empty list of choices", usage(7)),
            ("choices: null", usage(7, None)),
            ("no choices", event({"usage": {"prompt_tokens": 1, "completion_tokens": 7}})),
        )
    ),
    Case(
        "B14 a 200 with no body has failed (llmperf#55)",
        [],
        events=[],
        output_tokens=None,
        outcome=Outcome.FAILED,
        error_kind="empty",
    ),
    Case(
        "B15 a stream that is cut after three events has failed, its tokens are kept (aiohttp#4581)",
        [(1, ONE), (2, ONE), (3, ONE)],
        events=[(1, None), (2, None), (3, None)],
        output_tokens=3,
        outcome=Outcome.FAILED,
        error_kind="cut",
        ending=Ending.CUT,
    ),
    Case(
        "B15 also in the middle of an event",
        [(1, ONE), (2, ONE[:-9])],
        events=[(1, None)],
        output_tokens=1,
        outcome=Outcome.FAILED,
        error_kind="cut",
        ending=Ending.CUT,
    ),
    Case(
        "B20 a gateway's error page is told by its status (vllm#19743)",
        [(1, b"<html>\r\n<title>504 Gateway Time-out</title>\r\n</html>")],
        events=[],
        output_tokens=None,
        outcome=Outcome.FAILED,
        error_kind="http_504",
        status=504,
        content_type="text/html",
    ),
    Case(
        "B20 a page with status 200 is no stream",
        [(1, b"<html><title>Welcome</title></html>")],
        events=[],
        output_tokens=None,
        outcome=Outcome.FAILED,
        error_kind="not_event_stream",
        content_type="text/html",
    ),
    *(
        Case(
            f"C01 an error inside a 200 stream is a failure: {words} (vllm#57519)",
            [(1, before + error + DONE)],
            events=[(1, None)] * before.count(ONE),
            output_tokens=before.count(ONE) or None,
            outcome=Outcome.FAILED,
            error_kind="in_stream_error",
        )
        for words, before, error in (
            ("an object", ONE * 5, event({"error": {"message": "boom", "code": 500}})),
            ("a string", ONE * 5, event({"error": "boom", "error_type": "overloaded"})),
            ("before any token", b"", event({"error": {"message": "boom"}})),
            ("named by its event", ONE, b"event: error\n" + event({"message": "boom"})),
            ("of an older kind", ONE, event({"object": "error", "message": "boom"})),
        )
    ),
    Case(
        "C08 a short answer that ends well is told by its own count (inference-perf#655)",
        [(1, ONE * 9 + text("z", "stop") + usage(10) + DONE)],
        events=[(1, None)] * 10,
        output_tokens=10,
    ),
]


def decode(
    reads: list[tuple[int, bytes]],
    ending: Ending = Ending.COMPLETE,
    status: int = 200,
    content_type: str = EVENT_STREAM,
) -> Answer:
    return OpenAICompletionsDialect().decode(
        Capture(
            sent_ns=0,
            status=status,
            headers=(("content-type", content_type),),
            first_byte_ns=None,
            reads=tuple(Read(ms * NS_PER_MS, body) for ms, body in reads),
            closed_ns=None,
            ending=ending,
        )
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_case_is_read_right(case: Case) -> None:
    answer = decode(case.reads, case.ending, case.status, case.content_type)

    found = [(e.received_ns // NS_PER_MS, e.tokens) for e in answer.events]
    assert found == case.events
    assert answer.output_tokens == case.output_tokens
    assert answer.outcome is case.outcome
    assert (answer.error.kind if answer.error else None) == case.error_kind
    if case.source is not None:
        assert answer.output_tokens_source is case.source
    if case.words is not None:
        assert "".join(e.text for e in answer.events) == case.words
    if case.error_kind == "in_stream_error":
        assert answer.error is not None
        assert answer.error.message == "boom"


def test_a03_the_first_event_and_the_first_token_are_two_instants() -> None:
    """tensorzero#4961: there an empty first chunk is the first token; here both are kept."""
    with_role = decode(
        [(1, delta(role="assistant", content="")), (200, delta(content="a") + delta("stop") + DONE)]
    )
    empty = decode([(1, text("") + text("", "stop") + DONE)])

    assert with_role.first_event_ns == 1 * NS_PER_MS
    assert with_role.events[0].received_ns == 200 * NS_PER_MS
    assert empty.first_event_ns == 1 * NS_PER_MS
    assert empty.events == ()


def test_b02_a_stream_cut_at_any_byte_reads_the_same() -> None:
    """vllm#51172, and B03 (vllm#38732): a cut inside a character, or beside a blank."""
    body = (
        b"\xef\xbb\xbf: ping\r\n\r\n" + text("你 ", token_ids=[1, 2]) + text(" 🙂", token_ids=[3])
    )
    body += text("", "length", token_ids=[]) + usage(3) + DONE
    whole = decode([(1, body)])

    for at in range(len(body) + 1):
        answer = decode([(1, body[:at]), (1, body[at:])])
        assert answer == whole
    assert "".join(e.text for e in whole.events) == "你  🙂"
    assert whole.output_tokens == 3


MATRIX = {
    # done, finish, ending -> kind of failure
    (True, True, Ending.COMPLETE): None,
    (True, False, Ending.COMPLETE): None,
    (False, True, Ending.COMPLETE): None,
    (False, False, Ending.COMPLETE): "cut",
    (True, True, Ending.RESET): None,
    (True, False, Ending.RESET): None,
    (False, True, Ending.RESET): "reset",
    (False, False, Ending.RESET): "reset",
}


@pytest.mark.parametrize(
    ("done", "finish", "ending"),
    list(product((True, False), (True, False), (Ending.COMPLETE, Ending.RESET))),
)
def test_b16_success_needs_an_end_and_not_only_text(
    *, done: bool, finish: bool, ending: Ending
) -> None:
    """ragflow#19498: an interrupted answer was a success because some text had come."""
    body = ONE + (text("", "stop") if finish else b"") + (DONE if done else b"")

    answer = decode([(1, body)], ending)

    kind = MATRIX[done, finish, ending]
    assert (answer.error.kind if answer.error else None) == kind
    assert answer.outcome is (Outcome.FAILED if kind else Outcome.OK)
    assert len(answer.events) == 1


def test_b08_a_comment_and_a_blank_line_make_no_event() -> None:
    """llmgateway#2334: the blank line after a comment was read as an event without data."""
    assert decode([(1, b": ping\n\n" + GOOD)]) == decode([(1, GOOD)])
