"""A server that paces its tokens exactly: the known truth against which a client is measured.

Token k of a request is due at arrival + TTFT + k * gap, whatever became of those before it. All
gaps are the same, so what was due first is due first again: two queues hold the order, and a token
costs one clock read and one write of bytes that were built before. `GET /stats` says how late the
server itself was since it was asked last, so that its lateness is not put down to the client.

::

    python -m engines.paced --port 8200 --ttft-ms 50 --gap-ms 10
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import resource
import select
import socket
import sys
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import msgspec

from harness.core.clock import Clock, MonotonicClock
from harness.core.units import NS_PER_S, ms_to_ns

MODEL = "paced"
_READ_BYTES = 2**16
_BACKLOG = 4096
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Timetable:
    """When tokens are due: the first `ttft_ns` after its request came, then one each `gap_ns`."""

    ttft_ns: int
    gap_ns: int


@dataclass(frozen=True, slots=True)
class PacedStats:
    """What the server did since it was asked last, and how late it was; None when it did nothing.

    `late_ns_*`: writing a token after it was due. `arrival_ns_p50`: at most how long a request lay
    unread before it was stamped. `dropped` streams were not read by their client.
    """

    requests: int
    tokens: int
    dropped: int
    late_ns_p50: int | None
    late_ns_p99: int | None
    arrival_ns_p50: int | None


class _Ask(msgspec.Struct):
    """What matters of a request's body."""

    prompt: list[int] | str = ""
    max_tokens: int = 16


def _event(data: object) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    body = f"data: {text}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(body), body)


def _text_event(finish: str | None) -> bytes:
    choice = {"index": 0, "text": " hello", "logprobs": None, "finish_reason": finish}
    return _event(
        {"id": "cmpl-0", "object": "text_completion", "created": 0, "model": MODEL,
         "choices": [choice]}
    )  # fmt: skip


_TOKEN = _text_event(None)
_LAST_TOKEN = _text_event("length")
_DONE = _event("[DONE]") + b"0\r\n\r\n"


def _last_bytes(ask: _Ask) -> bytes:
    """The last token, the usage and the end, which are written together."""
    usage = {"prompt_tokens": len(ask.prompt), "completion_tokens": ask.max_tokens}
    return _LAST_TOKEN + _event({"choices": [], "usage": usage}) + _DONE


class _Stream:
    """One connection, and the answer that it carries now: `left` tokens, the last being `last`."""

    __slots__ = ("buffer", "connection", "last", "left", "send")

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.send: Callable[[bytes], int] = connection.send
        self.buffer = b""
        self.left = 0
        self.last = b""


class PacedServer:
    """Serves `listener`, which listens already, until `lifeline` is readable (None: for ever)."""

    def __init__(
        self,
        listener: socket.socket,
        timetable: Timetable,
        clock: Clock,
        lifeline: int | None = None,
    ) -> None:
        self._listener = listener
        self._timetable = timetable
        self._now_ns = clock.now_ns
        self._lifeline = lifeline
        self._streams: dict[int, _Stream] = {}
        self._firsts: deque[tuple[int, _Stream]] = deque()
        self._rest: deque[tuple[int, _Stream]] = deque()
        self._polled_ns = self._unread_since_ns = clock.now_ns()
        self._clear_stats()
        listener.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        self._poll = select.epoll()
        self._poll.register(listener, select.EPOLLIN)
        if lifeline is not None:
            self._poll.register(lifeline, select.EPOLLIN)

    def run(self) -> None:
        """Answer until the lifeline is readable, or closed."""
        while True:
            for fd, _ in self._wait():
                if fd == self._listener.fileno():
                    self._accept()
                elif fd == self._lifeline:
                    return
                else:
                    self._read(self._streams[fd])
            self._write_due()

    def _wait(self) -> Sequence[tuple[int, int]]:
        """What is readable; returns when a token is due, or something is.

        epoll counts its time-out in whole milliseconds, select in far less.
        """
        self._unread_since_ns = self._polled_ns
        due_ns = min((queue[0][0] for queue in (self._firsts, self._rest) if queue), default=None)
        left_ns = None if due_ns is None else due_ns - self._now_ns()
        if left_ns is None or left_ns > 0:
            select.select([self._poll], [], [], None if left_ns is None else left_ns / NS_PER_S)
            self._unread_since_ns = self._now_ns()
        ready = self._poll.poll(0)
        self._polled_ns = self._now_ns()
        return ready

    def _write_due(self) -> None:
        """Write all tokens that are due now; those due meanwhile wait until requests were read."""
        now_ns, gap_ns, rest = self._now_ns, self._timetable.gap_ns, self._rest
        note_late, until_ns = self._late_ns.append, now_ns()
        for queue in (self._firsts, rest):
            while queue and queue[0][0] <= until_ns:
                due_ns, stream = queue.popleft()
                if not stream.left:  # its client has gone
                    continue
                stream.left -= 1
                data = _TOKEN if stream.left else stream.last
                note_late(now_ns() - due_ns)
                if not self._write(stream, data):
                    continue
                if stream.left:
                    rest.append((due_ns + gap_ns, stream))
                elif stream.buffer:
                    self._answer(stream)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            connection.setblocking(False)  # noqa: FBT003 - the standard library's own signature
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._streams[connection.fileno()] = _Stream(connection)
            self._poll.register(connection, select.EPOLLIN)

    def _read(self, stream: _Stream) -> None:
        try:
            data = stream.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._drop(stream)
            return
        stream.buffer += data
        if not stream.left:
            self._answer(stream)

    def _answer(self, stream: _Stream) -> None:
        """Answer the next request in the stream's buffer, if it is whole."""
        head, blank, rest = stream.buffer.partition(b"\r\n\r\n")
        found = _CONTENT_LENGTH.search(head)
        length = int(found[1]) if found else 0
        if not blank or len(rest) < length:
            return
        stream.buffer = rest[length:]
        if head.startswith(b"POST /v1/completions "):
            self._begin(stream, rest[:length])
        elif head.startswith(b"GET /health "):
            self._write(stream, _plain(200, {}))
        elif head.startswith(b"GET /v1/models "):
            listed = {"id": MODEL, "object": "model"}
            self._write(stream, _plain(200, {"object": "list", "data": [listed]}))
        elif head.startswith(b"GET /stats "):
            self._write(stream, _plain(200, asdict(self._stats())))
            self._clear_stats()
        else:
            self._write(stream, _plain(404, {"error": "no such path"}))

    def _begin(self, stream: _Stream, body: bytes) -> None:
        now_ns = self._now_ns()
        try:
            ask = msgspec.json.decode(body, type=_Ask)
        except msgspec.MsgspecError as error:
            self._write(stream, _plain(400, {"error": str(error)}))
            return
        self._arrival_ns.append(now_ns - self._unread_since_ns)
        stream.left, stream.last = max(ask.max_tokens, 1), _last_bytes(ask)
        if self._write(stream, _HEAD):
            self._firsts.append((now_ns + self._timetable.ttft_ns, stream))

    def _write(self, stream: _Stream, data: bytes) -> bool:
        """False when the client has gone, or reads so slowly that its buffers are full."""
        try:
            is_written = stream.send(data) == len(data)
        except OSError:
            is_written = False
        if not is_written:
            self._drop(stream)
        return is_written

    def _drop(self, stream: _Stream) -> None:
        self._dropped += stream.left > 0
        stream.left = 0
        stream.buffer = b""
        del self._streams[stream.connection.fileno()]
        stream.connection.close()

    def _clear_stats(self) -> None:
        self._late_ns, self._arrival_ns = array("q"), array("q")
        self._dropped = 0

    def _stats(self) -> PacedStats:
        late_ns = sorted(self._late_ns)
        return PacedStats(
            requests=len(self._arrival_ns),
            tokens=len(late_ns),
            dropped=self._dropped,
            late_ns_p50=_percentile(late_ns, 50),
            late_ns_p99=_percentile(late_ns, 99),
            arrival_ns_p50=_percentile(sorted(self._arrival_ns), 50),
        )


def _percentile(ordered: Sequence[int], percent: int) -> int | None:
    return ordered[(len(ordered) * percent - 1) // 100] if ordered else None


def _plain(status: int, data: object) -> bytes:
    body = json.dumps(data).encode()
    head = f"HTTP/1.1 {status} Paced\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def main() -> None:
    """The program: serve on a port of the loopback until standard input closes."""
    words = argparse.ArgumentParser(description="Serve tokens on an exact timetable.")
    words.add_argument("--port", type=int, required=True)
    words.add_argument("--ttft-ms", type=float, default=50.0)
    words.add_argument("--gap-ms", type=float, default=10.0)
    flags = words.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    listener = socket.create_server(("127.0.0.1", flags.port), backlog=_BACKLOG)
    timetable = Timetable(ms_to_ns(flags.ttft_ms), ms_to_ns(flags.gap_ms))
    server = PacedServer(listener, timetable, MonotonicClock(), sys.stdin.fileno())
    gc.freeze()
    gc.disable()  # a collection would make tokens late, and little garbage is made
    server.run()


if __name__ == "__main__":
    main()
