"""The scripted server, seen by a plain socket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from engines.scripted import Script, ScriptedServer, ScriptEnd, chunk, response_head
from harness.core.clock import VirtualClock
from harness.core.units import NS_PER_S

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc"


def talk(scripts: Sequence[Script], *requests: bytes) -> tuple[bytes, list[bytes]]:
    """What a client reads until the end when it sends `requests`, and what the server had read."""

    async def run() -> tuple[bytes, list[bytes]]:
        async with ScriptedServer(scripts, VirtualClock()) as server:
            port = int(server.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"".join(requests))
                return await asyncio.wait_for(reader.read(), timeout=60), server.requests
            finally:
                writer.close()

    return asyncio.run(run())


def test_the_bytes_of_the_script_go_out_as_they_are() -> None:
    said, heard = talk([Script(((0, b"not "), (0, b"HTTP")))], GET)

    assert said == b"not HTTP"
    assert heard == [GET]


def test_a_request_is_read_with_its_body() -> None:
    _, heard = talk([Script(((0, b"x"),))], POST)

    assert heard == [POST]


def test_kept_connections_take_the_next_script_and_then_the_last_again() -> None:
    keep = Script(((0, b"1"),), ScriptEnd.KEEP)
    last = Script(((0, b"2"),), ScriptEnd.KEEP)
    closing = Script(((0, b"3"),))

    assert talk([keep, last, closing], GET, POST, GET)[0] == b"123"


def test_a_reset_is_seen_as_a_reset() -> None:
    with pytest.raises(ConnectionResetError):
        talk([Script((), ScriptEnd.RESET)], GET)


def test_a_hanging_connection_stays_open_until_the_server_closes() -> None:
    async def run() -> tuple[bytes, bytes]:
        script = Script(((0, b"a"),), ScriptEnd.HANG)
        async with ScriptedServer([script], VirtualClock()) as server:
            port = int(server.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            first = await reader.readexactly(1)
            assert not reader.at_eof()
        rest = await asyncio.wait_for(reader.read(), timeout=60)
        writer.close()
        return first, rest

    assert asyncio.run(run()) == (b"a", b"")


def test_delays_follow_one_another_on_the_clock() -> None:
    clock = VirtualClock()

    async def run() -> None:
        script = Script(((NS_PER_S, b"a"), (2 * NS_PER_S, b"b")))
        async with ScriptedServer([script], clock) as server:
            port = int(server.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            assert await reader.read() == b"ab"
            writer.close()

    asyncio.run(run())
    assert clock.now_ns() == 3 * NS_PER_S


def test_connections_that_are_open_together_are_counted() -> None:
    async def run() -> int:
        async with ScriptedServer([Script((), ScriptEnd.HANG)], VirtualClock()) as server:
            port = int(server.url.rpartition(":")[2])
            writers = []
            for _ in range(3):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(GET)
                writers.append(writer)
            while len(server.requests) < len(writers):
                await asyncio.sleep(0)
            for writer in writers:
                writer.close()
            return server.most_open

    assert asyncio.run(run()) == 3


def test_helpers_write_a_chunked_response() -> None:
    assert response_head() == (
        b"HTTP/1.1 200 Scripted\r\nContent-Type: text/event-stream\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    assert chunk(b"x" * 16) == b"10\r\n" + b"x" * 16 + b"\r\n"
    assert chunk(b"") == b"0\r\n\r\n"


def test_there_is_no_url_before_the_server_is_open() -> None:
    with pytest.raises(RuntimeError, match="not open"):
        _ = ScriptedServer([], VirtualClock()).url
