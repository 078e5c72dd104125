from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyzer.strings import Strings, StringsBuilder

words = st.lists(st.none() | st.text(alphabet="abcXYZ-_", min_size=1, max_size=9), max_size=12)


def built(texts: list[str | None]) -> Strings:
    builder = StringsBuilder()
    for text in texts:
        builder.add((text or "").encode())
    return builder.build()


@given(words)
def test_what_was_added_is_there_in_order(texts: list[str | None]) -> None:
    strings = built(texts)
    assert list(strings) == texts
    assert len(strings) == len(texts)
    assert strings[1:] == tuple(texts[1:])
    assert strings.lengths.tolist() == [len(text or "") for text in texts]


@given(words, st.data())
def test_any_places_can_be_taken_in_any_order(texts: list[str | None], data: st.DataObject) -> None:
    order = data.draw(
        st.lists(st.sampled_from(range(len(texts))), max_size=15) if texts else st.just([])
    )
    taken = built(texts).take(np.array(order, dtype=np.int64))
    assert list(taken) == [texts[i] for i in order]


def test_a_place_outside_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        built(["a"])[1]


def test_a_million_marks_take_their_characters_and_eight_bytes_each() -> None:
    builder = StringsBuilder()
    for _ in range(1_000_000):
        builder.add(b"x" * 29)
    strings = builder.build()
    assert (strings.characters.nbytes + strings.starts.nbytes) / 1_000_000 == pytest.approx(
        37, 0.01
    )
