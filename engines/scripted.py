"""A server that answers on a written timetable of raw bytes: the known truth, for tests.

It reads requests only far enough to know where they end, and knows nothing of HTTP answers: what
the script says is what goes over the wire, wrong framing included.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Self

from harness.core.clock import Clock

_MOST_HEAD_BYTES = 2**20
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)


class ScriptEnd(StrEnum):
    """What happens to the connection after the last piece.

    `keep`: the next request on it is answered. `hang`: it stays open, and silent.
    """

    CLOSE = "close"
    RESET = "reset"
    HANG = "hang"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Script:
    """One answer: pieces of bytes, each written `delay_ns` after the one before, and an end.

    The first delay counts from the instant at which the request had been read.
    """

    pieces: tuple[tuple[int, bytes], ...]
    end: ScriptEnd = ScriptEnd.CLOSE


class ScriptedServer:
    """Answers the n-th request with the n-th script, and all later ones with the last.

    ::

        async with ScriptedServer([Script(((0, head), (5_000_000, event)))], clock) as server:
            ...  # server.url, server.requests

    `most_open` connections were open at once, and `most_in_flight` requests being answered.
    """

    def __init__(self, scripts: Sequence[Script], clock: Clock) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.most_open = 0
        self.most_in_flight = 0
        self._scripts = scripts
        self._clock = clock
        self._in_flight = 0
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The base URL, while the server is open."""
        if self._server is None:
            msg = "the server is not open; use it as an async context"
            raise RuntimeError(msg)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, limit=_MOST_HEAD_BYTES, backlog=1024
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        self._open.add(task)
        self.connections += 1
        self.most_open = max(self.most_open, len(self._open))
        try:
            await self._answer_all(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the server is closed; nothing is left to say
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end = ScriptEnd.KEEP
        while end is ScriptEnd.KEEP:
            self.requests.append(await _read_request(reader))
            script = self._scripts[min(len(self.requests), len(self._scripts)) - 1]
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
            try:
                await self._play(script, writer)
            finally:
                self._in_flight -= 1
            end = script.end
        if end is ScriptEnd.HANG:
            await reader.read()
        if end is ScriptEnd.RESET:
            _reset(writer)

    async def _play(self, script: Script, writer: asyncio.StreamWriter) -> None:
        due_ns = self._clock.now_ns()
        for delay_ns, data in script.pieces:
            due_ns += delay_ns
            await self._clock.sleep_until_ns(due_ns)
            writer.write(data)
            await writer.drain()


def response_head(status: int = 200, content_type: str = "text/event-stream") -> bytes:
    """A status line and headers that announce a body in chunks."""
    return (
        f"HTTP/1.1 {status} Scripted\r\nContent-Type: {content_type}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    ).encode()


def chunk(body: bytes) -> bytes:
    """`body` as one chunk; the empty body is the one that ends the response."""
    return b"%x\r\n%b\r\n" % (len(body), body)


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = _CONTENT_LENGTH.search(head)
    return head + await reader.readexactly(int(length[1]) if length else 0)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close so that the client sees a reset: lingering for no time at all drops the connection."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
