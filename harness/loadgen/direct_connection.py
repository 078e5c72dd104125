"""A connection whose socket the compiled receiver reads: plain TCP and Unix sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from harness.loadgen.framing import PackedReads
from harness.loadgen.receiver import Receiver
from harness.loadgen.wire import Connection, Target


class DirectConnection(Connection):
    """Writes to a socket of its own; `receiver` tells it when there is something to decide."""

    def __init__(
        self,
        now_ns: Callable[[], int],
        on_end: Callable[[Connection], None],
        on_idle_lost: Callable[[Connection], None],
        receiver: Receiver,
    ) -> None:
        super().__init__(now_ns, on_end, on_idle_lost)
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._place = -1
        self._unwritten = memoryview(b"")
        # What is left of a closed connection: the receiver has forgotten it by then.
        self._left = PackedReads()

    async def open(self, target: Target) -> None:
        """Connect. Raises OSError, of the last address tried, when that fails."""
        self._socket = await _connected(self._loop, target)
        self._place = self._receiver.add(self._socket.fileno(), self)
        self.is_open = True

    def note_read(self) -> None:
        """What was read may be the start, or the end, of a response."""
        if self._socket is None:  # it was closed since
            return
        head = self._receiver.whole_head(self._place) if self.job is not None else b""
        if not (head and self._complete_by(head)):
            self._advance()

    def note_lost(self, error: OSError | None) -> None:
        """The other side has closed (None), or the socket is broken."""
        if self._socket is not None:
            self._lose(error)
            self.close()

    def note_too_large(self) -> None:
        """More came than any answer has."""
        if self.job is None:
            self.note_lost(None)
        else:
            self.refuse_too_large()

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._left = self._receiver.packed(self._place)
            self._receiver.remove(self._place)
            self._stop_writing()
            self._socket.close()
            self._socket = None
        self.is_open = False

    @property
    def reads_so_far(self) -> int:
        """Reads of the exchange in progress, or of the one that has just ended."""
        if self._socket is None:
            return len(self._left.ends) // 4
        return self._receiver.reads_of(self._place)

    def _forget(self) -> None:
        self._left = PackedReads()
        if self._socket is not None:
            self._receiver.begin(self._place)

    def _write(self, payload: bytes) -> None:
        """Hand `payload` to the system; what it does not take now follows when it can."""
        if self._socket is None:
            return
        try:
            written = self._socket.send(payload)
        except BlockingIOError:
            written = 0
        except OSError as error:
            self.note_lost(error)
            return
        if written < len(payload):
            self._unwritten = memoryview(payload)[written:]
            self._loop.add_writer(self._socket.fileno(), self._write_more)

    def _write_more(self) -> None:
        unwritten = self._unwritten
        self._stop_writing()
        self._write(bytes(unwritten))

    def _stop_writing(self) -> None:
        if self._unwritten and self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
        self._unwritten = memoryview(b"")

    def _unseen(self, seen: int) -> bytes:
        if self._socket is None:
            return self._left.data[seen:]
        return self._receiver.unseen(self._place, seen)

    def _note_chunked(self) -> None:
        """The receiver sees to it."""

    def _packed(self) -> PackedReads:
        return self._left if self._socket is None else self._receiver.packed(self._place)


async def _connected(loop: asyncio.AbstractEventLoop, target: Target) -> socket.socket:
    """A non-blocking socket that is connected to `target`, by the first address that answers."""
    if target.socket_path is not None:
        return await _try(loop, socket.AF_UNIX, target.socket_path)
    found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    last: OSError = OSError(f"{target.host} has no address")
    for family, _, _, _, address in found:
        try:
            connected = await _try(loop, family, address)
        except OSError as error:
            last = error
            continue
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected
    raise last


async def _try(
    loop: asyncio.AbstractEventLoop, family: int, address: str | tuple[object, ...]
) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        await loop.sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return made
