"""Decoding in buckets against decoding as the batch is, token for token.

What is captured is done again by a tape that knows no more than a CUDA graph does: it repeats the
operators of one call on the memory of that call, and no Python is run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engines.inhouse.bucketed_decode import Bucket, BucketedDecode, Means, buckets_of
from engines.inhouse.capture import Step
from engines.inhouse.kv_cache import CacheSize, KvCache
from engines.inhouse.model import LlamaModel
from engines.inhouse.paged_attention import GATHERED
from engines.inhouse.torch_forward import TorchForward
from engines.scheduling.step import Decode, Prefill

BLOCK, BLOCKS, MOST = 4, 80, Bucket(6, 40)
# What a GPU would have to be waited for: a graph that asked for it could not be captured.
ASKS_FOR_VALUES = {
    "aten.item",
    "aten._local_scalar_dense",
    "aten.nonzero",
    "aten.is_nonzero",
    "aten.equal",
}


class Recorder(TorchDispatchMode):
    """Notes every operator that is called, with the memory that it read and wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        assert operator._schema.name.replace("::", ".") not in ASKS_FOR_VALUES
        made = operator(*args, **(kwargs or {}))
        self.calls.append((operator, args, kwargs or {}, made))
        return made


class Tape:
    """A Capture that keeps how often it was used, and of which step."""

    name = "tape"

    def __init__(self) -> None:
        self.captured: list[Step] = []
        self.replays = 0

    def __call__(self, step: Step) -> Step:
        self.captured.append(step)
        step()  # as a warm-up does
        with Recorder() as recorder:
            step()
        return partial(self._replay, recorder)

    @torch.inference_mode()
    def _replay(self, recorder: Recorder) -> None:
        self.replays += 1
        for operator, args, kwargs, made in recorder.calls:
            again = operator(*args, **kwargs)
            read = {t.untyped_storage().data_ptr() for t in tensors_of((args, kwargs))}
            for old, new in zip(tensors_of(made), tensors_of(again), strict=True):
                if old.untyped_storage().data_ptr() not in read:  # neither a view nor in place
                    old.copy_(new)


def tensors_of(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


@dataclass
class Twins:
    """The same model twice, in float64 so that nothing is a tie: with its batches, and in buckets.

    Both are told the same, so their caches have to hold the same.
    """

    ragged: TorchForward
    bucketed: TorchForward
    caches: tuple[KvCache, KvCache]
    capture: Tape

    def read(self, prefill: Prefill, token_ids: list[int]) -> int:
        made = self.ragged.read([prefill], [token_ids])
        assert made == self.bucketed.read([prefill], [token_ids])
        return made[0]

    def decode(self, decodes: list[Decode], token_ids: list[int]) -> list[int]:
        made = self.ragged.decode(decodes, token_ids)
        assert made == self.bucketed.decode(decodes, token_ids)
        return made

    def compare_caches(self) -> None:
        for layer in range(2):
            ragged, bucketed = (cache.layer(layer)[:BLOCKS] for cache in self.caches)
            torch.testing.assert_close(ragged, bucketed)


def make_twins(tiny: Any) -> Twins:
    weights = {name: weight.double() for name, weight in tiny.weights().items()}
    model = LlamaModel(tiny.config, weights)
    caches = tuple(
        KvCache(tiny.config, CacheSize(BLOCKS, BLOCK), torch.float64, torch.device("cpu"))
        for _ in range(2)
    )
    capture = Tape()
    decoder = BucketedDecode(model, caches[1], MOST, Means(GATHERED, capture))
    return Twins(
        TorchForward(model, caches[0]),
        TorchForward(model, caches[1], decoder),
        (caches[0], caches[1]),
        capture,
    )


@pytest.fixture(scope="module")
def twins(tiny: Any) -> Twins:
    """Used again by every example: what one left in buffers and blocks must not reach the next."""
    return make_twins(tiny)


@st.composite
def batches(draw: Any) -> tuple[list[int], list[list[int]], list[int]]:
    """Prompt lengths; in each step the places in the batch that decode; free blocks in any order.

    Now and then one sequence is so long that it takes the wider bucket.
    """
    lengths = draw(st.lists(st.integers(1, 20), min_size=1, max_size=6))
    if draw(st.booleans()):
        lengths[0] = draw(st.integers(120, 135))
    places = st.permutations(range(len(lengths)))
    orders = draw(st.lists(places, min_size=1, max_size=6))
    steps = [order[: draw(st.integers(1, len(order)))] for order in orders]
    return lengths, steps, draw(st.permutations(range(BLOCKS)))


@settings(max_examples=40)
@given(batches())
def test_any_batch_in_a_bucket_gives_the_tokens_of_the_batch_as_it_is(
    twins: Twins, batch: tuple[list[int], list[list[int]], list[int]]
) -> None:
    lengths, steps, free = batch
    free = list(free)
    stored = list(lengths)
    owned = [tuple(free.pop() for _ in range(-(-count // BLOCK))) for count in lengths]
    next_ids = [
        twins.read(Prefill(i, 0, count, 0, owned[i]), [(7 * i + j) % 128 for j in range(count)])
        for i, count in enumerate(lengths)
    ]
    for places in steps:
        for i in places:
            if stored[i] == len(owned[i]) * BLOCK:
                owned[i] = (*owned[i], free.pop())
        decodes = [Decode(i, stored[i], owned[i]) for i in places]
        made = twins.decode(decodes, [next_ids[i] for i in places])
        for i, token_id in zip(places, made, strict=True):
            stored[i] += 1
            next_ids[i] = token_id

    twins.compare_caches()


def test_each_bucket_is_captured_once_and_the_largest_first(tiny: Any) -> None:
    twins = make_twins(tiny)
    assert [step.args[0] for step in twins.capture.captured] == list(buckets_of(MOST))[::-1]  # type: ignore[attr-defined]

    twins.decode([Decode(0, 0, (3,))], [5])
    twins.decode([Decode(0, 1, (3,)), Decode(1, 0, (4,))], [5, 6])

    assert twins.capture.replays == 2
    assert len(twins.capture.captured) == len(buckets_of(MOST))


def test_neither_capturing_nor_rows_left_over_touch_a_block_of_the_scheduler(tiny: Any) -> None:
    twins = make_twins(tiny)
    cache = twins.caches[1]
    assert not cache.layer(1)[:BLOCKS].any()

    twins.bucketed.decode([Decode(i, 0, (i,)) for i in range(5)], [9, 8, 7, 6, 5])

    used = [bool(block.any()) for block in cache.layer(1)[:BLOCKS]]
    assert used == [True] * 5 + [False] * (BLOCKS - 5)
    assert cache.layer(1)[cache.scratch_block].any()


def test_a_row_is_fed_anew_when_its_sequence_has_moved_to_other_blocks(twins: Twins) -> None:
    for blocks in ((1, 2), (2, 1), (50, 9)):
        first = twins.read(Prefill(0, 0, 5, 0, blocks), [3, 1, 4, 1, 5])
        twins.decode([Decode(0, 5, blocks)], [first])


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (Bucket(1, 8), [(1, 8)]),
        (Bucket(8, 32), [(1, 32), (2, 32), (4, 32), (8, 32)]),
        (Bucket(6, 40), [(1, 32), (2, 32), (4, 32), (6, 32), (1, 40), (2, 40), (4, 40), (6, 40)]),
        (Bucket(2, 256), [(1, 32), (2, 32), (1, 128), (2, 128), (1, 256), (2, 256)]),
    ],
)
def test_buckets_grow_to_the_most_that_there_can_be(
    most: Bucket, expected: list[tuple[int, int]]
) -> None:
    assert [(bucket.rows, bucket.blocks) for bucket in buckets_of(most)] == expected


@pytest.mark.parametrize(
    "decodes",
    [[Decode(i, 0, (i,)) for i in range(7)], [Decode(0, 0, tuple(range(41)))]],
    ids=["rows", "blocks"],
)
def test_what_no_bucket_holds_is_refused_with_the_numbers(
    twins: Twins, decodes: list[Decode]
) -> None:
    with pytest.raises(ValueError, match=r"there is room for Bucket\(rows=6, blocks=40\)"):
        twins.bucketed.decode(decodes, [1] * len(decodes))


def test_the_engine_is_told_how_it_decodes(twins: Twins) -> None:
    assert twins.bucketed.name == "torch on cpu (gathered attention, tape)"
    assert twins.ragged.name == "torch on cpu"


def test_a_chunk_that_is_not_the_last_of_its_prompt_needs_no_logits(
    tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, cache = tiny.model(), tiny.cache()
    forward = TorchForward(model, cache)
    monkeypatch.setattr(model, "logits", None)

    assert forward.read([Prefill(0, 0, 3, 0, (5,), is_last=False)], [[1, 2, 3]]) == []
    assert cache.layer(1)[5, :3].any()
