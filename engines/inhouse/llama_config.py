"""The shape of a model of the Llama family, read from GGUF metadata or from config.json.

What the forward pass cannot do is refused here, by name, rather than computed wrongly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.models.gguf_file import GgufFile
from harness.core.errors import ModelFileError

ARCHITECTURES = ("llama", "qwen2", "qwen3")
# Keys of config.json whose any other value would change the arithmetic, and the one that is known.
_KNOWN_VALUES: dict[str, tuple[object, ...]] = {
    "hidden_act": ("silu",),
    "mlp_bias": (False,),
    "use_sliding_window": (False,),
    "partial_rotary_factor": (1, 1.0),
    "quantization_config": (None,),
}


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """The sizes of a Llama, SmolLM2, Qwen2 or Qwen3 model, and what its attention has.

    `qkv_bias`: biases on the three projections (Qwen2). `qk_norm`: an RMSNorm over each head's
    query and key (Qwen3). `context` is the most positions that the model was made for.
    """

    architecture: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    rope_theta: float
    norm_eps: float
    context: int
    tied_embeddings: bool
    eos_ids: tuple[int, ...]
    bos_id: int | None
    qkv_bias: bool = False
    qk_norm: bool = False


def config_of_gguf(file: GgufFile) -> LlamaConfig:
    """The config that the metadata of `file` gives.

    Raises ModelFileError when the architecture or its rope scaling is not known, or a key lacks.
    """
    values = file.metadata
    kind = _known_architecture(file.path, values.get("general.architecture"))
    scaling = values.get(f"{kind}.rope.scaling.type", "none")
    if scaling != "none" or "rope_freqs.weight" in file.tensors:
        raise _unsupported(
            file.path, "rope scaling", "rope_freqs" if scaling == "none" else scaling
        )
    ends = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
    try:
        hidden, heads = values[f"{kind}.embedding_length"], values[f"{kind}.attention.head_count"]
        config = LlamaConfig(
            architecture=kind,
            layers=values[f"{kind}.block_count"],
            hidden=hidden,
            heads=heads,
            kv_heads=values.get(f"{kind}.attention.head_count_kv", heads),
            head_dim=values.get(f"{kind}.attention.key_length", hidden // heads),
            intermediate=values[f"{kind}.feed_forward_length"],
            vocabulary=file.tensors["token_embd.weight"].shape[0],
            rope_theta=float(values.get(f"{kind}.rope.freq_base", 10_000.0)),
            norm_eps=values[f"{kind}.attention.layer_norm_rms_epsilon"],
            context=values[f"{kind}.context_length"],
            tied_embeddings="output.weight" not in file.tensors,
            eos_ids=tuple(sorted({values[key] for key in ends if key in values})),
            bos_id=values.get("tokenizer.ggml.bos_token_id"),
            qkv_bias=kind == "qwen2",
            qk_norm=kind == "qwen3",
        )
    except KeyError as error:
        msg = f"{file.path} lacks {error}; convert the model again"
        raise ModelFileError(msg) from None
    rotated = values.get(f"{kind}.rope.dimension_count", config.head_dim)
    if rotated != config.head_dim:
        raise _unsupported(file.path, "rope.dimension_count", rotated)
    return config


def config_of_folder(folder: Path) -> LlamaConfig:
    """The config that config.json of a Hugging Face `folder` gives.

    Raises ModelFileError when the architecture or a setting is not known, or a key is missing.
    """
    path = folder / "config.json"
    values = _read_json(path)
    kind = _known_architecture(path, values.get("model_type"))
    for key, known in _KNOWN_VALUES.items():
        if values.get(key, known[0]) not in known:
            raise _unsupported(path, key, values[key])
    if kind != "qwen2" and values.get("attention_bias"):
        raise _unsupported(path, "attention_bias", values["attention_bias"])
    generation = folder / "generation_config.json"
    ends = _read_json(generation).get("eos_token_id") if generation.is_file() else None
    try:
        hidden, heads = values["hidden_size"], values["num_attention_heads"]
        return LlamaConfig(
            architecture=kind,
            layers=values["num_hidden_layers"],
            hidden=hidden,
            heads=heads,
            kv_heads=values.get("num_key_value_heads") or heads,
            head_dim=values.get("head_dim") or hidden // heads,
            intermediate=values["intermediate_size"],
            vocabulary=values["vocab_size"],
            rope_theta=_rope_theta(path, values),
            norm_eps=values["rms_norm_eps"],
            context=values["max_position_embeddings"],
            tied_embeddings=values.get("tie_word_embeddings", False),
            eos_ids=_as_ids(values.get("eos_token_id") if ends is None else ends),
            bos_id=values.get("bos_token_id"),
            qkv_bias=kind == "qwen2",
            qk_norm=kind == "qwen3",
        )
    except KeyError as error:
        msg = f"{path} lacks {error}; download the model again"
        raise ModelFileError(msg) from None


def _rope_theta(path: Path, values: Mapping[str, Any]) -> float:
    """Older files keep `rope_theta` and `rope_scaling`, newer ones both in `rope_parameters`."""
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    scaling = rope.get("rope_type", rope.get("type", "default"))
    if scaling != "default":
        raise _unsupported(path, "rope scaling", scaling)
    return float(rope.get("rope_theta", values.get("rope_theta", 10_000.0)))


def _as_ids(value: int | list[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        msg = f"cannot read {path}: {error}; download the model again"
        raise ModelFileError(msg) from error
    if not isinstance(values, dict):
        msg = f"{path} holds a {type(values).__name__}, not an object; download the model again"
        raise ModelFileError(msg)
    return values


def _known_architecture(path: Path, name: object) -> str:
    if name not in ARCHITECTURES:
        msg = f"{path} has the architecture {name!r}; supported are {', '.join(ARCHITECTURES)}"
        raise ModelFileError(msg)
    return str(name)


def _unsupported(path: Path, what: str, value: object) -> ModelFileError:
    return ModelFileError(f"{path} has {what} {value!r}, which is not supported; use another model")
