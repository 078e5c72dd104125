"""How long the server lives: from a bound port to the signal, or the end of its input."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path

import aiohttp
import pytest

from engines.serving.generation import GeneratedToken, GenerationRequest
from engines.serving.lifetime import serve
from harness.core.engine import EngineFacts
from harness.core.errors import UsageError


class IdsAsText:
    """Each token is its number."""

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode())

    def encode_chat(self, messages: list[tuple[str, str]]) -> tuple[int, ...]:
        return (1,)

    def decode(self, token_ids: tuple[int, ...]) -> str:
        return " ".join(map(str, token_ids))


class HeldEngine:
    """Makes one token of an answer, and the others once it is let go."""

    def __init__(self) -> None:
        self.codec = IdsAsText()
        self.is_started = self.is_drained = self.is_stopped = False
        self.is_holding = asyncio.Event()
        self.go_on = asyncio.Event()

    def start(self) -> None:
        self.is_started = True

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GeneratedToken, None]:
        for made in range(request.max_tokens):
            if made == 1:
                self.is_holding.set()
                await self.go_on.wait()
                if self.is_stopped:
                    msg = "the engine was stopped"
                    raise RuntimeError(msg)
            yield GeneratedToken(made, "length" if made + 1 == request.max_tokens else None)

    def facts(self) -> EngineFacts:
        return EngineFacts(model="m")

    def gauges(self) -> Mapping[str, float]:
        return {}

    def histograms(self) -> tuple[()]:
        return ()

    def drain(self) -> None:
        self.is_drained = True

    async def stop(self) -> None:
        self.is_stopped = True
        self.go_on.set()


def test_serve_answers_until_it_is_told_to_stop() -> None:
    engine = None

    async def run() -> int:
        nonlocal engine
        engine = HeldEngine()
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        server = asyncio.create_task(serve(engine, "127.0.0.1", 0, announce=ready.set_result))
        url = await ready
        assert engine.is_started
        async with aiohttp.ClientSession() as session, session.get(url + "/health") as response:
            status = response.status
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(server, timeout=60)
        return status

    assert asyncio.run(run()) == 200
    assert engine is not None
    assert engine.is_stopped


def test_serve_ends_when_standard_input_does() -> None:
    kept, (reading, writing) = os.dup(0), os.pipe()
    os.dup2(reading, 0)

    async def run() -> None:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        server = asyncio.create_task(
            serve(
                HeldEngine(),
                "127.0.0.1",
                0,
                announce=ready.set_result,
                until_stdin_closes=True,
            )
        )
        await ready
        os.write(writing, b"ignored\n")
        await asyncio.sleep(0)
        assert not server.done()
        os.close(writing)
        await asyncio.wait_for(server, timeout=60)

    try:
        asyncio.run(run())
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(reading)


def test_serve_on_a_port_in_use_says_which_and_never_starts_the_engine() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        async def run() -> HeldEngine:
            engine = HeldEngine()
            with pytest.raises(UsageError, match=rf"port {port} on 127\.0\.0\.1 is in use"):
                await serve(engine, "127.0.0.1", port, announce=lambda _: None)
            return engine

        assert not asyncio.run(run()).is_started


def test_standard_input_from_a_file_is_refused_and_the_engine_stopped() -> None:
    kept = os.dup(0)
    engine = HeldEngine()

    try:
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 0)
            with pytest.raises(UsageError, match="standard input is a file"):
                asyncio.run(
                    serve(
                        engine,
                        "127.0.0.1",
                        0,
                        announce=lambda _: None,
                        until_stdin_closes=True,
                    )
                )
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    assert engine.is_stopped


Answer = tuple[int, str, str | None]


class Serving:
    """A server that runs, and a request in flight that waits for its second token."""

    def __init__(self, engine: HeldEngine, url: str, session: aiohttp.ClientSession) -> None:
        self.engine = engine
        self.url = url
        self.session = session
        self.asking: asyncio.Task[Answer]

    async def ask(self, stream: bool = True, path: str = "/v1/completions") -> Answer:
        body = {"model": "m", "prompt": [1], "max_tokens": 3, "stream": stream}
        method = "GET" if path == "/health" else "POST"
        async with self.session.request(method, self.url + path, json=body) as response:
            return response.status, await response.text(), response.headers.get("Retry-After")

    async def until_it_takes_no_more(self) -> None:
        while (await self.ask(path="/health"))[0] != 503:
            await asyncio.sleep(0.001)


def on_drain(
    use: Callable[[Serving], Awaitable[None]],
    *,
    stream: bool = True,
    drain_s: float = 60.0,
    until_stdin_closes: bool = False,
) -> tuple[HeldEngine, Answer | None]:
    """Send SIGTERM while a request is in flight, `use` the server, and wait for its end."""

    async def run() -> tuple[HeldEngine, Answer | None]:
        engine = HeldEngine()
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        server = asyncio.create_task(
            serve(
                engine,
                "127.0.0.1",
                0,
                announce=ready.set_result,
                drain_s=drain_s,
                until_stdin_closes=until_stdin_closes,
            )
        )
        url = await ready
        async with aiohttp.ClientSession() as session:
            serving = Serving(engine, url, session)
            serving.asking = asyncio.create_task(serving.ask(stream))
            await engine.is_holding.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            await use(serving)
            await asyncio.wait_for(server, timeout=60)
            try:
                return engine, await serving.asking
            except aiohttp.ClientError:
                return engine, None

    return asyncio.run(run())


@pytest.mark.parametrize("stream", [True, False])
def test_after_a_signal_what_is_in_flight_is_answered_and_what_comes_is_sent_away(
    stream: bool,
) -> None:
    async def use(serving: Serving) -> None:
        await serving.until_it_takes_no_more()
        for path in ("/v1/completions", "/v1/chat/completions", "/health"):
            status, text, retry_after = await serving.ask(path=path)
            assert (status, retry_after) == (503, "60")
            assert json.loads(text)["error"]["code"] == "stopping"
        assert not serving.engine.is_stopped
        serving.engine.go_on.set()

    engine, answer = on_drain(use, stream=stream)

    assert engine.is_drained
    assert engine.is_stopped
    assert answer is not None
    assert answer[0] == 200
    if stream:
        assert answer[1].count('"text"') == 3
        assert answer[1].endswith("data: [DONE]\n\n")
    else:
        assert json.loads(answer[1])["usage"]["completion_tokens"] == 3


def test_a_second_signal_ends_without_another_token() -> None:
    async def use(serving: Serving) -> None:
        await serving.until_it_takes_no_more()
        os.kill(os.getpid(), signal.SIGINT)

    engine, answer = on_drain(use)

    assert engine.is_stopped
    assert answer is None or "the engine was stopped" in answer[1]


def test_what_takes_longer_than_the_limit_is_not_waited_for() -> None:
    async def use(_: Serving) -> None:
        """The request stays in flight."""

    engine, answer = on_drain(use, drain_s=0.02)

    assert engine.is_stopped
    assert answer is None or "the engine was stopped" in answer[1]


def test_the_end_of_standard_input_ends_it_whatever_is_in_flight() -> None:
    """The harness closes it before it sends a signal, and must not be made to wait."""
    kept, (reading, writing) = os.dup(0), os.pipe()
    os.dup2(reading, 0)

    async def use(_: Serving) -> None:
        os.close(writing)

    try:
        engine, answer = on_drain(use, until_stdin_closes=True)
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(reading)
    assert engine.is_stopped
    assert answer is None or "the engine was stopped" in answer[1]


def test_the_command_drains_on_a_signal_and_exits_with_0(tiny_model: Path) -> None:
    async def run() -> tuple[int, bytes]:
        server = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "harness.cli", "serve", "--model", str(tiny_model), "--port", "0"),
            *("--dtype", "float32", "--threads", "1", "--kv-tokens", "4096"),
            stdout=asyncio.subprocess.PIPE,
            stdin=asyncio.subprocess.DEVNULL,
        )
        assert server.stdout is not None
        try:
            url = (await server.stdout.readline()).decode().split(" at ")[1].strip()
            asked = {"prompt": [1], "max_tokens": 400, "ignore_eos": True, "stream": True}
            body = {"model": tiny_model.name, **asked}
            async with (
                aiohttp.ClientSession() as session,
                session.post(url + "/v1/completions", json=body) as response,
            ):
                await response.content.readuntil(b"\n\n")
                server.send_signal(signal.SIGTERM)
                rest = await response.read()
            return await asyncio.wait_for(server.wait(), 60), rest
        finally:
            if server.returncode is None:
                server.kill()
                await server.wait()

    code, rest = asyncio.run(run())

    assert code == 0
    assert rest.count(b'"text"') == 399
    assert rest.endswith(b"data: [DONE]\n\n")
