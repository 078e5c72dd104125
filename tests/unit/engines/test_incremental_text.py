"""Text that is decoded token by token is the text that is decoded at once."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from engines.serving.incremental_text import IncrementalText


class Pieces:
    """A codec whose token i stands for the bytes `pieces[i]`."""

    def __init__(self, pieces: list[bytes], *, marks_each_byte: bool = False) -> None:
        self.pieces = pieces
        self.marks_each_byte = marks_each_byte
        self.longest = 0

    def encode(self, text: str) -> tuple[int, ...]:
        raise NotImplementedError

    def encode_chat(self, messages: list[tuple[str, str]]) -> tuple[int, ...]:
        raise NotImplementedError

    def decode(self, token_ids: tuple[int, ...]) -> str:
        self.longest = max(self.longest, len(token_ids))
        data = b"".join(self.pieces[i] for i in token_ids)
        if not self.marks_each_byte:
            return data.decode(errors="replace")
        escaped = data.decode(errors="surrogateescape")
        return "".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in escaped)


def stream(codec: Pieces) -> list[str]:
    text = IncrementalText(codec)
    return [*(text.push(i) for i in range(len(codec.pieces))), text.flush()]


def single_bytes(text: str) -> list[bytes]:
    return [bytes([byte]) for byte in text.encode()]


def test_a_character_of_several_tokens_is_sent_with_its_last_one() -> None:
    assert stream(Pieces(single_bytes("a你🙂"))) == ["a", "", "", "你", "", "", "", "🙂", ""]


def test_decoders_that_mark_every_open_byte_are_understood() -> None:
    codec = Pieces(single_bytes("🙂你!"), marks_each_byte=True)

    assert stream(codec) == ["", "", "", "🙂", "", "", "你", "!", ""]


def test_a_character_that_is_never_completed_is_flushed_as_a_mark() -> None:
    assert stream(Pieces(single_bytes("a🙂")[:-1])) == ["a", "", "", "", "\ufffd"]


def test_tokens_without_text_give_none() -> None:
    assert stream(Pieces([b"a", b"", b"b"])) == ["a", "", "b", ""]


def test_the_window_stays_short_even_when_nothing_is_valid() -> None:
    codec = Pieces([b"\xff"] * 500)

    assert "".join(stream(codec)) == "\ufffd" * 500
    assert codec.longest <= 16


@given(text=st.text(alphabet="a é你好🙂🚀\n", max_size=60), data=st.data())
def test_valid_text_arrives_unchanged_and_without_marks(text: str, data: st.DataObject) -> None:
    body = text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(body)))) | {0, len(body)})
    pieces = [body[a:b] for a, b in pairwise(cuts)]

    for marks_each_byte in (False, True):
        sent = stream(Pieces(pieces, marks_each_byte=marks_each_byte))

        assert "".join(sent) == text
        assert all("\ufffd" not in piece for piece in sent)


@given(data=st.binary(max_size=80))
@example(data=b"A" + b"\xe1\x80" * 30)
@example(data=b"\x00" * 11 + "\u1000".encode() + b"\x80\x80")
def test_any_bytes_give_the_text_of_decoding_them_at_once(data: bytes) -> None:
    codec = Pieces([bytes([byte]) for byte in data])

    assert "".join(stream(codec)) == data.decode(errors="replace")
