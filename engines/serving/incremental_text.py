"""Text of an answer while its tokens arrive: a character is sent once, when it is whole."""

from __future__ import annotations

from engines.serving.generation import TextCodec

_REPLACEMENT = "\ufffd"
# A UTF-8 character has at most 4 bytes and a token at least one, so at most the last 3 tokens can
# be the beginning of a character. Decoders show such a beginning as 1 to 3 replacement marks.
_OPEN_TOKENS = 3
# One mark may stand for up to three tokens that never became a character, and three may be unsent.
_KEPT_TOKENS = 1 + 3 * _OPEN_TOKENS
_WINDOW_TOKENS = 16


class IncrementalText:
    """Decodes token by token, over a short window, so that the cost of a token does not grow.

    All pieces and the last flush together are what decoding all tokens at once gives.
    """

    def __init__(self, codec: TextCodec) -> None:
        self._codec = codec
        self._window: tuple[int, ...] = ()
        self._text = ""
        self._sent = 0

    def push(self, token_id: int) -> str:
        """The text that `token_id` completes; empty while a character is still open."""
        self._window = (*self._window, token_id)
        self._text = self._codec.decode(self._window)
        whole = _whole_characters(self._text)
        piece = self._text[self._sent : whole]
        self._sent = max(self._sent, whole)
        if len(self._window) >= _WINDOW_TOKENS:
            self._slide()
        return piece

    def flush(self) -> str:
        """What is left when no token follows: the marks of a character that was never completed."""
        piece = self._text[self._sent :]
        self._sent = len(self._text)
        return piece

    def _slide(self) -> None:
        """Keep only the last tokens: one as context, and those that what is unsent may be of.

        What is unsent is counted from the end: the context may be the rest of a character that was
        sent, which by itself is only marks.
        """
        unsent = len(self._text) - self._sent
        self._window = self._window[-_KEPT_TOKENS:]
        self._text = self._codec.decode(self._window)
        self._sent = len(self._text) - unsent


def _whole_characters(text: str) -> int:
    """How many characters at the start of `text` no later token can change."""
    tail = text[-_OPEN_TOKENS:]
    return len(text) - (len(tail) - len(tail.rstrip(_REPLACEMENT)))
