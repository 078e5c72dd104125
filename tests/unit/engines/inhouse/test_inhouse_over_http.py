"""The in-house engine behind its front, through sockets: overload, clients that leave or stall."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from engines.inhouse.engine import InhouseEngine
from engines.serving.app import OpenAIFront
from engines.serving.request_queue import QueueLimits

WORD = "x" * 5000
COMPLETIONS = "/v1/completions"


class LongWords:
    """A codec in which every token is a long word, so that few tokens fill a socket."""

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode())

    def encode_chat(self, messages: list[tuple[str, str]]) -> tuple[int, ...]:
        return (1,)

    def decode(self, token_ids: tuple[int, ...]) -> str:
        return WORD * len(token_ids)


class Server:
    """A running front, and a client of it. Its sockets hold little, so that a stall is felt."""

    def __init__(self, url: str, port: int, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.port = port
        self.session = session

    async def ask(self, **changes: Any) -> tuple[int, Any, dict[str, str]]:
        body = {
            "model": "tiny",
            "prompt": [1, 2, 3],
            "max_tokens": 3,
            "ignore_eos": True,
            **changes,
        }
        async with self.session.post(self.url + COMPLETIONS, json=body) as response:
            return response.status, json.loads(await response.read()), dict(response.headers)

    async def metrics(self) -> dict[str, float]:
        async with self.session.get(self.url + "/metrics") as response:
            lines = (await response.text()).splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name.removeprefix("batchmark_"): float(value) for name, value in pairs}

    async def until(self, name: str, value: float) -> None:
        """Ask for the metrics until `name` is `value`."""
        while (await self.metrics())[name] != value:
            await asyncio.sleep(0.001)

    async def until_begun(self, gate: Any) -> None:
        """Wait until the first request is in a step, and waits no more."""
        while not gate.plans:
            await asyncio.sleep(0.001)
        await self.until("requests_waiting", 0)


@asynccontextmanager
async def serving(engine: InhouseEngine) -> AsyncIterator[Server]:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    listening.bind(("127.0.0.1", 0))
    runner = web.AppRunner(
        OpenAIFront(engine).app(), handler_cancellation=True, access_log=None, shutdown_timeout=0.1
    )
    await runner.setup()
    engine.start()
    try:
        await web.SockSite(runner, listening).start()
        port = listening.getsockname()[1]
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Server(f"http://127.0.0.1:{port}", port, session)
    finally:
        await engine.stop()
        await runner.cleanup()


def on_server(
    engine: InhouseEngine, test: Callable[[Server], Awaitable[None]], gate: Any = None
) -> None:
    async def run() -> None:
        async with serving(engine) as server:
            try:
                await asyncio.wait_for(test(server), timeout=60)
            finally:
                if gate is not None:
                    gate.is_open.set()

    asyncio.run(run())


async def stalled(server: Server, **changes: Any) -> socket.socket:
    """A connection that has asked for a stream and reads nothing of it."""
    body = json.dumps(
        {"model": "tiny", "prompt": [1], "ignore_eos": True, "stream": True, **changes}
    ).encode()
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", server.port))
    head = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
    await loop.sock_sendall(client, head.encode() + body)
    return client


async def read_all(client: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    read = b""
    while not read.endswith(b"0\r\n\r\n"):
        piece = await loop.sock_recv(client, 65536)
        assert piece, "the server closed the connection"
        read += piece
    return read


def test_more_than_may_wait_get_a_429_at_once_with_the_time_to_come_back(tiny: Any) -> None:
    gate = tiny.gate()
    engine = tiny.engine(gate, queue=QueueLimits(requests=2), codec=LongWords())

    async def test(server: Server) -> None:
        first = asyncio.create_task(server.ask())
        await server.until("steps_total", 0)
        await server.until_begun(gate)
        others = [asyncio.create_task(server.ask(stream=False)) for _ in range(2)]
        await server.until("requests_waiting", 2)

        for is_streamed in (False, True):
            status, answer, headers = await server.ask(stream=is_streamed)
            assert (status, headers["Retry-After"]) == (429, "1")
            assert answer["error"]["type"] == "rate_limit_error"
            assert answer["error"]["code"] == "queue_full"
            assert "2 requests wait already" in answer["error"]["message"]
        metrics = await server.metrics()
        assert (metrics["queue_tokens"], metrics["requests_rejected_total"]) == (6, 2)
        assert len(gate.plans) == 1  # nobody had to wait for the step to end

        gate.is_open.set()
        assert [(await task)[0] for task in (first, *others)] == [200] * 3
        assert (await server.ask())[0] == 200
        metrics = await server.metrics()
        assert (metrics["queue_seconds_count"], metrics["queue_tokens"]) == (4, 0)
        assert metrics["requests_total"] == 4

    on_server(engine, test, gate)


def test_more_prompt_tokens_than_may_wait_get_a_429_too(tiny: Any) -> None:
    gate = tiny.gate()
    engine = tiny.engine(gate, queue=QueueLimits(tokens=10), codec=LongWords())

    async def test(server: Server) -> None:
        first = asyncio.create_task(server.ask(prompt=[1] * 20))
        await server.until_begun(gate)
        other = asyncio.create_task(server.ask(prompt=[1] * 8))
        await server.until("queue_tokens", 8)

        status, answer, _ = await server.ask(prompt=[1] * 3)
        assert status == 429
        assert "8 prompt tokens wait already" in answer["error"]["message"]
        gate.is_open.set()
        assert [(await task)[0] for task in (first, other)] == [200, 200]

    on_server(engine, test, gate)


@pytest.mark.parametrize("prefix_cache", [False, True])
def test_a_client_that_leaves_frees_its_blocks_before_the_next_step(
    tiny: Any, prefix_cache: bool
) -> None:
    gate = tiny.gate()
    engine = tiny.engine(gate, codec=LongWords(), prefix_cache=prefix_cache)

    async def test(server: Server) -> None:
        leaver = await stalled(server, prompt=[1] * 9, max_tokens=50)
        stayer = asyncio.create_task(server.ask(max_tokens=8))
        while not gate.plans:
            await asyncio.sleep(0.001)
        while len(gate.plans[-1].producing) < 2:
            await gate.next_step()
        held = len(gate.plans)
        leaver.close()
        while len(engine._tickets) > 1:  # the front has noticed; the step goes on
            await asyncio.sleep(0.001)
        assert (await server.metrics())["kv_blocks_used"] > 0
        gate.is_open.set()
        assert (await stayer)[0] == 200
        assert [len(plan.producing) for plan in gate.plans[held:]] == [1] * (len(gate.plans) - held)
        await server.until("kv_blocks_used", 0)
        assert (await server.metrics())["requests_running"] == 0
        assert gate.sequence_ids == ()

    on_server(engine, test, gate)


def test_a_client_that_leaves_the_queue_is_never_begun(tiny: Any) -> None:
    gate = tiny.gate()
    engine = tiny.engine(gate, codec=LongWords(), queue=QueueLimits(requests=1))

    async def test(server: Server) -> None:
        first = asyncio.create_task(server.ask())
        await server.until_begun(gate)
        leaver = await stalled(server, max_tokens=5)
        await server.until("requests_waiting", 1)
        leaver.close()
        await server.until("requests_waiting", 0)
        next_one = asyncio.create_task(server.ask())
        await server.until("requests_waiting", 1)
        gate.is_open.set()
        assert [(await task)[0] for task in (first, next_one)] == [200, 200]
        metrics = await server.metrics()
        assert (metrics["requests_total"], metrics["queue_seconds_count"]) == (2, 2)
        assert metrics["output_tokens_total"] == 6

    on_server(engine, test, gate)


def test_a_client_that_stops_reading_stops_nobody_and_gets_everything_once_it_reads(
    tiny: Any,
) -> None:
    asked = 60
    engine = tiny.engine(tiny.runner(), codec=LongWords())

    async def test(server: Server) -> None:
        client = await stalled(server, max_tokens=asked)
        await server.until("requests_running", 0)
        await server.until("output_tokens_total", asked)  # made, and waiting for their reader
        (ticket,) = engine._in_flight._tickets
        assert 0 < ticket.inbox.qsize() < asked

        for _ in range(3):
            status, answer, _ = await server.ask(max_tokens=20)
            assert (status, answer["usage"]["completion_tokens"]) == (200, 20)
        assert (await server.metrics())["kv_blocks_used"] == 0
        assert ticket.inbox.qsize() > 0

        text = await read_all(client)
        client.close()
        assert text.count(WORD.encode()) == asked
        assert b"data: [DONE]" in text

    on_server(engine, test)


def test_a_client_that_stalls_and_then_leaves_is_forgotten(tiny: Any) -> None:
    engine = tiny.engine(tiny.runner(), codec=LongWords())

    async def test(server: Server) -> None:
        client = await stalled(server, max_tokens=60)
        await server.until("output_tokens_total", 60)
        assert engine._in_flight._tickets
        client.close()
        while engine._in_flight._tickets:
            await asyncio.sleep(0.001)
        assert (await server.ask())[0] == 200

    on_server(engine, test)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"prompt": [1] * 94},
            "94 prompt tokens and max_tokens 3 do not fit into the context of 96",
        ),
        ({"prompt": "a" * 5000}, "5000 prompt tokens and max_tokens 3 do not fit into the context"),
        (
            {"prompt": [1] * 63},
            "63 prompt tokens and max_tokens 3 do not fit into the KV cache of 64",
        ),
        ({"max_tokens": 10**30}, "do not fit into the context of 96 tokens"),
        ({"max_tokens": 0}, "max_tokens is 0; it must be a whole number of at least 1"),
        ({"prompt": []}, "prompt is empty"),
        ({"prompt": ""}, "prompt is empty"),
        ({"prompt": [1, 128, 2]}, "token id 128; ids are 0 to 127"),
        ({"prompt": [10**30]}, f"token id {10**30}; ids are 0 to 127"),
        ({"prompt": [-1]}, "prompt must be a string, or a list of token ids"),
        ({"ignore_eso": True}, "unknown field 'ignore_eso'"),
    ],
)
def test_what_cannot_be_served_is_a_400_in_words_and_leaves_no_trace(
    tiny: Any, changes: dict[str, Any], words: str
) -> None:
    async def test(server: Server) -> None:
        for is_streamed in (False, True):
            status, answer, headers = await server.ask(stream=is_streamed, **changes)
            assert (status, headers["Content-Type"]) == (400, "application/json")
            assert words in answer["error"]["message"]
        metrics = await server.metrics()
        names = ("requests_waiting", "queue_tokens", "requests_rejected_total", "kv_blocks_used")
        assert [metrics[name] for name in names] == [0] * 4
        assert (await server.ask())[0] == 200

    on_server(tiny.engine(tiny.runner(), codec=LongWords()), test)


def test_many_clients_that_come_go_and_stall_leave_nothing_behind(
    tiny: Any, caplog: pytest.LogCaptureFixture
) -> None:
    queue = QueueLimits(requests=6, tokens=60)
    engine = tiny.engine(
        tiny.runner(kv_blocks=40),
        codec=LongWords(),
        queue=queue,
        kv_blocks=40,
        capacity="max_utilization",
        prefix_cache=True,
    )

    async def leave(server: Server, number: int) -> int:
        client = await stalled(server, prompt=[number] * (number % 9 + 1), max_tokens=40)
        await asyncio.sleep(0.002 * (number % 5))
        client.close()
        return 0

    async def stay(server: Server, number: int) -> int:
        await asyncio.sleep(0.001 * number)
        return (await server.ask(prompt=[number] * (number % 9 + 1), max_tokens=number % 7 + 1))[0]

    async def test(server: Server) -> None:
        tasks = [(stay, leave)[n % 3 == 0](server, n) for n in range(60)]
        statuses = await asyncio.gather(*tasks)
        assert set(statuses) <= {0, 200, 429}
        assert statuses.count(200) > 0
        for name in ("requests_running", "requests_waiting", "queue_tokens", "kv_blocks_used"):
            await server.until(name, 0)
        metrics = await server.metrics()
        assert metrics["requests_rejected_total"] >= statuses.count(429) > 0

    runner: Any = engine._worker._runner
    on_server(engine, test)
    assert runner.sequence_ids == ()
    assert not engine._tickets
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
