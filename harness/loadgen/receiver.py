"""The compiled hot path: one call reads every socket that has something, stamps it, keeps it.

An interpreter that is entered for every token costs half as much again as reading the token. So the
reading is done by receive.c, and Python is entered where there is something to decide: a response
began, may have ended, or broke. Where there is no C compiler, or no epoll(7), connections read for
themselves (protocol_connection.py), to the same effect at a higher price.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Protocol

from harness.core.compiled import load_compiled
from harness.loadgen.framing import MOST_RESPONSE_BYTES, PackedReads

_SOURCE = Path(__file__).with_name("receive.c")
# As many as receive.c asks for at once.
_MOST_NOTICES = 512
# Notices that are looked after before the sockets are read again, so that no stamp waits for long.
_NOTICES_BETWEEN_READS = 4
_ERRNO_BASE = 16


class Notice(IntEnum):
    """Why a connection is told; from _ERRNO_BASE on, a number of errno(3) above it."""

    READ = 0
    CLOSED = 1
    TOO_LARGE = 2


class Reader(Protocol):
    """A connection whose socket the receiver reads."""

    def note_read(self) -> None:
        """What was read may be the start, or the end, of a response."""
        ...

    def note_lost(self, error: OSError | None) -> None:
        """The other side has closed (None), or the socket is broken."""
        ...

    def note_too_large(self) -> None:
        """More came than any answer has."""
        ...


class _View(ctypes.Structure):
    _fields_ = (
        ("bytes", ctypes.c_void_p),
        ("used", ctypes.c_uint64),
        ("stamps_ns", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("reads", ctypes.c_uint64),
    )


@cache
def receive_library() -> ctypes.CDLL | None:
    """The compiled half of this file; None where it cannot be had."""
    library = load_compiled(_SOURCE) if sys.platform.startswith("linux") else None
    if library is None:
        return None
    handle, place = ctypes.c_void_p, ctypes.c_int
    library.receiver_open.argtypes, library.receiver_open.restype = [ctypes.c_uint64], handle
    library.receiver_reads.restype = library.receiver_whole.restype = ctypes.c_uint64
    for name, arguments in (
        ("close", ()), ("fd", ()), ("reads", ()), ("add", (ctypes.c_int,)), ("remove", (place,)),
        ("begin", (place,)), ("whole", (place,)), ("view", (place, ctypes.c_void_p)),
        ("ring_for", (ctypes.c_int,)),
        ("drain", (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)),
    ):  # fmt: skip
        getattr(library, f"receiver_{name}").argtypes = [handle, *arguments]
    return library


class Receiver:
    """Reads the sockets that were added, on the running loop, and tells their readers."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._handle = library.receiver_open(MOST_RESPONSE_BYTES)
        if not self._handle:
            raise MemoryError
        self._loop = asyncio.get_running_loop()
        self._readers: dict[int, Reader] = {}
        self._notices: deque[tuple[Reader, int]] = deque()
        self._places = (ctypes.c_int32 * _MOST_NOTICES)()
        self._whys = (ctypes.c_int32 * _MOST_NOTICES)()
        self._drain = library.receiver_drain
        self._view = _View()
        self._view_at = ctypes.byref(self._view)
        self._is_called_soon = False
        self._reads = 0
        # Off while something is awaited that only the event loop sees, such as a new connection.
        self.may_stay = True
        self._is_near: Callable[[], bool] = lambda: False
        self._fd = library.receiver_fd(self._handle)
        self._loop.add_reader(self._fd, self._receive)

    @property
    def reads(self) -> int:
        """Reads so far, of all connections."""
        if self._handle:
            self._reads = int(self._library.receiver_reads(self._handle))
        return self._reads

    def add(self, fd: int, reader: Reader) -> int:
        """Read `fd` for `reader` from now on; returns its place, to name it by."""
        place = int(self._library.receiver_add(self._handle, fd))
        if place < 0:
            raise OSError(-place, os.strerror(-place))
        self._readers[place] = reader
        return place

    def remove(self, place: int) -> None:
        """Read it no more; what was read is gone."""
        if self._readers.pop(place, None) is not None:
            self._library.receiver_remove(self._handle, place)

    def give_way(self, alarm_fd: int | None, is_near: Callable[[], bool]) -> None:
        """Go back to the event loop at once when `alarm_fd`, which it watches too, is readable.

        While `is_near()`, nothing is begun that could make late what the alarm is for.
        """
        self._is_near = is_near
        if alarm_fd is not None:
            self._library.receiver_ring_for(self._handle, alarm_fd)

    def begin(self, place: int) -> None:
        """A new exchange: forget what was read."""
        self._library.receiver_begin(self._handle, place)

    def whole_head(self, place: int) -> bytes:
        """The head of a response in chunks that has come whole; empty when it may not have.

        Only a response that is plain is known to be whole: chunks without extensions or trailers.
        """
        length = self._library.receiver_whole(self._handle, place)
        return ctypes.string_at(self._look(place).bytes, length) if length else b""

    def unseen(self, place: int, seen: int) -> bytes:
        """What was read of the exchange after its first `seen` bytes."""
        view = self._look(place)
        return ctypes.string_at(view.bytes + seen, view.used - seen) if view.used > seen else b""

    def reads_of(self, place: int) -> int:
        """How often the exchange was read."""
        return int(self._look(place).reads)

    def packed(self, place: int) -> PackedReads:
        """All that was read of the exchange, and when."""
        view = self._look(place)
        if not view.reads:
            return PackedReads()
        return PackedReads(
            ctypes.string_at(view.stamps_ns, 8 * view.reads),
            ctypes.string_at(view.ends, 4 * view.reads),
            ctypes.string_at(view.bytes, view.used),
        )

    def close(self) -> None:
        """Read nothing more."""
        if self._handle:
            self._reads = self.reads
            self._loop.remove_reader(self._fd)
            self._library.receiver_close(self._handle)
            self._handle = None
            self._readers.clear()
            self._notices.clear()

    def _look(self, place: int) -> _View:
        self._library.receiver_view(self._handle, place, self._view_at)
        return self._view

    def _receive_soon(self) -> None:
        self._is_called_soon = False
        self._receive()

    def _receive(self) -> None:
        """Read all sockets, then look after a few notices; the rest after the next reading."""
        if not self._handle:
            return
        places, whys, readers, notices = self._places, self._whys, self._readers, self._notices
        may_stay = self.may_stay and not notices
        for i in range(self._drain(self._handle, places, whys, may_stay)):
            notices.append((readers[places[i]], whys[i]))
        for _ in range(min(_NOTICES_BETWEEN_READS, len(notices))):
            if not notices or self._is_near():  # closing, on a notice, empties them
                break
            _tell(*notices.popleft())
        if notices and not self._is_called_soon:
            self._is_called_soon = True
            self._loop.call_soon(self._receive_soon)


def _tell(reader: Reader, why: int) -> None:
    match why:
        case Notice.READ:
            reader.note_read()
        case Notice.CLOSED:
            reader.note_lost(None)
        case Notice.TOO_LARGE:
            reader.note_too_large()
        case _:
            number = why - _ERRNO_BASE
            reader.note_lost(OSError(number, os.strerror(number)))
