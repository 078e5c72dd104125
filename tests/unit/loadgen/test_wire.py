"""One exchange, and every way in which it can end."""

import asyncio
import gc
import socket
from collections.abc import Sequence

import pytest

from engines.scripted import Script, ScriptedServer, ScriptEnd, chunk, response_head
from harness.core.clock import MonotonicClock
from harness.core.engine import Capture, Ending, WireRequest
from harness.core.errors import UsageError
from harness.loadgen.framing import RawCapture, ResponseEnd, capture_of
from harness.loadgen.pool import Pool
from harness.loadgen.receiver import receive_library
from harness.loadgen.wire import Job, parse_target, request_bytes


@pytest.fixture(autouse=True, params=["compiled", "asyncio"])
def who_reads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every exchange comes out the same, whichever of the two ways there are reads the socket."""
    if request.param == "asyncio":
        monkeypatch.setattr("harness.loadgen.pool.receive_library", lambda: None)
    elif receive_library() is None:
        pytest.skip("there is no C compiler, or no epoll")


REQUEST = WireRequest("POST", "/v1/x", (("Content-Type", "application/json"),), b'{"a":1}')


def exchanges(
    scripts: Sequence[Script], count: int = 1, url: str | None = None
) -> tuple[list[Capture], ScriptedServer]:
    """`count` requests one after the other over one pool."""
    captures: list[RawCapture] = []

    async def main() -> ScriptedServer:
        clock, ended = MonotonicClock(), asyncio.Event()

        def deliver(capture: RawCapture) -> None:
            captures.append(capture)
            ended.set()

        async with ScriptedServer(scripts, clock) as server:
            target = parse_target(url or server.url)
            pool = Pool(target, clock.now_ns, deliver)
            for index in range(count):
                ended.clear()
                pool.send(Job(index, request_bytes(target, REQUEST)))
                await ended.wait()
                await asyncio.sleep(0.02)  # the server may close what it has answered
            pool.close()
            return server

    server = asyncio.run(main())
    return [capture_of(raw) for raw in captures], server


def exchange(script: Script, url: str | None = None) -> Capture:
    (capture,), _ = exchanges([script], url=url)
    return capture


def body(capture: Capture) -> bytes:
    return b"".join(read.body for read in capture.reads)


def test_a_chunked_answer_is_complete_at_its_last_chunk() -> None:
    pieces = ((0, response_head()), (0, chunk(b"hello ")), (0, chunk(b"world") + chunk(b"")))
    capture = exchange(Script(pieces, ScriptEnd.HANG))

    assert (capture.status, capture.ending, body(capture)) == (200, Ending.COMPLETE, b"hello world")


def test_an_answer_with_a_length_is_complete_at_its_length() -> None:
    head = b"HTTP/1.1 400 Bad\r\nContent-Length: 5\r\n\r\n"
    capture = exchange(Script(((0, head), (0, b"wrong")), ScriptEnd.HANG))

    assert (capture.status, capture.ending, body(capture)) == (400, Ending.COMPLETE, b"wrong")


def test_an_answer_without_a_length_lasts_until_the_server_closes() -> None:
    capture = exchange(Script(((0, b"HTTP/1.1 200 OK\r\n\r\nhello"),)))

    assert (capture.ending, body(capture)) == (Ending.COMPLETE, b"hello")


def test_an_empty_line_inside_a_body_does_not_end_it() -> None:
    pieces = (
        (0, response_head()),
        (5_000_000, b"8\r\nab\r\n\r\n"),
        (5_000_000, b"cd\r\n"),
        (5_000_000, chunk(b"ef") + chunk(b"")),
    )
    capture = exchange(Script(pieces, ScriptEnd.HANG))

    assert (capture.ending, body(capture)) == (Ending.COMPLETE, b"ab\r\n\r\ncdef")


def test_an_answer_may_end_with_trailers() -> None:
    end = b"0\r\nX-Checksum: 1\r\n\r\n"
    capture = exchange(Script(((0, response_head() + chunk(b"a")), (0, end)), ScriptEnd.HANG))

    assert (capture.ending, body(capture)) == (Ending.COMPLETE, b"a")


@pytest.mark.parametrize("size", range(1, 40))
def test_an_answer_cut_anywhere_into_reads_is_the_same_answer(size: int) -> None:
    whole = response_head() + chunk(b"data: x\r\n\r\n") + chunk(b"data: \r\n\r\n") + chunk(b"")
    pieces = tuple((100_000, whole[i : i + size]) for i in range(0, len(whole), size))
    capture = exchange(Script(pieces, ScriptEnd.HANG))

    assert (capture.ending, body(capture)) == (Ending.COMPLETE, b"data: x\r\n\r\ndata: \r\n\r\n")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhell",
        response_head() + chunk(b"hello"),
        response_head() + chunk(b"data: x\r\n\r\n"),
    ],
)
def test_a_connection_that_closes_before_the_end_was_cut(sent: bytes) -> None:
    assert exchange(Script(((0, sent),))).ending is Ending.CUT


def test_a_connection_that_is_reset_says_so_in_the_systems_words() -> None:
    pieces = ((0, response_head() + chunk(b"hello")), (20_000_000, b""))
    capture = exchange(Script(pieces, ScriptEnd.RESET))

    assert capture.ending is Ending.RESET
    assert "reset" in capture.detail.lower()
    assert body(capture) == b"hello"


@pytest.mark.parametrize("sent", [b"\x00\xff binary noise\r\n\r\n", b"SSH-2.0-OpenSSH_9\r\n"])
def test_an_answer_that_is_not_http_has_bad_framing(sent: bytes) -> None:
    capture = exchange(Script(((0, sent),)))

    assert capture.ending is Ending.BAD_FRAMING
    assert capture.status is None


def test_a_chunk_size_that_is_no_number_has_bad_framing_and_keeps_what_came_before() -> None:
    sent = response_head() + chunk(b"good") + b"zz\r\nbad\r\n"
    capture = exchange(Script(((0, sent),)))

    assert (capture.ending, body(capture)) == (Ending.BAD_FRAMING, b"good")


def test_headers_that_never_end_fail_alone_at_a_limit() -> None:
    endless = b"X-More: " + b"x" * 2**20 + b"\r\n"
    pieces = ((0, b"HTTP/1.1 200 OK\r\n"), *(((0, endless),) * 70))
    capture = exchange(Script(pieces, ScriptEnd.HANG))

    assert capture.ending in (Ending.TOO_LARGE, Ending.BAD_FRAMING)


def test_a_line_of_nine_mebibytes_is_read_whole() -> None:
    line = b"data: " + b"x" * (9 * 2**20) + b"\n\n"
    capture = exchange(Script(((0, response_head() + chunk(line) + chunk(b"")),), ScriptEnd.HANG))

    assert capture.ending is Ending.COMPLETE
    assert len(body(capture)) == len(line)


def test_a_refused_connection_is_data_and_no_exception() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    capture = exchange(Script(()), url=f"http://127.0.0.1:{port}")

    assert (capture.ending, capture.detail) == (Ending.CONNECT_FAILED, "Connection refused")
    assert capture.status is None


def test_every_read_is_stamped_and_stamps_never_go_back() -> None:
    pieces = ((0, response_head()), (3_000_000, chunk(b"a")), (3_000_000, chunk(b"b") + chunk(b"")))
    capture = exchange(Script(pieces))

    stamps = [read.received_ns for read in capture.reads]
    assert capture.first_byte_ns is not None
    assert capture.closed_ns is not None
    all_stamps = [capture.sent_ns, capture.first_byte_ns, *stamps, capture.closed_ns]
    assert all_stamps == sorted(all_stamps)
    assert stamps[1] - stamps[0] >= 2_000_000


def test_the_request_on_the_wire_is_whole_and_asks_for_no_compression() -> None:
    _, server = exchanges([Script(((0, b"HTTP/1.1 200 OK\r\n\r\n"),))])

    head, _, sent = server.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/x HTTP/1.1"
    assert "Accept-Encoding: identity" in lines
    assert "Content-Type: application/json" in lines
    assert f"Content-Length: {len(REQUEST.body)}" in lines
    assert sent == REQUEST.body


WHOLE = Script(((0, response_head() + chunk(b"a") + chunk(b"")),), ScriptEnd.KEEP)
WHOLE_THEN_CLOSE = Script(((0, response_head() + chunk(b"a") + chunk(b"")),), ScriptEnd.CLOSE)


def test_a_connection_that_the_server_keeps_open_is_used_again() -> None:
    captures, server = exchanges([WHOLE], count=3)

    assert [capture.ending for capture in captures] == [Ending.COMPLETE] * 3
    assert server.connections == 1


def test_an_exchange_leaves_no_garbage_that_only_a_collection_would_free() -> None:
    """A worker that sends a million requests collects none."""
    gc.collect()
    gc.disable()
    try:
        _, server = exchanges([WHOLE], count=5)
        # By type: asking other modules' lazy objects for their class makes them warn.
        left = sum(type(thing) is ResponseEnd for thing in gc.get_objects())
    finally:
        gc.enable()

    assert len(server.requests) == 5
    assert left <= server.connections


def test_a_connection_that_the_server_closed_while_idle_is_replaced() -> None:
    captures, server = exchanges([WHOLE_THEN_CLOSE], count=3)

    assert [(c.ending, c.retries) for c in captures] == [(Ending.COMPLETE, 0)] * 3
    assert server.connections == 3


def test_a_kept_connection_that_closes_before_a_byte_comes_back_is_retried_once_and_counted() -> (
    None
):
    close_silently = Script(())
    captures, server = exchanges([WHOLE, close_silently, WHOLE], count=2)

    assert [(c.ending, c.retries) for c in captures] == [(Ending.COMPLETE, 0), (Ending.COMPLETE, 1)]
    assert len(server.requests) == 3


def test_there_is_no_second_retry_and_none_on_a_fresh_connection() -> None:
    close_silently = Script(())
    captures, server = exchanges([WHOLE, close_silently, close_silently, close_silently], count=3)

    assert [(c.ending, c.retries) for c in captures] == [
        (Ending.COMPLETE, 0), (Ending.CUT, 1), (Ending.CUT, 0),
    ]  # fmt: skip


def test_there_is_no_retry_once_a_byte_came_back() -> None:
    captures, _ = exchanges([WHOLE, Script(((0, b"HTTP/1.1 200"),))], count=2)

    assert [(c.ending, c.retries) for c in captures] == [(Ending.COMPLETE, 0), (Ending.CUT, 0)]


def test_a_server_that_says_close_is_not_asked_again_on_that_connection() -> None:
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"
    captures, server = exchanges([Script(((0, head),), ScriptEnd.KEEP)], count=2)

    assert [capture.ending for capture in captures] == [Ending.COMPLETE] * 2
    assert server.connections == 2


def test_cancelled_exchanges_deliver_what_they_had() -> None:
    captures: list[RawCapture] = []

    async def main() -> None:
        clock = MonotonicClock()
        script = Script(((0, response_head() + chunk(b"first")),), ScriptEnd.HANG)
        async with ScriptedServer([script], clock) as server:
            target = parse_target(server.url)
            pool = Pool(target, clock.now_ns, captures.append)
            pool.send(Job(0, request_bytes(target, REQUEST)))
            while not pool.reads:
                await asyncio.sleep(0.001)
            pool.send(Job(1, request_bytes(target, REQUEST)))  # its connection is being opened
            pool.cancel_all()
            assert pool.in_flight == 0

    asyncio.run(main())
    by_index = {raw.index: capture_of(raw) for raw in captures}
    assert {c.ending for c in by_index.values()} == {Ending.CANCELLED}
    assert body(by_index[0]) == b"first"
    assert body(by_index[1]) == b""


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://", "", "http+unix://"])
def test_a_url_that_is_none_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(UsageError, match="write it like http://127.0.0.1:8000"):
        parse_target(url)


def test_a_url_may_have_a_path_before_the_route() -> None:
    target = parse_target("http://localhost:81/proxy/")

    assert request_bytes(target, REQUEST).startswith(
        b"POST /proxy/v1/x HTTP/1.1\r\nHost: localhost:81"
    )


def test_a_proxy_in_the_environment_does_not_catch_the_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    assert exchange(WHOLE).ending is Ending.COMPLETE
