"""The quick reading of a chunk against the slow one, on payloads of every shape."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from engines.dialects.openai_chunks import read_chunk, read_unusual_chunk

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=4,
)
choices = st.fixed_dictionaries(
    {},
    optional={
        "text": json_values | st.text(max_size=4),
        "finish_reason": json_values | st.sampled_from(["stop", "length"]),
        "token_ids": json_values | st.lists(st.integers(0, 9), max_size=3),
        "delta": json_values | st.fixed_dictionaries({"content": st.text(max_size=3)}),
    },
)
chunk_payloads = st.fixed_dictionaries(
    {},
    optional={
        "choices": json_values | st.lists(choices, max_size=2),
        "usage": json_values
        | st.fixed_dictionaries(
            {},
            optional={
                "prompt_tokens": json_values,
                "completion_tokens": json_values,
                "prompt_tokens_details": json_values
                | st.fixed_dictionaries({"cached_tokens": json_values}),
            },
        ),
        "error": json_values | st.fixed_dictionaries({"message": st.text(max_size=3)}),
        "object": json_values | st.just("error"),
        "message": json_values,
        "detail": json_values,
    },
)


@given(chunk_payloads)
def test_the_quick_reading_of_a_chunk_says_what_the_slow_one_says(payload: object) -> None:
    encoded = msgspec.json.encode(payload)

    assert read_chunk(encoded) == read_unusual_chunk(encoded)
