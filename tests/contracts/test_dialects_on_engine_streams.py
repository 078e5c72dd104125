"""Each engine's own bytes, read by the dialect that speaks to it: one table of what they say.

The bytes are in streams/*.txt, in the engines' field order and with their nulls. A section begins
with a line `=== name | status | content type | how the connection ended`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from engines.dialects.llama_completion import LlamaCppDialect
from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.dialects.sglang_generate import SglangDialect
from engines.dialects.tgi_generate import TgiDialect
from harness.core.engine import Capture, Dialect, Ending, Read
from harness.core.record import Answer, Outcome, TokenSource

IDS, RUNNING, FINAL, CHUNKS = TokenSource
DIALECTS: dict[str, Dialect] = {
    "vllm": OpenAICompletionsDialect(asks_token_ids=True, asks_running_usage=True),
    "tensorrt-llm": OpenAICompletionsDialect(asks_running_usage=True),
    "transformers": OpenAICompletionsDialect(prompt_as_text=str, ignores_eos_by=None),
    "ovms": OpenAICompletionsDialect(prompt_as_text=str),
    "tgi": TgiDialect(str),
    "sglang": SglangDialect(),
    "llama-cpp": LlamaCppDialect(),
}


def sections(engine: str) -> dict[str, Capture]:
    """The captures in an engine's file, by name; each body came in one read."""
    text = (Path(__file__).parent / "streams" / f"{engine}.txt").read_bytes()
    found = {}
    for part in re.split(rb"^=== ", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition(b"\n")
        name, status, content_type, ending = head.decode().split(" | ")
        headers = (("content-type", content_type),)
        found[name] = Capture(
            0,
            int(status),
            headers,
            1,
            (Read(1, body),),
            2,
            Ending(ending),
            bytes_received=len(body),
        )
    return found


CAPTURES = {(engine, name): c for engine in DIALECTS for name, c in sections(engine).items()}


@dataclass(frozen=True)
class Says:
    """What a stream says. `tokens` are those of each event; `why` is the kind of failure."""

    text: str = ""
    tokens: tuple[int | None, ...] = ()
    source: TokenSource | None = None
    output: int | None = None
    prompt: int | None = None
    usage: int | None = None
    cached: int | None = None
    finish: str | None = None
    why: str | None = None
    message: str | None = None


THE_RED = " the red."
HELLO = "你好 🙂"
NOTHING_MORE = "the stream ended without an end mark and a finish reason"
CLOSED = "connection closed too early"
SAYS = {
    ("vllm", "happy"): Says(THE_RED, (1, 1, 1), IDS, 3, 2, 3, 1, "length"),
    ("vllm", "several"): Says(HELLO + "!", (1, 4, 1), IDS, 6, 2, 6, None, "length"),
    ("vllm", "error"): Says(" the", (1,), IDS, 1, why="in_stream_error", message="EngineCore encountered an issue."),
    ("vllm", "overload"): Says(why="http_503", message="The engine is currently busy and cannot accept new requests."),
    ("vllm", "abort"): Says(" the", (1,), IDS, 1, finish="abort", why="aborted", message="the server ended the answer with finish_reason 'abort'"),
    ("vllm", "cut"): Says(" the", (1,), IDS, 1, why="cut", message=CLOSED),
    ("vllm", "refused-json"): Says(why="http_400", message="This model's maximum context length is 2048 tokens."),
    ("vllm", "refused-html"): Says(why="http_502", message="<html> <head><title>502 Bad Gateway</title></head> <body><center>nginx</center></body> </html>"),
    ("vllm", "no-usage"): Says(THE_RED, (None, None), CHUNKS, 2, finish="length"),
    ("tensorrt-llm", "happy"): Says(THE_RED, (1, 1, 1), RUNNING, 3, 12, 3, 4, "length"),
    ("tensorrt-llm", "several"): Says(HELLO, (3, 2), RUNNING, 5, 12, 5, None, "length"),
    ("tensorrt-llm", "ids"): Says("", (2, 1), IDS, 3, finish="length"),
    ("tensorrt-llm", "error"): Says(" the", (1,), RUNNING, 1, 12, 1, why="cut", message=NOTHING_MORE),
    ("tensorrt-llm", "overload"): Says(why="http_503", message="Service is not ready."),
    ("tensorrt-llm", "abort"): Says(" the", (None,), FINAL, 1, 12, 1, finish="error", why="aborted", message="the server ended the answer with finish_reason 'error'"),
    ("tensorrt-llm", "cut"): Says(" the", (1,), RUNNING, 1, 12, 1, why="reset", message="connection reset"),
    ("tensorrt-llm", "refused-json"): Says(why="http_400", message="[{'type': 'extra_forbidden', 'loc': ('body', 'return_token_ids'), 'msg': 'Extra inputs are not permitted'}]"),
    ("tensorrt-llm", "refused-html"): Says(why="http_404", message="<!doctype html><title>404 Not Found</title>"),
    ("tensorrt-llm", "no-usage"): Says(" the", (None,), CHUNKS, 1, finish="length"),
    ("transformers", "happy"): Says(THE_RED, (None, None), FINAL, 3, 12, 3, None, "length"),
    ("transformers", "several"): Says(HELLO, (None,), FINAL, 6, 12, 6, None, "stop"),
    ("transformers", "error"): Says(" the", (None,), CHUNKS, 1, why="in_stream_error", message='{"error": "cannot find "pad_token" of the model"}'),
    ("transformers", "overload"): Says(why="http_503", message="CB worker is dead and can no longer serve requests"),
    ("transformers", "abort"): Says(" the", (None,), CHUNKS, 1, why="cut", message=CLOSED),
    ("transformers", "cut"): Says(" the", (None,), CHUNKS, 1, why="cut", message=NOTHING_MORE),
    ("transformers", "refused-json"): Says(why="http_422", message="Unexpected fields in the request: {'ignore_eos'}"),
    ("transformers", "refused-html"): Says(why="http_500", message="Internal Server Error"),
    ("transformers", "no-usage"): Says(" the", (None,), CHUNKS, 1, finish="stop"),
    ("ovms", "happy"): Says(" the red fox.", (None, None), FINAL, 4, 12, 4, None, "length"),
    ("ovms", "several"): Says(HELLO, (None,), FINAL, 6, 12, 6, None, "length"),
    ("ovms", "error"): Says(why="cut", message=CLOSED),
    ("ovms", "overload"): Says(why="http_429", message="Too many requests"),
    ("ovms", "abort"): Says(" the red", (None,), CHUNKS, 1, why="reset", message="connection reset"),
    ("ovms", "cut"): Says(" the red", (None,), CHUNKS, 1, why="cut", message=CLOSED),
    ("ovms", "refused-json"): Says(why="http_400", message="Mediapipe execution failed. MP status - INVALID_ARGUMENT: prompt is not a string"),
    ("ovms", "refused-html"): Says(why="http_504", message="<html><body><h1>504 Gateway Time-out</h1></body></html>"),
    ("ovms", "no-usage"): Says(" the red", (None,), CHUNKS, 1, finish="length"),
    ("tgi", "happy"): Says(THE_RED, (1, 1, 1), IDS, 3, 12, 3, None, "length"),
    ("tgi", "several"): Says(HELLO, (1, 1, 1), IDS, 3, 12, 3, None, "stop"),
    ("tgi", "error"): Says(" the", (1,), IDS, 1, why="in_stream_error", message="Request failed during generation: Server error: CUDA out of memory"),
    ("tgi", "overload"): Says(why="in_stream_error", message="Model is overloaded"),
    ("tgi", "abort"): Says(" the", (1,), IDS, 1, why="in_stream_error", message="Incomplete generation stream"),
    ("tgi", "cut"): Says(" the", (1,), IDS, 1, why="cut", message=NOTHING_MORE),
    ("tgi", "refused-json"): Says(why="http_422", message="Input validation error: `inputs` must have less than 1024 tokens. Given: 2000"),
    ("tgi", "refused-html"): Says(why="http_503", message="<html><title>503 Service Temporarily Unavailable</title></html>"),
    ("tgi", "no-usage"): Says(" the.", (1, 1), IDS, 2),
    ("sglang", "happy"): Says(THE_RED, (1, 1, 1), IDS, 3, 12, 3, 8, "length"),
    ("sglang", "several"): Says(HELLO, (1, 2, 2), IDS, 5, 12, 5, 0, "stop"),
    ("sglang", "incremental"): Says(HELLO, (1, 2, 2), IDS, 5, 12, 5, 0, "length"),
    ("sglang", "error"): Says(why="in_stream_error", message="The input (3000 tokens) is longer than the model's context length (2048 tokens)."),
    ("sglang", "overload"): Says("", (), RUNNING, 0, 12, 0, 0, "abort", "aborted", "The request queue is full. (status 503)"),
    ("sglang", "abort"): Says(" the red", (1, 1), IDS, 2, 12, 2, 0, "abort", "aborted", "the server aborted the answer"),
    ("sglang", "cut"): Says(" the", (1,), IDS, 1, 12, 1, 0, None, "reset", "connection reset"),
    ("sglang", "refused-json"): Says(why="http_400", message="unknown field `max_tokens`, expected one of `max_new_tokens`, `temperature`"),
    ("sglang", "refused-html"): Says(why="http_413", message="<html><head><title>413 Request Entity Too Large</title></head></html>"),
    ("sglang", "no-usage"): Says(THE_RED, (None, None), CHUNKS, 2, finish="length"),
    ("llama-cpp", "happy"): Says(THE_RED, (1, 1, 1), RUNNING, 3, 12, 3, 5, "length"),
    ("llama-cpp", "several"): Says("你🙂", (3, 4, 1), RUNNING, 8, 12, 8, 0, "stop"),
    ("llama-cpp", "error"): Says(" the", (1,), RUNNING, 1, 12, 1, why="in_stream_error", message="Context size has been exceeded."),
    ("llama-cpp", "overload"): Says(why="http_503", message="Loading model"),
    ("llama-cpp", "abort"): Says(" the", (1,), RUNNING, 1, 12, 1, why="cut", message=CLOSED),
    ("llama-cpp", "cut"): Says(" the", (1,), RUNNING, 1, 12, 1, why="cut", message=NOTHING_MORE),
    ("llama-cpp", "refused-json"): Says(why="http_400", message="the request exceeds the available context size, try increasing it"),
    ("llama-cpp", "refused-html"): Says(why="http_404", message="<html><body>File Not Found</body></html>"),
    ("llama-cpp", "no-usage"): Says(" the", (None,), CHUNKS, 1, finish="length"),
}  # fmt: skip


def said(answer: Answer) -> Says:
    error = answer.error
    return Says(
        text="".join(e.text for e in answer.events),
        tokens=tuple(e.tokens for e in answer.events),
        source=answer.output_tokens_source,
        output=answer.output_tokens,
        prompt=answer.prompt_tokens,
        usage=answer.usage_tokens,
        cached=answer.cached_tokens,
        finish=answer.finish_reason,
        why=error and error.kind,
        message=error and error.message,
    )


def test_every_engine_has_a_stream_of_each_kind() -> None:
    kinds = set.intersection(*({n for e, n in CAPTURES if e == engine} for engine in DIALECTS))

    assert kinds == {
        *("happy", "several", "error", "overload", "abort", "cut"),
        *("refused-json", "refused-html", "no-usage"),
    }
    assert CAPTURES.keys() == SAYS.keys()


@pytest.mark.parametrize(("engine", "name"), CAPTURES)
def test_the_stream_is_read_as_the_table_says(engine: str, name: str) -> None:
    answer = DIALECTS[engine].decode(CAPTURES[engine, name])

    assert said(answer) == SAYS[engine, name]
    assert answer.outcome is (Outcome.FAILED if SAYS[engine, name].why else Outcome.OK)


@pytest.mark.parametrize(("engine", "name"), CAPTURES)
def test_the_stream_reads_the_same_wherever_it_is_cut(engine: str, name: str) -> None:
    capture, dialect = CAPTURES[engine, name], DIALECTS[engine]
    whole = dialect.decode(capture)
    (read,) = capture.reads

    for at in range(len(read.body)):
        halves = (Read(1, read.body[:at]), Read(1, read.body[at:]))
        assert dialect.decode(replace(capture, reads=halves)) == whole
    bytewise = tuple(Read(1, read.body[at : at + 1]) for at in range(len(read.body)))
    assert dialect.decode(replace(capture, reads=bytewise)) == whole


@pytest.mark.parametrize("engine", DIALECTS)
@pytest.mark.parametrize("name", ["happy", "several"])
def test_an_answer_whose_last_bytes_are_missing_is_never_a_success(engine: str, name: str) -> None:
    capture, dialect = CAPTURES[engine, name], DIALECTS[engine]
    (read,) = capture.reads
    end = read.body.rstrip().rfind(b"\n\n")  # before the last event

    for at in range(end):
        short = replace(capture, reads=(Read(1, read.body[:at]),), ending=Ending.CUT)
        assert dialect.decode(short).outcome is Outcome.FAILED
