"""One exchange over one connection: send a request, keep what comes back, notice how it ends.

Every read is stamped before anything else and kept as bytes. Nothing is interpreted here but where
the response ends; what it says is taken apart later, by the recorder.
"""

from __future__ import annotations

import errno
import os
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import httptools

from harness.core.engine import Ending, WireRequest
from harness.core.errors import UsageError
from harness.loadgen.framing import (
    EMPTY_LINE,
    MOST_RESPONSE_BYTES,
    PackedReads,
    RawCapture,
    ResponseEnd,
)


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


class Connection(ABC):
    """Carries one exchange at a time, and may carry the next when the server keeps it open.

    `on_end(connection)` is called once for each exchange, when `ending` is set; it must take what
    it needs at once. `job` is None while no exchange is in progress. How bytes are written and read
    is left to the two kinds that there are: DirectConnection and ProtocolConnection.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        on_end: Callable[[Connection], None],
        on_idle_lost: Callable[[Connection], None],
    ) -> None:
        self._now_ns = now_ns
        self._on_end = on_end
        self._on_idle_lost = on_idle_lost
        self.job: Job | None = None
        self.is_open = False
        self.is_used = False

    def prepare(self, job: Job) -> None:
        """Make ready for `job`, so that `fire` has the least to do."""
        self._end = ResponseEnd()
        self._fed = 0
        self.ending = Ending.NOT_ENDED
        self.detail = ""
        self.job = job
        self._forget()

    def fire(self) -> None:
        """Stamp the instant and write the request of the job that was prepared."""
        job = self.job
        if job is None:
            return
        if not job.retries:
            job.sent_ns = self._now_ns()
        if not self.is_open:
            self._finish(Ending.RESET, "the connection was lost before the request was written")
            return
        self._write(job.payload)

    def cancel(self) -> None:
        """Give up the exchange in progress, because its answer is no longer wanted."""
        if self.job is not None:
            self._finish(Ending.CANCELLED)

    def refuse_too_large(self) -> None:
        """Fail the exchange in progress: more came back than any answer has."""
        if self.job is not None:
            self._finish(Ending.TOO_LARGE, f"more than {MOST_RESPONSE_BYTES} bytes")

    @abstractmethod
    def close(self) -> None:
        """Close the connection. What was read stays until the next exchange, or `release`."""

    @property
    @abstractmethod
    def reads_so_far(self) -> int:
        """Reads of the exchange in progress, or of the one that has just ended."""

    def capture(self, job: Job) -> RawCapture:
        """What was read of the exchange that has just ended."""
        return RawCapture(
            job.index, job.sent_ns, self.ended_ns, self.ending, self.detail, job.retries,
            self._packed(),
        )  # fmt: skip

    @property
    def was_closed_unanswered(self) -> bool:
        """True when the server closed a connection it had kept open, before any byte came back."""
        is_cut = self.ending in (Ending.CUT, Ending.RESET)
        return is_cut and self.is_used and not self.reads_so_far

    def _advance(self) -> None:
        """Let the parser see what it has not seen; it may end the exchange."""
        if self.job is None:  # nothing was asked for
            self.close()
            self._on_idle_lost(self)
            return
        if self._feed() and self._end.is_chunked and self._end.is_head_complete:
            self._note_chunked()

    def _complete_by(self, head: bytes) -> bool:
        """End the exchange, whose body is known to be whole; False when `head` tells otherwise."""
        end = ResponseEnd()
        try:
            end.feed(head)
        except httptools.HttpParserError:
            return False
        if not (end.is_head_complete and end.is_chunked):
            return False
        self._end.let_go()
        self._end = end
        self._finish(Ending.COMPLETE)
        return True

    def _lose(self, error: Exception | None) -> None:
        """What was in progress was cut, or reset, unless closing is how the response ends."""
        self.is_open = False
        if self.job is None:
            self._on_idle_lost(self)
        elif error is not None:
            self._finish(Ending.RESET, in_words(error))
        elif self._feed():
            is_whole = self._end.lasts_until_close
            self._finish(Ending.COMPLETE if is_whole else Ending.CUT)

    def _feed(self) -> bool:
        """Feed the parser; False when that ended the exchange."""
        unseen = self._unseen(self._fed)
        self._fed += len(unseen)
        try:
            self._end.feed(unseen)
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
        self._end.let_go()
        self._on_end(self)

    @abstractmethod
    def _forget(self) -> None:
        """Forget what was read; every read is looked at until `_note_chunked`."""

    @abstractmethod
    def _write(self, payload: bytes) -> None: ...

    @abstractmethod
    def _unseen(self, seen: int) -> bytes:
        """What was read of the exchange after its first `seen` bytes."""

    @abstractmethod
    def _note_chunked(self) -> None:
        """The response ends with an empty line, so other reads need not be looked at."""

    @abstractmethod
    def _packed(self) -> PackedReads: ...


def in_words(error: Exception) -> str:
    """The system's words for `error`, without its number."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else str(error)


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
