"""How long the server lives: from a bound port to the signal, or the end of its input."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
from collections.abc import AsyncGenerator, Mapping

import aiohttp
import pytest

from engines.serving.app import serve
from engines.serving.generation import GeneratedToken, GenerationRequest, TextCodec
from harness.core.engine import EngineFacts
from harness.core.errors import UsageError


class IdleEngine:
    """An engine that is asked for nothing."""

    def __init__(self) -> None:
        self.is_started = False
        self.is_stopped = False

    @property
    def codec(self) -> TextCodec:
        raise NotImplementedError

    def start(self) -> None:
        self.is_started = True

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GeneratedToken, None]:
        yield GeneratedToken(0, "length")

    def facts(self) -> EngineFacts:
        return EngineFacts()

    def gauges(self) -> Mapping[str, float]:
        return {}

    async def stop(self) -> None:
        self.is_stopped = True


def test_serve_answers_until_it_is_told_to_stop() -> None:
    engine = None

    async def run() -> int:
        nonlocal engine
        engine = IdleEngine()
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
                IdleEngine(),
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

        async def run() -> IdleEngine:
            engine = IdleEngine()
            with pytest.raises(UsageError, match=rf"port {port} on 127\.0\.0\.1 is in use"):
                await serve(engine, "127.0.0.1", port, announce=lambda _: None)
            return engine

        assert not asyncio.run(run()).is_started


def test_standard_input_from_a_file_is_refused_and_the_engine_stopped() -> None:
    kept = os.dup(0)
    engine = IdleEngine()

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
