from __future__ import annotations

from typing import Any

from engines.inhouse.forward import NumberBytes
from engines.inhouse.work import ModelSize, size_of, work_of
from engines.scheduling.step import Decode, KvUse, Prefill, StepPlan

SIZE = ModelSize(layer_weights=1000, output_weights=100, kv_numbers=10, attention_flops=7)
BYTES = NumberBytes(weight=2, kv=3)
NO_KV = KvUse(0, 32, 0, 0, 0)


def plan(prefills: tuple[Prefill, ...] = (), decodes: tuple[Decode, ...] = ()) -> StepPlan:
    return StepPlan(1, prefills, decodes, 4, 0, NO_KV)


def test_the_sizes_are_those_of_the_matrices(tiny: Any) -> None:
    config = tiny.config
    matrices = [
        weight for name, weight in tiny.weights().items() if name[0].isdigit() and weight.dim() == 2
    ]

    size = size_of(config)

    assert size.layer_weights == sum(matrix.numel() for matrix in matrices)
    assert size.output_weights == config.vocabulary * config.hidden
    assert size.kv_numbers == config.layers * 2 * config.kv_heads * config.head_dim
    # A score is one product of head_dim numbers, and so is a value's share: two each.
    assert size.attention_flops == config.layers * config.heads * config.head_dim * 4


def test_a_decoding_row_reads_all_weights_and_what_it_attends_to() -> None:
    work = work_of(plan(decodes=(Decode(1, 9, (0,)), Decode(2, 4, (1,)))), SIZE, BYTES)

    assert work.read_bytes == 2 * (1000 + 100) + 3 * 10 * (10 + 5)
    assert work.flops == 2 * 2 * (1000 + 100) + 7 * (10 + 5)


def test_a_prompt_reads_weights_once_and_multiplies_with_them_for_each_row() -> None:
    work = work_of(plan(prefills=(Prefill(1, 0, 4, 1, (0,)),)), SIZE, BYTES)

    assert work.read_bytes == 2 * (1000 + 100)
    assert work.flops == 2 * 5 * 1000 + 2 * 100 + 7 * (1 + 2 + 3 + 4 + 5)


def test_a_chunk_reads_what_is_stored_before_it_and_needs_no_output() -> None:
    work = work_of(plan(prefills=(Prefill(1, 20, 2, 0, (0,), is_last=False),)), SIZE, BYTES)

    assert work.read_bytes == 2 * 1000 + 3 * 10 * 20
    assert work.flops == 2 * 2 * 1000 + 7 * (21 + 22)


def test_a_step_of_both_kinds_reads_the_weights_twice() -> None:
    both = plan((Prefill(1, 0, 4, 0, (0,)),), (Decode(2, 4, (1,)),))

    assert work_of(both, SIZE, BYTES).read_bytes == 2 * 2 * (1000 + 100) + 3 * 10 * 5
