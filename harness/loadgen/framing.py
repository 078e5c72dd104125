"""HTTP/1.1 framing: where a response ends, at the least cost a read, and what its body is, later.

While a response is read, only its end matters. A body in chunks ends with an empty line, so a read
that does not end with one cannot end the response and is not even looked into. What was read is
taken apart when nobody waits any more, by `capture_of`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import httptools
import msgspec

from harness.core.engine import Capture, Ending, Read

# A named tuple's own constructor takes twice the time, and there is one for every token.
_new_tuple = tuple.__new__
EMPTY_LINE = b"\r\n\r\n"
# A response beyond this is not an answer; it fails alone, before it takes the memory of the others.
MOST_RESPONSE_BYTES = 64 * 2**20
_INT64, _UINT32 = "q", "I"


class PackedReads(NamedTuple):
    """The reads of one exchange: `data` is all bytes, in order; read i ends before byte `ends[i]`.

    `stamps_ns` is an array of int64, `ends` of uint32, both in this machine's byte order.
    """

    stamps_ns: bytes = b""
    ends: bytes = b""
    data: bytes = b""


def pack_reads(stamps_ns: Sequence[int], reads: Sequence[bytes]) -> PackedReads:
    """`reads[i]` came at `stamps_ns[i]`."""
    ends = array(_UINT32, accumulate(map(len, reads)))
    return PackedReads(array(_INT64, stamps_ns).tobytes(), ends.tobytes(), b"".join(reads))


class RawCapture(msgspec.Struct, frozen=True, array_like=True):
    """One exchange as it was read. Instants are absolute.

    `retries` counts earlier attempts that were closed by the server before any byte came back.
    """

    index: int
    sent_ns: int
    ended_ns: int
    ending: Ending
    detail: str
    retries: int
    reads: PackedReads = PackedReads()

    @property
    def reads_count(self) -> int:
        """How often the socket was read."""
        return len(self.reads.ends) // 4


class ResponseEnd:
    """Finds the end of one response. Feed it reads in order; several may be fed as one.

    `allows_reuse`: the server keeps the connection open once the response is complete.
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

    def let_go(self) -> None:
        """Free the parser: it and this hold each other, and a worker collects no such garbage."""
        del self._parser

    # httptools calls these while it is fed.

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"transfer-encoding":
                self.is_chunked = b"chunked" in value.lower()
            case b"content-length":
                self._has_length = True

    def on_headers_complete(self) -> None:
        self.is_head_complete = True
        self.allows_reuse = bool(self._parser.should_keep_alive())

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

    def feed(self, stamps_ns: array[int], ends: array[int], data: bytes) -> None:
        feed_data, start = self._parser.feed_data, 0
        try:
            for self.now_ns, end in zip(stamps_ns, ends, strict=True):
                feed_data(data[start:end])
                start = end
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
    stamps_ns, ends = array(_INT64, raw.reads.stamps_ns), array(_UINT32, raw.reads.ends)
    body = _Body()
    body.feed(stamps_ns, ends, raw.reads.data)
    return Capture(
        sent_ns=raw.sent_ns,
        status=body.status,
        headers=tuple(body.headers),
        first_byte_ns=stamps_ns[0] if stamps_ns else None,
        reads=tuple(body.reads),
        closed_ns=raw.ended_ns,
        ending=raw.ending,
        detail=raw.detail,
        bytes_received=len(raw.reads.data),
        retries=raw.retries,
    )
