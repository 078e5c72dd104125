"""Server-sent events out of bytes that may be cut anywhere (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_BLANK = ord(" ")


class SseParser:
    """Payloads are bytes, so that a character cut between two reads is whole again.

    Only `data` is kept; comments and the other fields are read over.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._is_first_line = True
        self._skips_lf = False
        self._is_between_events = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads of the events that `chunk` completes, each the joined `data` lines."""
        if (
            # The shape of nearly every read of a stream: one `data` line, and a blank one.
            self._is_between_events
            and chunk[:5] == b"data:"
            and chunk.find(b"\n") == len(chunk) - 2
            and chunk[-1:] == b"\n"
            and chunk.find(b"\r") < 0
        ):
            self._is_first_line = False
            return [chunk[6:-2] if chunk[5] == _BLANK else chunk[5:-2]]
        payloads = self._feed_any(chunk)
        self._is_between_events = not (self._data or self._skips_lf or any(self._line))
        return payloads

    def _feed_any(self, chunk: bytes) -> list[bytes]:
        if not chunk:
            return []
        if self._skips_lf:  # the last read ended between \r and \n
            chunk = chunk.removeprefix(b"\n")
        self._skips_lf = chunk.endswith(b"\r")
        *ended, rest = _LINE_END.split(chunk)
        payloads = []
        for piece in ended:
            line = b"".join((*self._line, piece))
            self._line.clear()
            payload = self._end_line(line)
            if payload is not None:
                payloads.append(payload)
        self._line.append(rest)
        return payloads

    def _end_line(self, line: bytes) -> bytes | None:
        if self._is_first_line:
            line = line.removeprefix(_BOM)
            self._is_first_line = False
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            return None
        if not self._data:
            return None
        payload = b"\n".join(self._data)
        self._data.clear()
        return payload
