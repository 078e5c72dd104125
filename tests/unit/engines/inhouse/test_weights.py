from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf.constants import GGMLQuantizationType
from safetensors.torch import save_file

from engines.inhouse.weights import load_weights
from harness.core.errors import ModelFileError

CONFIG = {
    "model_type": "llama",
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 8,
    "vocab_size": 4,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 16,
    "tie_word_embeddings": True,
}


def square() -> torch.Tensor:
    return torch.ones(8, 8)


def tensors() -> dict[str, torch.Tensor]:
    layer = "model.layers.0."
    attention = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
    matrices = (*attention, "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
    norms = ("input_layernorm", "post_attention_layernorm")
    return {
        "model.embed_tokens.weight": torch.ones(4, 8),
        "model.norm.weight": torch.ones(8),
        **{f"{layer}{name}.weight": square() for name in matrices},
        **{f"{layer}{name}.weight": torch.ones(8) for name in norms},
    }


def folder_of(tmp_path: Path, held: dict[str, torch.Tensor]) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    save_file(held, tmp_path / "model.safetensors")
    return tmp_path


def test_tied_embeddings_are_the_output_matrix(tmp_path: Path) -> None:
    _, weights = load_weights(folder_of(tmp_path, tensors()), torch.bfloat16)

    assert weights["output"] is weights["embedding"]
    assert {w.dtype for w in weights.values()} == {torch.bfloat16}


def test_tensors_may_be_spread_over_files(tmp_path: Path) -> None:
    held = tensors()
    moved = {"model.norm.weight": held.pop("model.norm.weight")}
    folder = folder_of(tmp_path, held)
    save_file(moved, folder / "more.safetensors")

    assert "output_norm" in load_weights(folder, torch.float32)[1]


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    held = tensors()
    del held["model.layers.0.mlp.up_proj.weight"]

    with pytest.raises(ModelFileError, match=r"has no tensor for 0\.up"):
        load_weights(folder_of(tmp_path, held), torch.float32)


def test_a_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    held = tensors() | {"model.layers.0.mlp.up_proj.weight": torch.ones(8, 4)}

    with pytest.raises(ModelFileError, match=r"0\.up has shape \(8, 4\), its config says \(8, 8\)"):
        load_weights(folder_of(tmp_path, held), torch.float32)


@pytest.mark.parametrize(
    "name", ["model.layers.0.self_attn.o_proj.bias", "model.layers.0.self_attn.q_proj.bias"]
)
def test_a_tensor_that_would_be_ignored_is_refused(tmp_path: Path, name: str) -> None:
    held = tensors() | {name: torch.ones(8)}

    with pytest.raises(ModelFileError, match="use another model"):
        load_weights(folder_of(tmp_path, held), torch.float32)


def test_weights_in_integers_are_refused(tmp_path: Path) -> None:
    held = tensors() | {"model.norm.weight": torch.ones(8, dtype=torch.int8)}

    with pytest.raises(ModelFileError, match=r"stores model.norm.weight as torch.int8"):
        load_weights(folder_of(tmp_path, held), torch.float32)


def test_a_tensor_type_that_is_not_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    for name, value in (
        ("block_count", 1),
        ("embedding_length", 32),
        ("attention.head_count", 2),
        ("feed_forward_length", 32),
        ("context_length", 16),
    ):
        writer.add_uint32(f"llama.{name}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    packed = gguf.quants.quantize(np.ones((4, 32), np.float32), GGMLQuantizationType.Q5_1)
    writer.add_tensor("token_embd.weight", packed, raw_dtype=GGMLQuantizationType.Q5_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    with pytest.raises(ModelFileError, match="as Q5_1; supported are F32, F16, BF16, Q8_0, Q4_1"):
        load_weights(path, torch.float32)
