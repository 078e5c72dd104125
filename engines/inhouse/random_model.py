"""A Llama of random weights, for checks of tokens and of speed that need no file."""

from __future__ import annotations

import torch

from engines.inhouse.llama_config import LlamaConfig
from engines.inhouse.weights import Weights


def llama_of(layers: int, hidden: int) -> LlamaConfig:
    """The proportions of a model of about a billion weights, which has 16 layers of 2048."""
    heads = max(hidden // 64, 1)
    return LlamaConfig(
        architecture="llama",
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=max(heads // 4, 1),
        head_dim=64,
        intermediate=4 * hidden,
        vocabulary=32_768,
        rope_theta=10_000.0,
        norm_eps=1e-5,
        context=4096,
        tied_embeddings=True,
        eos_ids=(),
        bos_id=None,
    )


def random_weights(config: LlamaConfig, dtype: torch.dtype, generator: torch.Generator) -> Weights:
    """Weights of the size that keeps the numbers of each layer as large as those before.

    They are made where `generator` is.
    """
    device = generator.device
    hidden, queries = config.hidden, config.heads * config.head_dim
    keys, middle = config.kv_heads * config.head_dim, config.intermediate

    def matrix(rows: int, columns: int) -> torch.Tensor:
        numbers = torch.randn(rows, columns, generator=generator, device=device)
        return numbers.div_(columns**0.5).to(dtype)

    ones = torch.ones(hidden, device=device, dtype=dtype)
    output = matrix(config.vocabulary, hidden)
    weights = {"embedding": output * hidden**0.5, "output_norm": ones, "output": output}
    for i in range(config.layers):
        weights |= {
            f"{i}.attention_norm": ones,
            f"{i}.mlp_norm": ones,
            f"{i}.query": matrix(queries, hidden),
            f"{i}.key": matrix(keys, hidden),
            f"{i}.value": matrix(keys, hidden),
            f"{i}.attention_out": matrix(hidden, queries),
            f"{i}.gate": matrix(middle, hidden),
            f"{i}.up": matrix(middle, hidden),
            f"{i}.down": matrix(hidden, middle),
        }
    return weights
