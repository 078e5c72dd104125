"""A model small enough to be loaded by any engine in a second, as a GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HIDDEN, LAYERS, HEADS, KV_HEADS, VOCABULARY, CONTEXT = 128, 2, 4, 2, 288, 512
END_ID = 2


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of 2 layers in Q8_0, with a tokenizer of single bytes and END_ID as its end."""
    gguf = pytest.importorskip("gguf", reason="gguf is not installed (extra: inhouse)")
    path = tmp_path_factory.mktemp("model") / "tiny-llama.Q8_0.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    _add_tokenizer(writer)
    _add_tensors(writer, gguf)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: Any) -> None:
    pre_tokenizers = pytest.importorskip("tokenizers").pre_tokenizers
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    words = [*special, *letters, "ab"]
    unused = [f"<unused{i}>" for i in range(VOCABULARY - len(words))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*words, *unused])
    writer.add_token_types([3] * 3 + [1] * (len(letters) + 1) + [3] * len(unused))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(END_ID)


def _add_tensors(writer: Any, gguf: Any) -> None:
    import numpy as np

    random = np.random.default_rng(3)
    kind = gguf.GGMLQuantizationType.Q8_0

    def matrix(name: str, rows: int, columns: int) -> None:
        values = (random.standard_normal((rows, columns)) * 0.2).astype(np.float32)
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    def ones(name: str) -> None:
        writer.add_tensor(name, np.ones(HIDDEN, np.float32))

    matrix("token_embd.weight", VOCABULARY, HIDDEN)
    ones("output_norm.weight")
    keys = HIDDEN // HEADS * KV_HEADS
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            ones(f"blk.{layer}.{name}.weight")
        for name in ("attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            matrix(f"blk.{layer}.{name}.weight", HIDDEN, HIDDEN)
        for name in ("attn_k", "attn_v"):
            matrix(f"blk.{layer}.{name}.weight", keys, HIDDEN)
