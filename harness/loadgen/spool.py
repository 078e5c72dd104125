"""Captures on their way from a sending process to the recorder: a file of frames, append only.

A frame is a length (4 bytes, little endian) and that many bytes of msgpack. A frame cut by the
death of its writer is never read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from harness.loadgen.framing import RawCapture

_LENGTH_BYTES = 4
_READ_BYTES = 4 * 2**20


class SpoolWriter:
    """Appends captures to a new file."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._encoder = msgspec.msgpack.Encoder()

    def extend(self, captures: Iterable[RawCapture]) -> None:
        """Write `captures`, a frame each, with one write; they are the system's from then on."""
        buffer = bytearray()
        for capture in captures:
            start = len(buffer)
            buffer += bytes(_LENGTH_BYTES)
            self._encoder.encode_into(capture, buffer, -1)
            length = len(buffer) - start - _LENGTH_BYTES
            buffer[start : start + _LENGTH_BYTES] = length.to_bytes(_LENGTH_BYTES, "little")
        with memoryview(buffer) as view:
            written = 0
            while written < len(buffer):
                written += os.write(self._fd, view[written:])

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class SpoolReader:
    """Reads the frames of a spool that may still be growing."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._decoder = msgspec.msgpack.Decoder(RawCapture)
        self._rest = bytearray()

    def new_captures(self) -> Iterator[RawCapture]:
        """The whole frames that have come since the last call."""
        while data := self._file.read(_READ_BYTES):
            self._rest += data
            start = 0
            while (end := self._end_of_frame(start)) is not None:
                yield self._decoder.decode(memoryview(self._rest)[start + _LENGTH_BYTES : end])
                start = end
            del self._rest[:start]

    def _end_of_frame(self, start: int) -> int | None:
        if len(self._rest) < start + _LENGTH_BYTES:
            return None
        length = int.from_bytes(self._rest[start : start + _LENGTH_BYTES], "little")
        end = start + _LENGTH_BYTES + length
        return end if end <= len(self._rest) else None

    def close(self) -> None:
        """Close the file."""
        self._file.close()
