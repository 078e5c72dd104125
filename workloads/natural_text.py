"""Plain English of any length, made of sentences of our own: frames whose gaps random words fill.

It reads like prose and means nothing. Its words are chosen among those that are one token, so that
a text can be cut after any of them, and joined to another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from workloads.exact_text import Tokenizer
from workloads.prompts import is_left_as_it_is
from workloads.streams import Words, runs

# Lists of fewer words than this are not cut down to those of one token.
_FEWEST_WORDS = 16
_FRAME_KEYS = np.uint64(0xF7A3E5)
_PIECE = re.compile(r"<\w+>|\w+|[^\w\s]")

WORDS = {
    "<thing>": (
        "river garden letter window kitchen engine market forest bridge teacher doctor farmer "
        "village station mountain ocean library museum picture machine message journey season "
        "family captain student writer artist worker driver singer table chair mirror basket "
        "bottle candle blanket ticket wagon island valley harbor castle temple tower school office "
        "hotel theater palace desert meadow stream horse rabbit eagle spider turtle winter summer "
        "morning evening problem answer question story"
    ),
    "<kind>": (
        "small large quiet bright early heavy gentle narrow broad simple golden silver wooden "
        "ancient modern hidden broken empty gray green yellow purple orange white black brown "
        "dark deep cold warm cool dry wet soft hard rough smooth sharp round square short tall "
        "young old new strange common rare strong weak slow quick calm proud brave clever honest "
        "lonely happy tired hungry careful foreign local distant"
    ),
    "<did>": (
        "found followed carried watched opened closed painted repaired crossed entered reached "
        "visited remembered noticed described measured counted covered filled moved pulled pushed "
        "turned raised lifted dropped lost kept held built broke bought sold sent brought taught "
        "heard saw knew met left lent gave took wrote read drew cut shared saved showed hid chose "
        "wanted needed liked loved feared changed joined cleaned washed tested"
    ),
    "<how>": (
        "slowly quickly quietly carefully easily rarely often always never again once twice alone "
        "together today yesterday later soon early late nearby outside inside upstairs everywhere "
        "anyway instead perhaps indeed finally suddenly usually sometimes gladly badly well still "
        "gently loudly openly safely simply clearly nearly almost exactly directly freely fully "
        "mostly partly largely recently lately forever somehow somewhere elsewhere ahead away"
    ),
}
FRAMES = (
    "The <kind> <thing> <did> the <thing> <how>.",
    "This <thing> that <did> the <kind> <thing> came back <how>.",
    "When the <thing> <did> that <kind> <thing>, nobody spoke <how>.",
    "In this <thing> the <kind> <thing> <how> <did> it.",
    "Their <kind> <thing> <did> our <thing>, and it stayed <how>.",
    "Every <thing> <how> <did> some <kind> <thing>.",
    "We <did> the <kind> <thing> behind the <thing> <how>.",
    "She <how> <did> one <thing> for my <kind> <thing>.",
)


class NaturalText:
    """Text as a source of prompts: its tokens, by `tokenizer`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        lists = {gap: _tokens_of(words.split(), tokenizer) for gap, words in WORDS.items()}
        self._choices = min(len(words) for words in lists.values())
        self._lists = {gap: words[: self._choices] for gap, words in lists.items()}
        self._frames = [_frame(frame, tokenizer) for frame in FRAMES]
        self.is_exact = self._can_be_cut(tokenizer)

    def tokens(self, keys: Words, ids: Words, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Text of `lengths[i]` tokens for each key and id, one after another."""
        # A sentence has a gap for one token in three at most, and a frame for one in seven.
        words = iter(np.split(runs(keys, ids, lengths, self._choices), np.cumsum(lengths)[:-1]))
        frames = runs(keys ^ _FRAME_KEYS, ids, lengths, len(FRAMES))
        orders = iter(np.split(frames, np.cumsum(lengths)[:-1]))
        texts = [
            self._text(next(words).tolist(), next(orders).tolist(), length)
            for length in lengths.tolist()
        ]
        return np.fromiter(chain.from_iterable(texts), dtype=np.int64, count=int(lengths.sum()))

    def _text(self, words: Sequence[int], order: Sequence[int], length: int) -> list[int]:
        tokens: list[int] = []
        word = iter(words)
        for frame in order:
            for piece in self._frames[frame]:
                tokens += self._lists[piece][next(word)] if isinstance(piece, str) else piece
                if len(tokens) >= length:
                    return tokens[:length]
        return tokens

    def _can_be_cut(self, tokenizer: Tokenizer) -> bool:
        """True when every word is one token, in every frame as well as alone."""
        for frame in self._frames:
            row: list[int] = []
            for choice in range(self._choices):
                for piece in frame:
                    tokens = self._lists[piece][choice] if isinstance(piece, str) else piece
                    if len(tokens) != 1:
                        return False
                    row += tokens
            if not is_left_as_it_is(row, tokenizer):
                return False
        return True


def _tokens_of(words: Sequence[str], tokenizer: Tokenizer) -> list[tuple[int, ...]]:
    """The tokens of each word with a space before it: of those of one token, if enough."""
    tokens = [tuple(tokenizer.encode(f" {word}")) for word in dict.fromkeys(words)]
    single: list[tuple[int, ...]] = [ids for ids in tokens if len(ids) == 1]
    return single if len(single) >= _FEWEST_WORDS else tokens


def _frame(text: str, tokenizer: Tokenizer) -> list[str | tuple[int, ...]]:
    """The pieces of a frame: the names of its gaps, and the tokens of all else."""
    return [
        piece
        if piece.startswith("<")
        else tuple(tokenizer.encode(f" {piece}" if piece.isalpha() else piece))
        for piece in _PIECE.findall(text)
    ]
