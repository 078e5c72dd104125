"""The paced server: exact tokens, never early, honest about its own lateness."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.paced import PacedServer, Timetable
from engines.paced_server import PacedProcess
from harness.core.clock import MonotonicClock
from harness.core.units import NS_PER_MS

CLOCK = MonotonicClock()
TIMETABLE = Timetable(ttft_ns=8 * NS_PER_MS, gap_ns=3 * NS_PER_MS)
WAIT_S = 60.0


def post(body: bytes) -> bytes:
    return b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def ask(tokens: int) -> bytes:
    return post(json.dumps({"prompt": [5, 6, 7], "max_tokens": tokens}).encode())


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\n\r\n".encode()


class Client:
    """A plain socket to a server."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self.read = b""

    def until(self, end: bytes) -> tuple[bytes, list[int]]:
        """All that comes up to `end`, and when each text event came."""
        stamps: list[int] = []
        while end not in self.read:
            data = self.socket.recv(65536)
            assert data, self.read
            stamps += [CLOCK.now_ns()] * data.count(b'"text":')
            self.read += data
        found, _, self.read = self.read.partition(end)
        return found + end, stamps

    def json(self, path: str) -> dict[str, int | None]:
        self.socket.sendall(get(path))
        self.until(b"\r\n\r\n")
        body, _ = self.until(b"}")
        data: dict[str, int | None] = json.loads(body)
        return data


@contextmanager
def serving() -> Iterator[int]:
    """The port of a server that runs in a thread while inside."""
    listener = socket.create_server(("127.0.0.1", 0))
    here, there = socket.socketpair()
    with here, there, listener:
        server = PacedServer(listener, TIMETABLE, CLOCK, there.fileno())
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        here.shutdown(socket.SHUT_WR)  # as when the parent has gone
        thread.join(timeout=WAIT_S)
        assert not thread.is_alive()


@pytest.fixture
def client() -> Iterator[Client]:
    with serving() as port:
        made = Client(port)
        yield made
        made.socket.close()


END = b"\r\n0\r\n\r\n"


def test_an_answer_has_the_tokens_asked_for_a_usage_and_an_end(client: Client) -> None:
    client.socket.sendall(ask(5))
    said, _ = client.until(END)

    assert said.count(b'"text":" hello"') == 5
    assert said.count(b'"finish_reason":"length"') == 1
    assert b'"usage":{"prompt_tokens":3,"completion_tokens":5}' in said
    assert b"data: [DONE]" in said


def test_no_token_comes_before_it_is_due(client: Client) -> None:
    sent_ns = CLOCK.now_ns()
    client.socket.sendall(ask(6))
    _, stamps = client.until(END)

    assert len(stamps) == 6
    for k, at_ns in enumerate(stamps):
        assert at_ns >= sent_ns + TIMETABLE.ttft_ns + k * TIMETABLE.gap_ns


def test_requests_may_follow_each_other_on_a_connection_and_lie_behind_each_other(
    client: Client,
) -> None:
    client.socket.sendall(ask(1) + ask(2))
    first, _ = client.until(END)
    second, _ = client.until(END)
    client.socket.sendall(ask(3)[:20])
    client.socket.sendall(ask(3)[20:])
    third, _ = client.until(END)

    assert [said.count(b"hello") for said in (first, second, third)] == [1, 2, 3]


def test_what_it_did_is_told_once(client: Client) -> None:
    client.socket.sendall(ask(4))
    client.until(END)
    stats, again = client.json("/stats"), client.json("/stats")

    assert (stats["requests"], stats["tokens"], stats["dropped"]) == (1, 4, 0)
    assert 0 <= (stats["late_ns_p50"] or 0) <= (stats["late_ns_p99"] or 0)
    assert (again["requests"], again["tokens"]) == (0, 0)
    assert again["late_ns_p50"] is again["late_ns_p99"] is again["arrival_ns_p50"] is None


def test_a_client_that_leaves_is_counted_and_troubles_nobody() -> None:
    with serving() as port:
        leaver, stayer = Client(port), Client(port)
        leaver.socket.sendall(ask(10_000))
        leaver.until(b"hello")
        leaver.socket.close()
        stayer.socket.sendall(ask(3))
        said, _ = stayer.until(END)
        dropped = 0
        while not dropped:  # the server may not have noticed yet
            dropped = stayer.json("/stats")["dropped"] or 0
        stayer.socket.close()

    assert said.count(b"hello") == 3
    assert dropped == 1


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [(get("/health"), b"200"), (get("/other"), b"404"), (post(b"{"), b"400"), (post(b"[1]"), b"400")],
)  # fmt: skip
def test_other_requests_get_a_plain_answer(
    client: Client, request_bytes: bytes, status: bytes
) -> None:
    client.socket.sendall(request_bytes)
    said, _ = client.until(b"\r\n\r\n")

    assert said.startswith(b"HTTP/1.1 " + status)


def test_as_a_process_it_starts_tells_and_stops(tmp_path: Path) -> None:
    async def main() -> tuple[int, int]:
        process = PacedProcess(TIMETABLE, tmp_path, CLOCK)
        await process.start()
        try:
            host, port = process.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(ask(3))
            await reader.readuntil(END)
            writer.close()
            stats = await process.stats()
        finally:
            await process.stop()
        with pytest.raises(OSError, match="refused|failed"):
            await asyncio.open_connection(host, int(port))
        return stats.requests, stats.tokens

    assert asyncio.run(main()) == (1, 3)


def test_it_answers_what_the_dialect_asks() -> None:
    from harness.core.workload import Request

    wire = OpenAICompletionsDialect().encode(Request(0, "A", (1, 2), 2), "paced")
    assert wire.path == "/v1/completions"
    with serving() as port:
        client = Client(port)
        client.socket.sendall(post(wire.body))
        said, _ = client.until(END)
        client.socket.close()
    assert said.count(b"hello") == 2
