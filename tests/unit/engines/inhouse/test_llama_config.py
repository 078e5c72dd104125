from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engines.inhouse.llama_config import config_of_folder, config_of_gguf
from engines.models.gguf_file import GgufFile, GgufTensor
from harness.core.errors import ModelFileError

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "vocab_size": 128,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 256,
    "rope_theta": 50_000.0,
    "eos_token_id": 2,
    "bos_token_id": 1,
}
METADATA = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.feed_forward_length": 96,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.context_length": 256,
    "llama.rope.freq_base": 50_000.0,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.bos_token_id": 1,
}


def folder_with(tmp_path: Path, **changes: Any) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | changes))
    return tmp_path


def gguf_with(**changes: Any) -> GgufFile:
    tensor = GgufTensor("token_embd.weight", (128, 64), 0, 0, 0)  # type: ignore[arg-type]
    metadata = METADATA | {key.replace("__", "."): value for key, value in changes.items()}
    return GgufFile(Path("model.gguf"), metadata, {tensor.name: tensor})


def test_both_formats_give_the_same_config(tmp_path: Path) -> None:
    of_gguf = config_of_gguf(gguf_with())
    of_folder = config_of_folder(folder_with(tmp_path, tie_word_embeddings=True))

    assert of_gguf == of_folder
    assert (of_gguf.head_dim, of_gguf.rope_theta, of_gguf.eos_ids) == (16, 50_000.0, (2,))


def test_the_newer_place_of_rope_theta_is_read(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, rope_parameters={"rope_type": "default", "rope_theta": 7.0})

    assert config_of_folder(folder).rope_theta == 7.0


def test_end_tokens_of_the_generation_config_come_first(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 6]}))

    assert config_of_folder(folder).eos_ids == (5, 6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "gpt2"}, "architecture 'gpt2'; supported are llama, qwen2, qwen3"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4}}, "rope scaling 'yarn'"),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, "rope scaling 'linear'"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "rope scaling 'llama3'"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"mlp_bias": True}, "mlp_bias True"),
        ({"attention_bias": True}, "attention_bias True"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"use_sliding_window": True, "model_type": "qwen2"}, "use_sliding_window True"),
    ],
)
def test_a_folder_that_would_be_computed_wrongly_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ModelFileError, match=words):
        config_of_folder(folder_with(tmp_path, **changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"general__architecture": "mamba"}, "architecture 'mamba'; supported are llama"),
        ({"llama__rope__scaling__type": "yarn"}, "rope scaling 'yarn'"),
        ({"llama__rope__dimension_count": 8}, "rope.dimension_count 8"),
    ],
)
def test_a_gguf_that_would_be_computed_wrongly_is_refused(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ModelFileError, match=words):
        config_of_gguf(gguf_with(**changes))


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    file = GgufFile(Path("model.gguf"), {"general.architecture": "llama"}, {})

    with pytest.raises(ModelFileError, match="lacks 'hidden_size'"):
        config_of_folder(tmp_path)
    with pytest.raises(ModelFileError, match=r"lacks 'llama.embedding_length'"):
        config_of_gguf(file)


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_config_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)

    with pytest.raises(ModelFileError, match="download the model again"):
        config_of_folder(tmp_path)
