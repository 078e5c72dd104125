"""Settings that mean nothing are refused, with what to do instead."""

from typing import Any

import pytest

from engines.scheduling.limits import Limits
from engines.scheduling.sequence import Sequence


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slots": 0}, "slots is 0; it must be at least 1"),
        ({"kv_blocks": 0}, "kv_blocks is 0"),
        ({"block_tokens": 0}, "block_tokens is 0"),
        ({"step_tokens": 0}, "step_tokens is 0"),
        ({"kv": "pages"}, "unknown kv 'pages'; choose from paged, reserved"),
        ({"capacity": "all"}, "unknown capacity 'all'; choose from guaranteed_no_evict, max_util"),
        ({"order": "both"}, "unknown order 'both'; choose from decode_first, prefill_first"),
        ({"step_tokens": 3}, "step_tokens is 3, and 4 slots .* give at least 4, or fewer slots"),
        ({"chunked_prefill": True}, "chunked_prefill .* step_tokens, which is not given"),
        ({"kv": "reserved", "prefix_cache": True}, "prefix_cache .* use kv 'paged'"),
        ({"kv": "reserved", "capacity": "max_utilization"}, "never has to grow"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Limits(**{"slots": 4, "kv_blocks": 8, **changes})


@pytest.mark.parametrize(
    ("sequence", "message"),
    [
        (Sequence(0, 0, 1, 0), "must be at least 1"),
        (Sequence(0, 1, 0, 0), "must be at least 1"),
        (Sequence(0, 6, 4, 0), "need 9 tokens of KV cache, the whole cache holds 8"),
        (Sequence(0, 6, 1, 0, (b"a", b"b")), "2 block keys for a prompt that fills 1 blocks"),
    ],
)
def test_a_sequence_that_can_never_be_served_is_refused(sequence: Sequence, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Limits(slots=1, kv_blocks=2, block_tokens=4).check(sequence)


def test_the_last_token_of_an_answer_needs_no_room() -> None:
    Limits(slots=1, kv_blocks=2, block_tokens=4).check(Sequence(0, 5, 4, 0))
