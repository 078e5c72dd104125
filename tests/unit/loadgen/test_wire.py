"""One exchange, and every way in which it can end."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from engines.scripted import Script, ScriptedServer, ScriptEnd, chunk, response_head
from harness.core.clock import MonotonicClock
from harness.core.engine import Capture, Ending, WireRequest
from harness.core.errors import UsageError
from harness.loadgen.wire import Watch, parse_target, request_bytes, run_exchange

REQUEST = WireRequest("POST", "/v1/x", (("Content-Type", "application/json"),), b'{"a":1}')


def exchange(script: Script, url: str | None = None) -> tuple[Capture, list[bytes]]:
    captures: list[Capture] = []

    async def main() -> list[bytes]:
        clock = MonotonicClock()
        async with ScriptedServer([script], clock) as server:
            target = parse_target(url or server.url)
            watch = Watch(lambda: None, lambda _: None, captures.append)
            await run_exchange(target, request_bytes(target, REQUEST), clock, watch)
            return server.requests

    requests = asyncio.run(main())
    (capture,) = captures
    return capture, requests


def body(capture: Capture) -> bytes:
    return b"".join(read.body for read in capture.reads)


def test_a_chunked_answer_is_complete_at_its_last_chunk() -> None:
    pieces = ((0, response_head()), (0, chunk(b"hello ")), (0, chunk(b"world") + chunk(b"")))
    capture, _ = exchange(Script(pieces, ScriptEnd.HANG))

    assert (capture.status, capture.ending, body(capture)) == (200, Ending.COMPLETE, b"hello world")


def test_an_answer_with_a_length_is_complete_at_its_length() -> None:
    head = b"HTTP/1.1 400 Bad\r\nContent-Length: 5\r\n\r\n"
    capture, _ = exchange(Script(((0, head), (0, b"wrong")), ScriptEnd.HANG))

    assert (capture.status, capture.ending, body(capture)) == (400, Ending.COMPLETE, b"wrong")


def test_an_answer_without_a_length_lasts_until_the_server_closes() -> None:
    capture, _ = exchange(Script(((0, b"HTTP/1.1 200 OK\r\n\r\nhello"),)))

    assert (capture.ending, body(capture)) == (Ending.COMPLETE, b"hello")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhell",
        response_head() + chunk(b"hello"),
    ],
)
def test_a_connection_that_closes_before_the_end_was_cut(sent: bytes) -> None:
    capture, _ = exchange(Script(((0, sent),)))

    assert capture.ending is Ending.CUT


def test_a_connection_that_is_reset_says_so_in_the_systems_words() -> None:
    pieces = ((0, response_head() + chunk(b"hello")), (20_000_000, b""))
    capture, _ = exchange(Script(pieces, ScriptEnd.RESET))

    assert capture.ending is Ending.RESET
    assert "reset" in capture.detail.lower()
    assert body(capture) == b"hello"


@pytest.mark.parametrize("sent", [b"\x00\xff binary noise\r\n\r\n", b"SSH-2.0-OpenSSH_9\r\n"])
def test_an_answer_that_is_not_http_has_bad_framing(sent: bytes) -> None:
    capture, _ = exchange(Script(((0, sent),)))

    assert capture.ending is Ending.BAD_FRAMING
    assert capture.status is None


def test_a_chunk_size_that_is_no_number_has_bad_framing_and_keeps_what_came_before() -> None:
    sent = response_head() + chunk(b"good") + b"zz\r\nbad\r\n"
    capture, _ = exchange(Script(((0, sent),)))

    assert (capture.ending, body(capture)) == (Ending.BAD_FRAMING, b"good")


def test_a_refused_connection_is_data_and_no_exception() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    capture, _ = exchange(Script(()), url=f"http://127.0.0.1:{port}")

    assert capture.ending is Ending.CONNECT_FAILED
    assert "refused" in capture.detail.lower()
    assert capture.status is None


def test_every_read_is_stamped_and_stamps_never_go_back() -> None:
    pieces = ((0, response_head()), (3_000_000, chunk(b"a")), (3_000_000, chunk(b"b") + chunk(b"")))
    capture, _ = exchange(Script(pieces))

    stamps = [read.received_ns for read in capture.reads]
    assert capture.first_byte_ns is not None
    assert capture.closed_ns is not None
    assert [capture.sent_ns, capture.first_byte_ns, *stamps, capture.closed_ns] == sorted(
        [capture.sent_ns, capture.first_byte_ns, *stamps, capture.closed_ns]
    )
    assert stamps[1] - stamps[0] >= 2_000_000


def test_the_request_on_the_wire_is_whole_and_asks_for_no_compression() -> None:
    _, requests = exchange(Script(((0, b"HTTP/1.1 200 OK\r\n\r\n"),)))

    head, _, sent = requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/x HTTP/1.1"
    assert "Accept-Encoding: identity" in lines
    assert "Content-Type: application/json" in lines
    assert f"Content-Length: {len(REQUEST.body)}" in lines
    assert sent == REQUEST.body


def test_a_cancelled_exchange_delivers_what_it_had(answer: Callable[..., Script]) -> None:
    captures: list[Capture] = []

    async def main() -> None:
        clock, read = MonotonicClock(), asyncio.Event()
        script = Script(((0, response_head() + chunk(b"first")),), ScriptEnd.HANG)
        async with ScriptedServer([script], clock) as server:
            target = parse_target(server.url)
            watch = Watch(lambda: None, lambda _: read.set(), captures.append)
            task = asyncio.create_task(
                run_exchange(target, request_bytes(target, REQUEST), clock, watch)
            )
            await read.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert captures[0].ending is Ending.CANCELLED
    assert body(captures[0]) == b"first"


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://", ""])
def test_a_url_that_is_none_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(UsageError, match="write it like http://127.0.0.1:8000"):
        parse_target(url)


def test_a_url_may_have_a_path_before_the_route() -> None:
    target = parse_target("http://localhost:81/proxy/")

    assert request_bytes(target, REQUEST).startswith(
        b"POST /proxy/v1/x HTTP/1.1\r\nHost: localhost:81"
    )
