"""The HTTP front over a small real engine, through real sockets, and read by our own dialect."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any, TypeVar

import aiohttp
import pytest
from aiohttp import web

from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.dialects.sse import SseParser
from engines.serving.app import OpenAIFront
from engines.serving.generation import GeneratedToken, GenerationRequest, RequestRefused
from harness.core.engine import Capture, Ending, EngineFacts, Read
from harness.core.jsonable import from_json
from harness.core.record import Outcome, TokenSource
from harness.core.workload import Request

MODEL = "echo-model"
CONTEXT_TOKENS = 4096
EOS = 256
T = TypeVar("T")


class ByteCodec:
    """Token ids 0 to 255 are bytes; EOS has no text."""

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode())

    def encode_chat(self, messages: list[tuple[str, str]]) -> tuple[int, ...]:
        return self.encode("".join(f"[{role}]{content}" for role, content in messages))

    def decode(self, token_ids: tuple[int, ...]) -> str:
        return bytes(i for i in token_ids if i != EOS).decode(errors="replace")


class EchoEngine:
    """Answers with the prompt, over and over; after one round it ends, unless told to ignore that.

    It can be made to fail after some tokens, and to hold the tokens from a given one on.
    """

    def __init__(self, fails_after: int | None = None, holds_from: int | None = None) -> None:
        self.codec = ByteCodec()
        self.fails_after = fails_after
        self.holds_from = holds_from
        self.go_on = asyncio.Event()
        self.is_holding = asyncio.Event()
        self.is_closed = asyncio.Event()

    def start(self) -> None:
        """Tokens are made while they are asked for; there is nothing to start."""

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GeneratedToken, None]:
        asked = len(request.prompt_token_ids) + request.max_tokens
        if asked > CONTEXT_TOKENS:
            msg = f"prompt and answer are {asked} tokens, the context is {CONTEXT_TOKENS}"
            raise RequestRefused(msg)
        try:
            for made in range(request.max_tokens):
                if made == self.fails_after:
                    msg = "out of memory"
                    raise RuntimeError(msg)
                if made == self.holds_from:
                    self.is_holding.set()
                    await self.go_on.wait()
                await asyncio.sleep(0)
                yield self._token(request, made)
                if made == len(request.prompt_token_ids) and not request.ignore_eos:
                    return
        finally:
            self.is_closed.set()

    def _token(self, request: GenerationRequest, made: int) -> GeneratedToken:
        prompt = request.prompt_token_ids
        if made == len(prompt) and not request.ignore_eos:
            return GeneratedToken(EOS, "stop")
        return GeneratedToken(
            prompt[made % len(prompt)], "length" if made + 1 == request.max_tokens else None
        )

    def facts(self) -> EngineFacts:
        return EngineFacts(
            version="1", model=MODEL, context_tokens=CONTEXT_TOKENS, settings={"slots": 2}
        )

    def gauges(self) -> Mapping[str, float]:
        return {"requests_running": 1.0, "tokens_generated_total": 7}

    def histograms(self) -> tuple[()]:
        return ()

    def drain(self) -> None:
        """No request waits for another."""

    async def stop(self) -> None:
        """Nothing was started."""


@asynccontextmanager
async def serving(engine: EchoEngine) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    runner = web.AppRunner(OpenAIFront(engine).app(), handler_cancellation=True, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession() as session:
            yield session, url
    finally:
        await runner.cleanup()


def on_server(
    test: Callable[[EchoEngine, aiohttp.ClientSession, str], Awaitable[T]],
    fails_after: int | None = None,
    holds_from: int | None = None,
) -> T:
    async def run() -> T:
        engine = EchoEngine(fails_after, holds_from)
        async with serving(engine) as (session, url):
            return await asyncio.wait_for(test(engine, session, url), timeout=60)

    return asyncio.run(run())


def completion(**changes: Any) -> dict[str, Any]:
    body = {"model": MODEL, "prompt": "ab", "max_tokens": 3, "ignore_eos": True, **changes}
    return {name: value for name, value in body.items() if value is not ...}


def chat(**changes: Any) -> dict[str, Any]:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], **changes}
    return {name: value for name, value in body.items() if value is not ...}


def post(
    path: str, body: object, fails_after: int | None = None
) -> tuple[int, bytes, Mapping[str, str]]:
    async def test(
        _: EchoEngine, session: aiohttp.ClientSession, url: str
    ) -> tuple[int, bytes, Mapping[str, str]]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with session.post(url + path, data=BytesIO(data)) as response:
            return response.status, await response.read(), response.headers

    return on_server(test, fails_after)


def events(body: bytes) -> list[Any]:
    """The events of a stream as JSON, with the end mark as the string that it is."""
    return [p.decode() if p == b"[DONE]" else json.loads(p) for p in SseParser().feed(body)]


def test_a_completion_is_one_json_body() -> None:
    status, body, _ = post("/v1/completions", completion(return_token_ids=True))

    answer = json.loads(body)
    assert status == 200
    assert answer["object"] == "text_completion"
    assert answer["model"] == MODEL
    assert answer["choices"] == [
        {
            "index": 0,
            "text": "aba",
            "logprobs": None,
            "finish_reason": "length",
            "token_ids": [97, 98, 97],
        }
    ]
    assert answer["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}


def test_a_streamed_completion_is_one_event_per_token_then_usage_then_done() -> None:
    options = {"include_usage": True}
    status, body, headers = post(
        "/v1/completions", completion(stream=True, stream_options=options, return_token_ids=True)
    )

    *tokens, usage, done = events(body)
    assert status == 200
    assert headers["Content-Type"].startswith("text/event-stream")
    assert [e["choices"][0]["text"] for e in tokens] == ["a", "b", "a"]
    assert [e["choices"][0]["token_ids"] for e in tokens] == [[97], [98], [97]]
    assert [e["choices"][0]["finish_reason"] for e in tokens] == [None, None, "length"]
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 3)
    assert done == "[DONE]"
    assert len({e["id"] for e in (*tokens, usage)}) == 1


def test_usage_and_ids_come_only_when_asked_for() -> None:
    _, body, _ = post("/v1/completions", completion(stream=True))

    *tokens, done = events(body)
    assert len(tokens) == 3
    assert done == "[DONE]"
    assert all("usage" not in e and "token_ids" not in e["choices"][0] for e in tokens)


def test_the_end_token_ends_the_answer_and_counts() -> None:
    _, body, _ = post("/v1/completions", completion(max_tokens=99, ignore_eos=False))

    answer = json.loads(body)
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == 3
    assert answer["choices"][0]["text"] == "ab"


@pytest.mark.parametrize("prompt", ["ab", [97, 98], ["ab"], [[97, 98]]])
def test_one_prompt_may_come_as_text_or_as_ids(prompt: object) -> None:
    status, body, _ = post("/v1/completions", completion(prompt=prompt))

    assert status == 200
    assert json.loads(body)["choices"][0]["text"] == "aba"


def test_harmless_fields_are_accepted() -> None:
    extra = {
        "user": "u",
        "n": 1,
        "logprobs": None,
        "seed": 5,
        "top_p": 1.0,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "stop": None,
        "temperature": 0.0,
    }
    status, _, _ = post("/v1/completions", completion(**extra))

    assert status == 200


def test_max_tokens_is_16_unless_given() -> None:
    _, body, _ = post("/v1/completions", completion(max_tokens=...))

    assert json.loads(body)["usage"]["completion_tokens"] == 16


def test_a_chat_is_answered_whole() -> None:
    status, body, _ = post("/v1/chat/completions", chat(max_completion_tokens=6))

    answer = json.loads(body)
    assert status == 200
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "[user]"}
    assert answer["usage"]["completion_tokens"] == 6


def test_a_streamed_chat_names_the_role_with_the_first_token() -> None:
    _, body, _ = post("/v1/chat/completions", chat(max_tokens=3, stream=True))

    *tokens, done = events(body)
    assert [e["choices"][0]["delta"] for e in tokens] == [
        {"role": "assistant", "content": "["},
        {"content": "u"},
        {"content": "s"},
    ]
    assert tokens[-1]["choices"][0]["finish_reason"] == "length"
    assert {e["object"] for e in tokens} == {"chat.completion.chunk"}
    assert done == "[DONE]"


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        (b"{", 400, None),
        (b"", 400, None),
        (b"[" * 100_000, 400, None),
        (b'{"model": "\xff"}', 400, None),
        (b'{"model": "echo-model", "prompt": "\\ud800 a"}', 400, None),
        (b'{"model": "echo-model", "max_tokens": NaN}', 400, None),
        (b'{"model": "echo-model", "prompt": [%s]}' % (b"9" * 5000), 400, None),
        (completion(prompt=[-1]), 400, "prompt"),
        (completion(prompt=[True]), 400, "prompt"),
        (completion(prompt=[]), 400, "prompt"),
        (completion(prompt=...), 400, "prompt"),
        (completion(max_tokens=1.5), 400, "max_tokens"),
        (completion(max_tokens=10**30), 400, None),
        (completion(prompt="a" * 5000), 400, None),
        (completion(ignore_eso=True), 400, "ignore_eso"),
        (completion(model="other"), 404, "model"),
        (completion(prompt=""), 400, "prompt"),
        (completion(max_tokens=0), 400, "max_tokens"),
        (completion(temperature=1), 400, "temperature"),
    ],
)
def test_a_bad_request_is_answered_with_an_error_object(
    body: object, status: int, param: str | None
) -> None:
    got, text, headers = post("/v1/completions", body)

    error = json.loads(text)["error"]
    assert got == status
    assert headers["Content-Type"].startswith("application/json")
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"] == param


def test_a_bad_chat_is_answered_with_an_error_object() -> None:
    status, body, _ = post("/v1/chat/completions", chat(messages=[]))

    assert status == 400
    assert json.loads(body)["error"]["param"] == "messages"


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_by_the_engine_has_a_status_even_when_streamed(*, stream: bool) -> None:
    status, body, _ = post("/v1/completions", completion(max_tokens=5000, stream=stream))

    assert status == 400
    assert "the context is 4096" in json.loads(body)["error"]["message"]


@pytest.mark.parametrize("body", [b" " * (10 * 2**20), completion(prompt="a" * 10 * 2**20)])
def test_a_body_of_10_mib_is_refused_with_the_most_that_the_context_allows(body: object) -> None:
    status, text, _ = post("/v1/completions", body)

    assert status == 413
    assert f"the {2**16 + 128 * CONTEXT_TOKENS} bytes" in json.loads(text)["error"]["message"]


def test_a_long_text_is_cut_into_tokens_while_others_are_answered() -> None:
    class HeldCodec(ByteCodec):
        is_held = threading.Event()
        go_on = threading.Event()

        def encode(self, text: str) -> tuple[int, ...]:
            if len(text) > 2**14:
                self.is_held.set()
                self.go_on.wait()
            return super().encode(text)

    async def test(engine: EchoEngine, session: aiohttp.ClientSession, url: str) -> list[int]:
        engine.codec = HeldCodec()
        try:
            long = completion(prompt="a" * 2**15)
            asking = asyncio.create_task(session.post(url + "/v1/completions", json=long))
            while not engine.codec.is_held.is_set():
                await asyncio.sleep(0.001)
            async with session.post(url + "/v1/completions", json=completion()) as response:
                first = response.status
        finally:
            engine.codec.go_on.set()
        return [first, (await asking).status]

    assert on_server(test) == [200, 400]


def test_a_body_of_unknown_length_is_refused_once_it_is_too_large() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b" " * 2**16

    async def test(_: EchoEngine, session: aiohttp.ClientSession, url: str) -> int:
        async with session.post(url + "/v1/completions", data=pieces()) as response:
            return response.status

    assert on_server(test) == 413


def test_an_unknown_route_is_an_error_object_too() -> None:
    status, body, _ = post("/v1/embeddings", {})

    assert status == 404
    assert "/v1/embeddings" in json.loads(body)["error"]["message"]


def test_the_other_routes_say_what_the_engine_is() -> None:
    async def test(_: EchoEngine, session: aiohttp.ClientSession, url: str) -> dict[str, str]:
        texts = {}
        for path in ("/health", "/v1/models", "/metrics", "/server_info"):
            async with session.get(url + path) as response:
                assert response.status == 200
                texts[path] = await response.text()
        return texts

    texts = on_server(test)

    model = json.loads(texts["/v1/models"])["data"][0]
    assert (model["id"], model["max_model_len"]) == (MODEL, CONTEXT_TOKENS)
    assert texts["/metrics"].splitlines()[:6] == [
        "# HELP batchmark_requests_running The engine's requests running.",
        "# TYPE batchmark_requests_running gauge",
        "batchmark_requests_running 1.0",
        "# HELP batchmark_tokens_generated_total The engine's tokens generated.",
        "# TYPE batchmark_tokens_generated_total counter",
        "batchmark_tokens_generated_total 7",
    ]
    facts = from_json(EngineFacts, json.loads(texts["/server_info"]))
    assert facts == EchoEngine().facts()


@pytest.mark.parametrize(("fails_after", "ended"), [(None, 2), (1, 0)])
def test_the_metrics_page_times_first_tokens_and_whole_answers(
    fails_after: int | None, ended: int
) -> None:
    async def test(_: EchoEngine, session: aiohttp.ClientSession, url: str) -> str:
        for body in (completion(), completion(stream=True), completion(max_tokens=CONTEXT_TOKENS)):
            async with session.post(url + "/v1/completions", json=body) as response:
                await response.read()
        async with session.get(url + "/metrics") as response:
            return await response.text()

    lines = on_server(test, fails_after).splitlines()

    assert "# TYPE batchmark_ttft_seconds histogram" in lines
    assert "batchmark_ttft_seconds_count 2" in lines
    assert f"batchmark_e2e_seconds_count {ended}" in lines


def test_wide_characters_of_one_byte_tokens_arrive_whole() -> None:
    text = "你好🙂é"
    tokens = len(text.encode())
    _, body, _ = post("/v1/completions", completion(prompt=text, max_tokens=tokens, stream=True))

    *made, done = events(body)
    texts = [e["choices"][0]["text"] for e in made]
    assert done == "[DONE]"
    assert len(made) == tokens
    assert [t for t in texts if t] == list(text)


def test_a_character_that_is_cut_by_the_length_is_flushed_with_the_last_token() -> None:
    _, body, _ = post("/v1/completions", completion(prompt="a🙂", max_tokens=3, stream=True))

    texts = [e["choices"][0]["text"] for e in events(body)[:-1]]
    assert texts == ["a", "", "\ufffd"]


def test_an_engine_that_fails_in_the_middle_ends_the_stream_with_an_error_and_no_done() -> None:
    status, body, _ = post("/v1/completions", completion(stream=True), fails_after=2)

    first, second, last = events(body)
    assert status == 200
    assert [first["choices"][0]["text"], second["choices"][0]["text"]] == ["a", "b"]
    assert last["error"]["message"] == "the engine failed: out of memory"


@pytest.mark.parametrize(("stream", "fails_after"), [(False, 2), (True, 0)])
def test_an_engine_that_fails_before_anything_was_sent_is_a_500(
    *, stream: bool, fails_after: int
) -> None:
    status, body, _ = post("/v1/completions", completion(stream=stream), fails_after)

    assert status == 500
    assert json.loads(body)["error"]["type"] == "server_error"


def test_health_is_503_once_the_engine_has_failed() -> None:
    async def test(_: EchoEngine, session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
        async with session.post(url + "/v1/completions", json=completion()):
            pass
        async with session.get(url + "/health") as response:
            return response.status, await response.text()

    status, text = on_server(test, fails_after=0)

    assert status == 503
    assert "out of memory" in text


@pytest.mark.parametrize("holds_from", [0, 1])
def test_a_client_that_goes_away_cancels_its_request(holds_from: int) -> None:
    async def test(engine: EchoEngine, session: aiohttp.ClientSession, url: str) -> bool:
        asking = asyncio.create_task(
            session.post(url + "/v1/completions", json=completion(stream=True))
        )
        await engine.is_holding.wait()
        assert not engine.is_closed.is_set()
        if holds_from:
            (await asking).close()
        else:
            asking.cancel()
        await engine.is_closed.wait()
        return engine.go_on.is_set()

    assert not on_server(test, holds_from=holds_from)


def test_each_token_is_sent_before_the_next_is_made() -> None:
    async def test(engine: EchoEngine, session: aiohttp.ClientSession, url: str) -> bytes:
        async with session.post(url + "/v1/completions", json=completion(stream=True)) as response:
            await engine.is_holding.wait()
            early = b""
            while early.count(b"\n\n") < 2:
                early += await response.content.readany()
            engine.go_on.set()
            await response.read()
            return early

    assert [e["choices"][0]["text"] for e in events(on_server(test, holds_from=2))] == ["a", "b"]


@pytest.mark.parametrize("asks_token_ids", [False, True])
def test_our_dialect_reads_back_the_tokens_that_the_engine_made(*, asks_token_ids: bool) -> None:
    dialect = OpenAICompletionsDialect(asks_token_ids)
    prompt = tuple("你好🙂".encode())
    wire = dialect.encode(Request(0, "a", prompt, max_tokens=25), MODEL)

    async def test(_: EchoEngine, session: aiohttp.ClientSession, url: str) -> Capture:
        reads: list[Read] = []
        async with session.request(
            wire.method, url + wire.path, data=wire.body, headers=dict(wire.headers)
        ) as response:
            async for body in response.content.iter_any():
                reads.append(Read(len(reads), body))
            headers = tuple(response.headers.items())
            return Capture(0, response.status, headers, 0, tuple(reads), 1, Ending.COMPLETE)

    answer = dialect.decode(on_server(test))

    assert answer.outcome is Outcome.OK
    assert answer.finish_reason == "length"
    assert (answer.prompt_tokens, answer.output_tokens) == (10, 25)
    assert "".join(e.text for e in answer.events) == "你好🙂你好🙂你\ufffd"
    if asks_token_ids:
        assert answer.output_tokens_source is TokenSource.ENGINE_IDS
        assert [e.tokens for e in answer.events] == [1] * 25
    else:
        assert answer.output_tokens_source is TokenSource.FINAL_USAGE


def test_our_dialect_reads_the_engines_failure() -> None:
    status, body, _ = post("/v1/completions", completion(stream=True), fails_after=2)

    answer = OpenAICompletionsDialect().decode(
        Capture(0, status, (), 0, (Read(1, body),), 2, Ending.COMPLETE)
    )

    assert answer.outcome is Outcome.FAILED
    assert answer.error is not None
    assert answer.error.kind == "in_stream_error"
    assert len(answer.events) == 2
