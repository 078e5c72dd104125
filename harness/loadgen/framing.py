"""HTTP/1.1 framing: where a response ends, at the least cost a read, and what its body is, later.

While a response is read, only its end matters. A body in chunks ends with an empty line, so a read
that does not end with one cannot end the response and is not even looked into. What was read is
taken apart when nobody waits any more, by `capture_of`.
"""

from __future__ import annotations

from collections.abc import Sequence

import httptools
import msgspec

from harness.core.engine import Capture, Ending, Read

# A named tuple's own constructor takes twice the time, and there is one for every token.
_new_tuple = tuple.__new__
EMPTY_LINE = b"\r\n\r\n"


class RawCapture(msgspec.Struct, frozen=True, array_like=True):
    """One exchange as it was read: `stamps_ns[i]` is when `reads[i]` came. Instants are absolute.

    `retries` counts earlier attempts that were closed by the server before any byte came back.
    """

    index: int
    sent_ns: int
    ended_ns: int
    ending: Ending
    detail: str
    retries: int
    stamps_ns: list[int]
    reads: list[bytes]


class ResponseEnd:
    """Finds the end of one response. Feed it reads in order; several may be fed as one.

    `allows_reuse`: the response is complete, and the server keeps the connection open.
    """

    __slots__ = (
        "_has_length", "_parser", "allows_reuse", "is_chunked", "is_complete", "is_head_complete",
    )  # fmt: skip

    def __init__(self) -> None:
        self.is_chunked = False
        self.is_complete = False
        self.allows_reuse = False
        self.is_head_complete = False
        self._has_length = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Advance. Raises httptools.HttpParserError when `data` is not HTTP."""
        self._parser.feed_data(data)

    @property
    def lasts_until_close(self) -> bool:
        """True when the response has no length of its own (RFC 9112, 6.3)."""
        return self.is_head_complete and not self.is_chunked and not self._has_length

    # httptools calls these while it is fed.

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"transfer-encoding":
                self.is_chunked = b"chunked" in value.lower()
            case b"content-length":
                self._has_length = True

    def on_headers_complete(self) -> None:
        self.is_head_complete = True

    def on_message_complete(self) -> None:
        self.is_complete = True
        self.allows_reuse = bool(self._parser.should_keep_alive())


class _Body:
    """Collects status, headers and the pieces of body of one response."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: list[tuple[str, str]] = []
        self.reads: list[Read] = []
        self.now_ns = 0
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, stamps_ns: Sequence[int], reads: Sequence[bytes]) -> None:
        feed_data = self._parser.feed_data
        try:
            for self.now_ns, data in zip(stamps_ns, reads, strict=True):
                feed_data(data)
        except httptools.HttpParserError:
            return  # the ending says so already; what came before is kept

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.reads.append(_new_tuple(Read, (self.now_ns, body)))


def capture_of(raw: RawCapture) -> Capture:
    """`raw` with headers read and chunk framing taken off."""
    body = _Body()
    body.feed(raw.stamps_ns, raw.reads)
    return Capture(
        sent_ns=raw.sent_ns,
        status=body.status,
        headers=tuple(body.headers),
        first_byte_ns=raw.stamps_ns[0] if raw.stamps_ns else None,
        reads=tuple(body.reads),
        closed_ns=raw.ended_ns,
        ending=raw.ending,
        detail=raw.detail,
        bytes_received=sum(map(len, raw.reads)),
        retries=raw.retries,
    )
