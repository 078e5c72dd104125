"""What a step has to do at least, from the model's sizes: bytes to read, and operations.

A multiplication with an addition counts as two operations, as everywhere. What is computed twice,
reread or padded to a tile counts once: the shares of the machine's limits that follow from it are
those of useful work, padding rows of batch policies apart, which are the policy's doing.
"""

from __future__ import annotations

from dataclasses import dataclass

from engines.inhouse.forward import NumberBytes
from engines.inhouse.llama_config import LlamaConfig
from engines.scheduling.step import StepPlan
from engines.step_log import StepWork


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Numbers that a pass over the layers multiplies with, those of the output, and KV per token.

    `kv_numbers` are the keys and values of one token, over all layers; `attention_flops` what one
    row spends on each token that it attends to.
    """

    layer_weights: int
    output_weights: int
    kv_numbers: int
    attention_flops: int


def size_of(config: LlamaConfig) -> ModelSize:
    """The sizes that follow from `config`, without norms and biases: a thousandth of the rest."""
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    attention = config.hidden * (2 * queries + 2 * keys)
    mlp = 3 * config.hidden * config.intermediate
    return ModelSize(
        layer_weights=config.layers * (attention + mlp),
        output_weights=config.vocabulary * config.hidden,
        kv_numbers=config.layers * 2 * keys,
        attention_flops=config.layers * 4 * queries,
    )


def work_of(plan: StepPlan, size: ModelSize, number: NumberBytes) -> StepWork:
    """The least that `plan` asks of memory and arithmetic; weights are read once for each half."""
    prefill_rows = plan.prefill_tokens + plan.prefill_padding_tokens
    decode_rows = len(plan.decodes)
    wanted = decode_rows + sum(p.is_last for p in plan.prefills)
    halves = bool(plan.prefills) + bool(plan.decodes)
    outputs = bool(plan.decodes) + any(p.is_last for p in plan.prefills)
    stored = plan.decode_context_tokens + sum(p.first for p in plan.prefills)
    weights = halves * size.layer_weights + outputs * size.output_weights
    context = plan.prefill_context_tokens + plan.decode_context_tokens
    return StepWork(
        read_bytes=number.weight * weights + number.kv * stored * size.kv_numbers,
        flops=2 * (prefill_rows + decode_rows) * size.layer_weights
        + 2 * wanted * size.output_weights
        + context * size.attention_flops,
    )
