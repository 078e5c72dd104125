"""Our dialects and the engines' official clients read the same out of the same bytes.

`openai` for the OpenAI-compatible wires, `huggingface_hub` for TGI's own. A scripted server plays
the sections of streams/*.txt over real sockets to both.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.dialects.tgi_generate import TgiDialect
from engines.scripted import Script, ScriptedServer, chunk, response_head
from harness.core.clock import MonotonicClock
from harness.core.engine import Capture, Dialect, Ending, Read
from harness.core.record import Answer
from harness.core.workload import Request

REQUEST = Request(index=0, label="a", prompt_token_ids=(504, 2365), max_tokens=3)


@dataclass(frozen=True)
class Told:
    """What a client makes of an answer; None where it does not say."""

    text: str
    finish: str | None
    ids: int | None = None
    usage: tuple[int, int] | None = None


def script_of(engine: str, name: str) -> Script:
    """One section of an engine's file as a server sends it, each line in a chunk of its own."""
    text = (Path(__file__).parent / "streams" / f"{engine}.txt").read_bytes()
    head, body = re.findall(
        rb"^=== " + name.encode() + rb" \| (.*)\n((?:(?!=== ).*\n)*)", text, re.MULTILINE
    )[0]
    status, content_type, ending = head.decode().split(" | ")
    lines = [chunk(line) for line in body.splitlines(keepends=True)]
    end = [chunk(b"")] if ending == "complete" else []
    pieces = [response_head(int(status), content_type), *lines, *end]
    return Script(tuple((0, piece) for piece in pieces))


def played(script: Script, ask: Callable[[str], Awaitable[object]]) -> object:
    async def main() -> object:
        async with ScriptedServer([script], MonotonicClock()) as server:
            return await ask(server.url)

    return asyncio.run(main())


def ours(dialect: Dialect, script: Script) -> Answer:
    wire = dialect.encode(REQUEST, "m")

    async def ask(url: str) -> Answer:
        reads: list[Read] = []
        ending = Ending.COMPLETE
        async with (
            aiohttp.ClientSession() as session,
            session.request(wire.method, url + wire.path, data=wire.body) as response,
        ):
            try:
                async for body in response.content.iter_any():
                    reads.append(Read(len(reads), body))
            except aiohttp.ClientPayloadError:
                ending = Ending.CUT
            headers = tuple(response.headers.items())
            return dialect.decode(Capture(0, response.status, headers, 0, tuple(reads), 1, ending))

    answer = played(script, ask)
    assert isinstance(answer, Answer)
    return answer


def told_by(answer: Answer) -> Told:
    counts = [e.tokens for e in answer.events]
    usage = (
        None if answer.usage_tokens is None else (answer.prompt_tokens or 0, answer.usage_tokens)
    )
    return Told(
        text="".join(e.text for e in answer.events),
        finish=answer.finish_reason,
        ids=sum(n or 0 for n in counts) if answer.output_tokens_source == "engine_ids" else None,
        usage=usage,
    )


OPENAI = [
    (engine, name)
    for engine in ("vllm", "tensorrt-llm", "transformers", "ovms")
    for name in ("happy", "several", "no-usage")
]


async def ask_openai(url: str) -> Told:
    openai = pytest.importorskip("openai")
    text, finish, ids, usage = "", None, None, None
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        stream = await client.completions.create(
            model="m",
            prompt=list(REQUEST.prompt_token_ids),
            max_tokens=3,
            stream=True,
            stream_options={"include_usage": True},
        )
        async for part in stream:
            for choice in part.choices:
                text += choice.text
                finish = choice.finish_reason or finish
                found = (choice.model_extra or {}).get("token_ids")
                ids = ids if found is None else (ids or 0) + len(found)
            if part.usage is not None:
                usage = (part.usage.prompt_tokens, part.usage.completion_tokens)
    return Told(text, finish, ids, usage)


@pytest.mark.parametrize(("engine", "name"), OPENAI)
def test_the_openai_client_reads_what_our_dialect_reads(engine: str, name: str) -> None:
    pytest.importorskip("openai")
    script = script_of(engine, name)

    assert told_by(ours(OpenAICompletionsDialect(), script)) == played(script, ask_openai)


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        (engine, name)
        for engine in ("vllm", "tensorrt-llm", "transformers", "ovms")
        for name in ("overload", "refused-json", "refused-html")
    ],
)
def test_the_openai_client_and_our_dialect_see_the_same_refusal(engine: str, name: str) -> None:
    openai = pytest.importorskip("openai")
    script = script_of(engine, name)

    with pytest.raises(openai.APIStatusError) as raised:
        played(script, ask_openai)
    error = ours(OpenAICompletionsDialect(), script).error

    assert error is not None
    assert error.kind == f"http_{raised.value.status_code}"
    assert error.message in " ".join(raised.value.response.text.split())


def test_the_openai_client_and_our_dialect_see_the_same_error_in_a_stream() -> None:
    openai = pytest.importorskip("openai")
    script = script_of("vllm", "error")

    with pytest.raises(openai.APIError) as raised:
        played(script, ask_openai)
    error = ours(OpenAICompletionsDialect(), script).error

    assert error is not None
    assert error.message == raised.value.message == "EngineCore encountered an issue."


def test_the_openai_client_takes_an_interrupted_answer_for_a_whole_one_and_we_do_not() -> None:
    """Why this client is not on the measuring path: TensorRT-LLM just ends the body."""
    pytest.importorskip("openai")
    script = script_of("tensorrt-llm", "error")

    answer = ours(OpenAICompletionsDialect(), script)

    assert played(script, ask_openai) == told_by(answer)
    assert answer.error is not None
    assert answer.error.kind == "cut"


async def ask_hub(url: str) -> Told:
    hub = pytest.importorskip("huggingface_hub")
    text, finish, ids, usage = "", None, 0, None
    async with hub.AsyncInferenceClient(model=url) as client:
        stream = await client.text_generation(
            "x", details=True, stream=True, max_new_tokens=3, do_sample=False
        )
        async for part in stream:
            text += "" if part.token.special else part.token.text
            ids += 1
            if part.details is not None:
                finish = part.details.finish_reason
                usage = (part.details.input_length, part.details.generated_tokens)
            if part.generated_text is not None:
                assert text == part.generated_text
    return Told(text, finish, ids, usage)


@pytest.mark.parametrize("name", ["happy", "several", "no-usage"])
def test_the_hub_client_reads_what_our_dialect_reads_of_tgi(name: str) -> None:
    pytest.importorskip("huggingface_hub")
    script = script_of("tgi", name)
    told = played(script, ask_hub)
    assert isinstance(told, Told)
    mine = told_by(ours(TgiDialect(str), script))

    assert (mine.text, mine.ids, mine.usage) == (told.text, told.ids, told.usage)
    assert mine.finish == {"eos_token": "stop"}.get(told.finish or "", told.finish)


@pytest.mark.parametrize("name", ["error", "overload", "abort"])
def test_the_hub_client_and_our_dialect_see_the_same_failure_of_tgi(name: str) -> None:
    hub = pytest.importorskip("huggingface_hub.errors")
    script = script_of("tgi", name)

    with pytest.raises(hub.TextGenerationError) as raised:
        played(script, ask_hub)
    error = ours(TgiDialect(str), script).error

    assert error is not None
    assert error.message == str(raised.value)
