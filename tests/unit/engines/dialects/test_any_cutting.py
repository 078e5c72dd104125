"""Every dialect reads the same answer out of the same bytes, however they were cut into reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.dialects.llama_completion import LlamaCppDialect
from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.dialects.sglang_generate import SglangDialect
from engines.dialects.tgi_generate import TgiDialect
from harness.core.engine import Capture, Dialect, Ending, Read
from harness.core.record import Answer, Outcome

Pieces = list[tuple[str, int]]  # the text of an event, and its tokens


def data(payload: object) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"


def openai_stream(pieces: Pieces) -> bytes:
    chunks = [
        data({"choices": [{"text": text, "token_ids": [7] * tokens, "finish_reason": None}]})
        for text, tokens in pieces
    ]
    finish = {"choices": [{"text": "", "token_ids": [], "finish_reason": "length"}]}
    usage = {"completion_tokens": sum(tokens for _, tokens in pieces)}
    return (
        b"".join([*chunks, data(finish), data({"choices": [], "usage": usage})])
        + b"data: [DONE]\n\n"
    )


def tgi_stream(pieces: Pieces) -> bytes:
    """One token an event, so that the further tokens of a piece have no text."""
    texts = [part for text, tokens in pieces for part in (text, *[""] * (tokens - 1))]
    details = {"finish_reason": "length", "generated_tokens": len(texts), "input_length": 3}
    events = [
        {"index": i, "token": {"id": 7, "text": text, "special": False}, "details": None}
        for i, text in enumerate(texts, start=1)
    ]
    events[-1] |= {"generated_text": "".join(texts), "details": details}
    return b"".join(map(data, events)).replace(b"data: ", b"data:")


def sglang_stream(pieces: Pieces, *, is_incremental: bool = False) -> bytes:
    wholes = accumulate(pieces, lambda whole, piece: (whole[0] + piece[0], whole[1] + piece[1]))
    events = []
    for (text, tokens), (whole_text, whole_tokens) in zip(pieces, wholes, strict=True):
        shown = (text, tokens) if is_incremental else (whole_text, whole_tokens)
        meta = {"finish_reason": None, "prompt_tokens": 3, "completion_tokens": whole_tokens}
        events.append({"text": shown[0], "output_ids": [7] * shown[1], "meta_info": meta})
    events[-1]["meta_info"] |= {"finish_reason": {"type": "length", "length": 9}}
    return b"".join(map(data, events)) + b"data: [DONE]\n\n"


def llama_stream(pieces: Pieces) -> bytes:
    totals = list(accumulate(tokens for _, tokens in pieces))
    events = [
        data({"content": text, "tokens": [7], "stop": False, "tokens_predicted": total})
        for (text, _), total in zip(pieces, totals, strict=True)
    ]
    last = {"content": "", "tokens_predicted": totals[-1], "stop": True, "stop_type": "limit"}
    return b"".join([*events, data(last)])


WIRES: dict[str, tuple[Dialect, Callable[[Pieces], bytes]]] = {
    "openai": (OpenAICompletionsDialect(), openai_stream),
    "tgi": (TgiDialect(str), tgi_stream),
    "sglang": (SglangDialect(), sglang_stream),
    "sglang incremental": (SglangDialect(), lambda p: sglang_stream(p, is_incremental=True)),
    "llama": (LlamaCppDialect(), llama_stream),
}
TEXTS = st.text(
    alphabet=st.one_of(st.sampled_from("你好🙂é \n\r\"'\\:"), st.characters(codec="utf-8")),
    min_size=1,
    max_size=6,
)
PIECES = st.lists(st.tuples(TEXTS, st.integers(1, 3)), min_size=1, max_size=5)
TAILS = st.sampled_from([b"", b'data: {"error": "x"}\n\n', b"data: {", b": ping\n\n", b"data:\n\n"])


def answer_to(dialect: Dialect, *bodies: bytes) -> Answer:
    reads = tuple(Read(received_ns, body) for received_ns, body in enumerate(bodies, start=1))
    headers = (("content-type", "text/event-stream"),)
    return dialect.decode(Capture(0, 200, headers, 1, reads, 99, Ending.COMPLETE))


def without_stamps(answer: Answer) -> Answer:
    def unstamped(instant_ns: int | None) -> int | None:
        return None if instant_ns is None else 0

    return replace(
        answer,
        events=tuple(e._replace(received_ns=0) for e in answer.events),
        first_event_ns=unstamped(answer.first_event_ns),
        first_answer_ns=unstamped(answer.first_answer_ns),
    )


@pytest.mark.parametrize("wire", WIRES)
@given(pieces=PIECES, tail=TAILS, line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]), draw=st.data())
def test_any_cutting_into_reads_gives_the_same_answer(
    wire: str, pieces: Pieces, tail: bytes, line_end: bytes, draw: st.DataObject
) -> None:
    dialect, stream = WIRES[wire]
    body = (b": ping\n\n" + stream(pieces) + tail).replace(b"\n", line_end)
    offsets = st.integers(min_value=0, max_value=len(body))
    cuts = sorted(draw.draw(st.lists(offsets, max_size=12)))
    parts = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    cut = answer_to(dialect, *parts)

    assert without_stamps(cut) == without_stamps(answer_to(dialect, body))
    stamps = [e.received_ns for e in cut.events]
    assert stamps == sorted(stamps)


@pytest.mark.parametrize("wire", WIRES)
@given(pieces=PIECES)
def test_the_answer_is_what_was_sent_even_byte_by_byte(wire: str, pieces: Pieces) -> None:
    dialect, stream = WIRES[wire]
    body = stream(pieces)

    answer = answer_to(dialect, *(body[at : at + 1] for at in range(len(body))))

    assert answer.outcome is Outcome.OK
    assert "".join(e.text for e in answer.events) == "".join(text for text, _ in pieces)
    assert answer.output_tokens == answer.usage_tokens == sum(tokens for _, tokens in pieces)
    assert sum(e.tokens or 0 for e in answer.events) == answer.output_tokens
    assert answer.finish_reason == "length"
