"""Model files to torch tensors under one set of names, whichever format they come from.

Names: `embedding`, `output_norm`, `output`, and for each layer i `i.query`, `i.key`, `i.value`,
`i.attention_out`, `i.attention_norm`, `i.gate`, `i.up`, `i.down`, `i.mlp_norm`; where the model has
them `i.query_bias`, `i.key_bias`, `i.value_bias`, `i.query_norm`, `i.key_norm`.
Matrices are [out, in]. Query and key rows are ordered for rotation by halves.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize
from safetensors import SafetensorError, safe_open

from engines.inhouse.llama_config import LlamaConfig, config_of_folder, config_of_gguf
from engines.models.gguf_file import GgufFile, GgufTensor, read_gguf
from engines.models.model_store import weight_files
from harness.core.errors import ModelFileError

Weights = dict[str, torch.Tensor]
READABLE = {
    kind.name: kind
    for kind in (
        GGMLQuantizationType.F32,
        GGMLQuantizationType.F16,
        GGMLQuantizationType.BF16,
        GGMLQuantizationType.Q8_0,
        GGMLQuantizationType.Q4_1,
    )
}
_GGUF_NAMES = {
    "token_embd.weight": "embedding",
    "output_norm.weight": "output_norm",
    "output.weight": "output",
    "attn_norm.weight": "attention_norm",
    "attn_q.weight": "query",
    "attn_k.weight": "key",
    "attn_v.weight": "value",
    "attn_q.bias": "query_bias",
    "attn_k.bias": "key_bias",
    "attn_v.bias": "value_bias",
    "attn_q_norm.weight": "query_norm",
    "attn_k_norm.weight": "key_norm",
    "attn_output.weight": "attention_out",
    "ffn_norm.weight": "mlp_norm",
    "ffn_gate.weight": "gate",
    "ffn_up.weight": "up",
    "ffn_down.weight": "down",
}
_FOLDER_NAMES = {
    "model.embed_tokens.weight": "embedding",
    "model.norm.weight": "output_norm",
    "lm_head.weight": "output",
    "input_layernorm.weight": "attention_norm",
    "self_attn.q_proj.weight": "query",
    "self_attn.k_proj.weight": "key",
    "self_attn.v_proj.weight": "value",
    "self_attn.q_proj.bias": "query_bias",
    "self_attn.k_proj.bias": "key_bias",
    "self_attn.v_proj.bias": "value_bias",
    "self_attn.q_norm.weight": "query_norm",
    "self_attn.k_norm.weight": "key_norm",
    "self_attn.o_proj.weight": "attention_out",
    "post_attention_layernorm.weight": "mlp_norm",
    "mlp.gate_proj.weight": "gate",
    "mlp.up_proj.weight": "up",
    "mlp.down_proj.weight": "down",
}


def load_weights(path: Path, dtype: torch.dtype) -> tuple[LlamaConfig, Weights]:
    """The config and the tensors of the model at `path`, on the CPU, converted to `dtype`.

    Raises ModelFileError when the architecture or a tensor's type is not supported, or a tensor is
    missing, unknown, or of another shape than the config says.
    """
    if path.is_dir():
        config = config_of_folder(path)
        weights = dict(_folder_tensors(path, dtype))
    else:
        file = read_gguf(path)
        config = config_of_gguf(file)
        weights = dict(_gguf_tensors(file, config, dtype))
    if config.tied_embeddings and "embedding" in weights:
        weights["output"] = weights["embedding"]
    _check_shapes(path, weights, _expected_shapes(config))
    return config, weights


def _gguf_tensors(
    file: GgufFile, config: LlamaConfig, dtype: torch.dtype
) -> Iterator[tuple[str, torch.Tensor]]:
    data = np.memmap(file.path, dtype=np.uint8, mode="r")
    # The Llama converter orders query and key rows for rotation by neighbours; others do not.
    heads_of = {"query": config.heads, "key": config.kv_heads}
    reordered = heads_of if config.architecture == "llama" else {}
    for tensor in file.tensors.values():
        name, layer = _own_name(tensor.name, "blk.", _GGUF_NAMES, file.path)
        values = torch.from_numpy(_dequantized(file.path, tensor, data)).to(dtype)
        if name in reordered:
            values = _rows_by_halves(values, reordered[name])
        yield layer + name, values


def _dequantized(path: Path, tensor: GgufTensor, data: np.memmap) -> np.ndarray:
    if tensor.kind.name not in READABLE:
        msg = (
            f"{path} stores {tensor.name} as {tensor.kind.name}; "
            f"supported are {', '.join(READABLE)}; convert the model to one of them"
        )
        raise ModelFileError(msg)
    stored = data[tensor.offset : tensor.offset + tensor.byte_count]
    rows = stored.reshape(tensor.shape[0], -1) if len(tensor.shape) > 1 else stored
    values = dequantize(rows, tensor.kind).reshape(tensor.shape)
    return np.array(values, dtype=np.float32)


def _rows_by_halves(values: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of each head from the order 0, h, 1, h+1, ... (h half a head) back to 0, 1, 2, ..."""
    by_pair = values.view(heads, -1, 2, *values.shape[1:])
    return by_pair.transpose(1, 2).reshape(values.shape)


def _folder_tensors(folder: Path, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    for path in weight_files(folder):
        try:
            with safe_open(path, framework="pt") as tensors:
                for full_name in tensors.keys():  # noqa: SIM118 - not a mapping
                    if full_name.endswith("rotary_emb.inv_freq"):
                        continue  # old checkpoints store what follows from rope_theta
                    name, layer = _own_name(full_name, "model.layers.", _FOLDER_NAMES, path)
                    values = tensors.get_tensor(full_name)
                    if not values.is_floating_point():
                        msg = f"{path} stores {full_name} as {values.dtype}; use a model in floats"
                        raise ModelFileError(msg)
                    yield layer + name, values.to(dtype)
        except SafetensorError as error:
            msg = f"cannot read {path}: {error}; download it again"
            raise ModelFileError(msg) from error


def _own_name(full_name: str, prefix: str, names: dict[str, str], path: Path) -> tuple[str, str]:
    """Our name of a tensor, and its layer as `i.`, or an empty string outside the layers."""
    name, layer = full_name, ""
    if full_name.startswith(prefix):
        index, _, name = full_name.removeprefix(prefix).partition(".")
        layer = f"{index}."
    if name not in names:
        msg = f"{path} holds {full_name}, which is no part of a supported model; use another model"
        raise ModelFileError(msg)
    return names[name], layer


def _expected_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    hidden, queries = config.hidden, config.heads * config.head_dim
    keys, middle = config.kv_heads * config.head_dim, config.intermediate
    layer: dict[str, tuple[int, ...]] = {
        "attention_norm": (hidden,),
        "query": (queries, hidden),
        "key": (keys, hidden),
        "value": (keys, hidden),
        "attention_out": (hidden, queries),
        "mlp_norm": (hidden,),
        "gate": (middle, hidden),
        "up": (middle, hidden),
        "down": (hidden, middle),
    }
    if config.qkv_bias:
        layer |= {"query_bias": (queries,), "key_bias": (keys,), "value_bias": (keys,)}
    if config.qk_norm:
        layer |= {"query_norm": (config.head_dim,), "key_norm": (config.head_dim,)}
    outside = {
        "embedding": (config.vocabulary, hidden),
        "output_norm": (hidden,),
        "output": (config.vocabulary, hidden),
    }
    return outside | {f"{i}.{n}": s for i in range(config.layers) for n, s in layer.items()}


def _check_shapes(path: Path, weights: Weights, expected: dict[str, tuple[int, ...]]) -> None:
    for name, shape in expected.items():
        if name not in weights:
            msg = f"{path} has no tensor for {name}; download the model again"
            raise ModelFileError(msg)
        if tuple(weights[name].shape) != shape:
            found = tuple(weights[name].shape)
            msg = f"{path}: {name} has shape {found}, its config says {shape}; download it again"
            raise ModelFileError(msg)
    if unknown := sorted(set(weights) - set(expected)):
        msg = f"{path} holds {unknown[0]}, which its config does not have; use another model"
        raise ModelFileError(msg)
