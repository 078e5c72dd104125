"""One connection: sends a request, stamps every read, keeps the bytes, interprets nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import httptools

from harness.core.engine import Ending, WireRequest
from harness.core.errors import UsageError
from harness.loadgen.framing import EMPTY_LINE, RawCapture, ResponseEnd

# A response beyond this is not an answer; it fails alone, before it takes the memory of the others.
MOST_RESPONSE_BYTES = 64 * 2**20
# One read brings 256 KiB at most, so a response of fewer reads cannot be beyond the bound.
FEWEST_READS_OF_ENDLESS = 256


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect, read once from a base URL. `socket_path` is set for `http+unix` URLs."""

    host: str
    port: int
    prefix: str
    is_tls: bool
    socket_path: str | None = None


def parse_target(base_url: str) -> Target:
    """The target that `base_url` names: http, https, or http+unix:///path/of.sock.

    Raises UsageError when it is none of these.
    """
    parts = urlsplit(base_url)
    if parts.scheme == "http+unix" and parts.path:
        return Target("localhost", 80, "", is_tls=False, socket_path=parts.path)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        msg = f"{base_url!r} is not an http or https URL; write it like http://127.0.0.1:8000"
        raise UsageError(msg)
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    return Target(parts.hostname, port, parts.path.rstrip("/"), is_tls)


def request_bytes(target: Target, request: WireRequest) -> bytes:
    """The whole request as it goes over the wire, built before the clock starts."""
    head = [
        f"{request.method} {target.prefix}{request.path} HTTP/1.1",
        f"Host: {target.host}:{target.port}",
        *(f"{name}: {value}" for name, value in request.headers),
        "Accept-Encoding: identity",
        f"Content-Length: {len(request.body)}",
    ]
    return "\r\n".join(head).encode("latin-1") + EMPTY_LINE + request.body


class Job:
    """One request on its way: its bytes, and when it first went out."""

    __slots__ = ("index", "payload", "retries", "sent_ns")

    def __init__(self, index: int, payload: bytes) -> None:
        self.index = index
        self.payload = payload
        self.sent_ns = 0
        self.retries = 0


class Connection(asyncio.Protocol):
    """Carries one exchange at a time, and may carry the next when the server keeps it open.

    `on_end(connection)` is called once for each exchange, when `ending` is set; it must take what
    it needs at once. `job` is None while no exchange is in progress.
    """

    __slots__ = (
        "_add_read",
        "_add_stamp",
        "_bytes",
        "_counted",
        "_end",
        "_fed",
        "_is_chunked",
        "_now_ns",
        "_on_end",
        "_on_idle_lost",
        "_reads",
        "_stamps",
        "detail",
        "ended_ns",
        "ending",
        "is_open",
        "is_used",
        "job",
        "transport",
    )

    def __init__(
        self,
        now_ns: Callable[[], int],
        on_end: Callable[[Connection], None],
        on_idle_lost: Callable[[Connection], None],
    ) -> None:
        self._now_ns = now_ns
        self._on_end = on_end
        self._on_idle_lost = on_idle_lost
        self.transport: asyncio.Transport | None = None
        self.job: Job | None = None
        self.is_open = False
        self.is_used = False

    def begin(self, job: Job) -> None:
        """Stamp the instant and write the request of `job`."""
        self._stamps: list[int] = []
        self._reads: list[bytes] = []
        self._add_stamp = self._stamps.append
        self._add_read = self._reads.append
        self._end = ResponseEnd()
        self._is_chunked = False
        self._fed = 0
        self._counted = 0
        self._bytes = 0
        self.ending = Ending.NOT_ENDED
        self.detail = ""
        self.job = job
        if not job.retries:
            job.sent_ns = self._now_ns()
        if self.transport is None or not self.is_open:
            self._finish(Ending.RESET, "the connection was lost before the request was written")
            return
        self.transport.write(job.payload)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; nothing is sent before `begin`."""
        self.transport = transport  # type: ignore[assignment]
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Stamp the read before anything else, keep it, and see whether it can be the last."""
        self._add_stamp(self._now_ns())
        self._add_read(data)
        # A read of less than an empty line may be the end of one that began in the read before.
        if self._is_chunked and not data.endswith(EMPTY_LINE) and len(data) > 3:
            return
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        """What was in progress was cut, or reset, unless closing is how the response ends."""
        self.is_open = False
        if self.job is None:
            self._on_idle_lost(self)
            return
        if exc is not None:
            self._finish(Ending.RESET, str(exc))
            return
        if self._feed() and not self._end.is_complete:
            is_whole = self._end.lasts_until_close
            self._finish(Ending.COMPLETE if is_whole else Ending.CUT)

    def cancel(self) -> None:
        """Give up the exchange in progress, because its answer is no longer wanted."""
        if self.job is not None:
            self._finish(Ending.CANCELLED)

    def close(self) -> None:
        """Close the connection."""
        if self.transport is not None:
            self.transport.close()
        self.is_open = False

    @property
    def reads_so_far(self) -> int:
        """Reads of the exchange in progress."""
        return len(self._reads) if self.job is not None else 0

    def refuse_endless(self) -> None:
        """Fail the exchange in progress when more came back than any answer has."""
        if self.job is None or len(self._reads) < FEWEST_READS_OF_ENDLESS:
            return
        self._bytes += sum(map(len, self._reads[self._counted :]))
        self._counted = len(self._reads)
        if self._bytes >= MOST_RESPONSE_BYTES:
            self._finish(Ending.TOO_LARGE, f"more than {MOST_RESPONSE_BYTES} bytes")

    @property
    def was_closed_unanswered(self) -> bool:
        """True when the server closed a connection it had kept open, before any byte came back."""
        return self.is_used and not self._reads and self.ending in (Ending.CUT, Ending.RESET)

    def capture(self, job: Job) -> RawCapture:
        """What was read of the exchange that has just ended."""
        return RawCapture(
            job.index, job.sent_ns, self.ended_ns, self.ending, self.detail, job.retries,
            self._stamps, self._reads,
        )  # fmt: skip

    def _advance(self) -> None:
        self.refuse_endless()
        if self.job is not None and self._feed():
            self._is_chunked = self._end.is_chunked and self._end.is_head_complete

    def _feed(self) -> bool:
        """Let the parser see what it has not seen; False when that ended the exchange."""
        unseen = self._reads[self._fed :]
        self._fed = len(self._reads)
        try:
            self._end.feed(unseen[0] if len(unseen) == 1 else b"".join(unseen))
        except httptools.HttpParserError as error:
            self._finish(Ending.BAD_FRAMING, str(error))
            return False
        if self._end.is_complete:
            self._finish(Ending.COMPLETE)
            return False
        return True

    def _finish(self, ending: Ending, detail: str = "") -> None:
        self.ending = ending
        self.detail = detail
        self.ended_ns = self._now_ns()
        if not (ending is Ending.COMPLETE and self._end.allows_reuse):
            self.close()
        self._on_end(self)


def connect_fault(error: OSError) -> tuple[Ending, str]:
    """How an exchange ended whose connection could not be made, and why, in the system's words.

    Faults of this machine are told apart: they must not be put down to the server.
    """
    is_plain = bool(error.errno) and not isinstance(error, ssl.SSLError)
    detail = os.strerror(error.errno or 0) if is_plain else str(error)
    match error.errno:
        case errno.EMFILE | errno.ENFILE:
            return Ending.CLIENT_FILES_EXHAUSTED, detail
        case errno.EADDRNOTAVAIL:
            return Ending.CLIENT_PORTS_EXHAUSTED, detail
        case _:
            return Ending.CONNECT_FAILED, detail
