"""The parser of server-sent events on tables of bytes, and on the same bytes cut in every way."""

from __future__ import annotations

import pytest

from engines.dialects.sse import SseParser


def payloads(*chunks: bytes) -> list[bytes]:
    parser = SseParser()
    return [payload for chunk in chunks for payload in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: x\n\n", [b"x"]),
        (b"data:x\n\n", [b"x"]),
        (b"data:  x\n\n", [b" x"]),
        (b"data: x\r\n\r\n", [b"x"]),
        (b"data: x\r\r", [b"x"]),
        (b"data: x\n\r\n", [b"x"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data\n\n", [b""]),
        (b"data:\n\n", [b""]),
        (b": ping\n\n", []),
        (b": ping\ndata: x\n\n", [b"x"]),
        (b"event: e\nid: 1\nretry: 5\ndata: x\n\n", [b"x"]),
        (b"\xef\xbb\xbfdata: x\n\n", [b"x"]),
        (b"data: x\n\n\xef\xbb\xbfdata: y\n\n", [b"x"]),
        (b"datas: x\n\n", []),
        (b"data: a\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: unfinished\n", []),
    ],
)
def test_the_parser_follows_the_standard(body: bytes, expected: list[bytes]) -> None:
    assert payloads(body) == expected


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_a_stream_cut_at_any_byte_has_the_same_payloads(line_end: bytes) -> None:
    lines = ["data: 你好", "data: 🙂", "", ": c", "", "data:x", ""]
    body = b"\xef\xbb\xbf" + b"".join(line.encode() + line_end for line in lines)

    for at in range(len(body) + 1):
        assert payloads(body[:at], body[at:]) == ["你好\n🙂".encode(), b"x"]


def test_a_payload_comes_out_with_the_byte_that_completes_it() -> None:
    parser = SseParser()

    assert parser.feed(b"data: x\r\n") == []
    assert parser.feed(b"\r") == [b"x"]
    assert parser.feed(b"\n") == []
