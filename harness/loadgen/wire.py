"""One HTTP/1.1 streaming exchange: stamps every read, keeps the bytes, interprets nothing.

httptools finds where the response ends and takes the chunk framing off; what the body means is read
later, by a dialect. A connection is used for one exchange, so that no request can meet a keep-alive
connection that the server has just closed.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import httptools

from harness.core.clock import Clock
from harness.core.engine import Capture, Ending, Read, WireRequest
from harness.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect, read once from a base URL."""

    host: str
    port: int
    prefix: str
    is_tls: bool


def parse_target(base_url: str) -> Target:
    """The target that `base_url` names. Raises UsageError when it is not an http(s) URL."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        msg = f"{base_url!r} is not an http or https URL; write it like http://127.0.0.1:8000"
        raise UsageError(msg)
    is_tls = parts.scheme == "https"
    return Target(
        parts.hostname, parts.port or (443 if is_tls else 80), parts.path.rstrip("/"), is_tls
    )


def request_bytes(target: Target, request: WireRequest) -> bytes:
    """The whole request as it goes over the wire, built before the clock starts."""
    head = [
        f"{request.method} {target.prefix}{request.path} HTTP/1.1",
        f"Host: {target.host}:{target.port}",
        *(f"{name}: {value}" for name, value in request.headers),
        "Accept-Encoding: identity",
        "Connection: close",
        f"Content-Length: {len(request.body)}",
    ]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + request.body


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told: that a request went out, how long each piece of body is, and how it ended."""

    on_sent: Callable[[], None]
    on_body: Callable[[int], None]
    deliver: Callable[[Capture], None]


class Exchange(asyncio.Protocol):
    """One request and its response. Await `ended`, then take `capture()`.

    `on_body` is called with the length of each piece of body as it is read, for progress only.
    """

    def __init__(self, payload: bytes, clock: Clock, on_body: Callable[[int], None]) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._payload = payload
        self._clock = clock
        self._on_body = on_body
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._sent_ns: int | None = None
        self._first_byte_ns: int | None = None
        self._closed_ns: int | None = None
        self._now_ns = 0
        self._headers: list[tuple[str, str]] = []
        self._reads: list[Read] = []
        self._bytes_received = 0
        self._status: int | None = None
        self._ending = Ending.NOT_ENDED
        self._detail = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; nothing is sent before `send`."""
        self._transport = transport  # type: ignore[assignment]

    def send(self) -> None:
        """Stamp the instant and write the request."""
        self._sent_ns = self._clock.now_ns()
        if self._transport is not None and self._ending is Ending.NOT_ENDED:
            self._transport.write(self._payload)

    def data_received(self, data: bytes) -> None:
        """Stamp the read before anything else, then let the parser find body and end."""
        self._now_ns = self._clock.now_ns()
        if self._first_byte_ns is None:
            self._first_byte_ns = self._now_ns
        self._bytes_received += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(Ending.BAD_FRAMING, str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        """A connection that closes before the response is complete was cut, or reset.

        A response without a length lasts until the connection closes (RFC 9112, 6.3).
        """
        if exc is not None:
            self._end(Ending.RESET, str(exc))
            return
        names = {name.lower() for name, _ in self._headers}
        is_until_close = (
            self._status is not None
            and "content-length" not in names
            and "transfer-encoding" not in names
        )
        self._end(Ending.COMPLETE if is_until_close else Ending.CUT)

    # httptools calls these while it is fed.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._reads.append(Read(self._now_ns, body))
        self._on_body(len(body))

    def on_message_complete(self) -> None:
        self._end(Ending.COMPLETE)

    def cancel(self) -> None:
        """Close the connection because we no longer want the answer."""
        self._end(Ending.CANCELLED)

    def capture(self) -> Capture:
        """What was seen so far. Only for an exchange that was sent."""
        if self._sent_ns is None:
            msg = "capture() of an exchange that was never sent"
            raise RuntimeError(msg)
        return Capture(
            sent_ns=self._sent_ns,
            status=self._status,
            headers=tuple(self._headers),
            first_byte_ns=self._first_byte_ns,
            reads=tuple(self._reads),
            closed_ns=self._closed_ns,
            ending=self._ending,
            detail=self._detail,
            bytes_received=self._bytes_received,
        )

    def _end(self, ending: Ending, detail: str = "") -> None:
        if self._ending is not Ending.NOT_ENDED:
            return
        self._ending = ending
        self._detail = detail
        self._closed_ns = self._clock.now_ns()
        if not self.ended.done():  # it is done when its waiter was cancelled
            self.ended.set_result(None)
        if self._transport is not None:
            self._transport.close()


async def run_exchange(
    target: Target,
    payload: bytes,
    clock: Clock,
    watch: Watch,
) -> None:
    """Connect to `target`, send `payload`, and wait until the response has ended.

    Whatever happens once the connection is asked for ends in one call of `watch.deliver`, except a
    cancellation before anything was sent. A connection that cannot be made is delivered too.
    """
    loop = asyncio.get_running_loop()
    context = ssl.create_default_context() if target.is_tls else None
    asked_ns = clock.now_ns()
    try:
        _, exchange = await loop.create_connection(
            lambda: Exchange(payload, clock, watch.on_body), target.host, target.port, ssl=context
        )
    except OSError as error:
        watch.on_sent()
        watch.deliver(_not_connected(asked_ns, clock.now_ns(), error))
        return
    exchange.send()
    watch.on_sent()
    try:
        await exchange.ended
    except asyncio.CancelledError:
        exchange.cancel()
        raise
    finally:
        watch.deliver(exchange.capture())


def _not_connected(sent_ns: int, closed_ns: int, error: OSError) -> Capture:
    return Capture(
        sent_ns=sent_ns,
        status=None,
        headers=(),
        first_byte_ns=None,
        reads=(),
        closed_ns=closed_ns,
        ending=Ending.CONNECT_FAILED,
        detail=os.strerror(error.errno) if error.errno else str(error),
    )
