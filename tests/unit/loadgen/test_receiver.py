"""What the compiled receiver says of a response is what the parser would say of the same bytes."""

import ctypes
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.loadgen.framing import MOST_RESPONSE_BYTES, ResponseEnd
from harness.loadgen.receiver import receive_library

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
bodies = st.lists(
    st.binary(min_size=1, max_size=40)
    | st.sampled_from([b"data: x\n\n", b"data: x\r\n\r\n", b"\r\n\r\n", b"0\r\n\r\n", b"a" * 300]),
    max_size=6,
)

pytestmark = pytest.mark.skipif(
    receive_library() is None, reason="there is no C compiler, or no epoll"
)


def chunked(pieces: list[bytes], end: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end


@contextmanager
def received(reads: list[bytes]) -> Iterator[tuple[int, list[int]]]:
    """What `receiver_whole` says after `reads`, and which of them the caller was told of."""
    library = receive_library()
    assert library is not None
    handle = library.receiver_open(MOST_RESPONSE_BYTES)
    theirs, ours = socket.socketpair()
    places, whys = (ctypes.c_int32 * 512)(), (ctypes.c_int32 * 512)()
    try:
        place = library.receiver_add(handle, ours.fileno())
        told = []
        for read in reads:
            theirs.sendall(read)
            told.append(library.receiver_drain(handle, places, whys, 0))
        yield library.receiver_whole(handle, place), told
    finally:
        library.receiver_close(handle)
        theirs.close()
        ours.close()


def is_complete(response: bytes) -> bool:
    """Whether the parser finds one response in `response`, and nothing after it."""
    end = ResponseEnd()
    try:
        end.feed(response[:-1])
        was_complete = end.is_complete
        end.feed(response[-1:])
    except httptools.HttpParserError:
        return False
    return end.is_complete and not was_complete


@given(pieces=bodies)
def test_a_plain_response_is_known_to_be_whole(pieces: list[bytes]) -> None:
    with received([HEAD + chunked(pieces)]) as (head_bytes, told):
        assert head_bytes == len(HEAD)
        assert told == [1]


@given(pieces=bodies, data=st.data())
def test_what_is_known_to_be_whole_is_whole_for_the_parser_too(
    pieces: list[bytes], data: st.DataObject
) -> None:
    response = bytearray(HEAD + chunked(pieces))
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(len(HEAD), len(response) - 1))
        response[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))

    with received([bytes(response)]) as (head_bytes, _):
        assert not head_bytes or is_complete(bytes(response))


@given(pieces=bodies, cut=st.integers(0, 2_000))
def test_a_response_that_has_not_come_whole_is_not_taken_for_one(
    pieces: list[bytes], cut: int
) -> None:
    response = HEAD + chunked(pieces)
    first = response[: 1 + cut % (len(response) - 1)]

    with received([first]) as (head_bytes, _):
        assert head_bytes == 0


@pytest.mark.parametrize("end", [b"0\r\nX-Checksum: 1\r\n\r\n", b"0;x=1\r\n\r\n", b"0\r\n\r\nHTTP"])
def test_trailers_extensions_and_what_follows_are_left_to_the_parser(end: bytes) -> None:
    with received([HEAD + chunked([b"a"], end)]) as (head_bytes, _):
        assert head_bytes == 0


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD,
        HEAD.replace(b"chunked", b"gzip, chunked"),
        HEAD.replace(b"\r\nTransfer-", b"\r\nX-Transfer-"),
        HEAD[:-2],
    ],
)
def test_without_a_head_that_says_chunked_the_caller_is_told_of_every_read(head: bytes) -> None:
    with received([head, b"a", b"b"]) as (head_bytes, told):
        assert head_bytes == 0
        assert told == [1, 1, 1]


def test_in_a_response_in_chunks_the_caller_is_told_of_what_ends_with_an_empty_line() -> None:
    reads = [HEAD, b"8\r\ndata: x\n\r\n", b"4\r\n\r\n\r\n\r\n", b"1\r\na\r\n", b"0\r\n\r\n"]

    with received(reads) as (head_bytes, told):
        assert head_bytes == len(HEAD)
        assert told == [1, 0, 1, 0, 1]
