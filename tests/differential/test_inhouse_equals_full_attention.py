"""Tiny random models in every file format: our tokens are those of two other ways to compute them.

One is a plain loop in float64 over the whole text so far, without a KV cache; the other is Hugging
Face. The answers are made in a batch, so that sequences, blocks and padding could get mixed up.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf.constants import GGMLQuantizationType as Kind
from numpy.typing import NDArray
from safetensors.torch import save_file

from engines.inhouse.bucketed_decode import Bucket, BucketedDecode, Means
from engines.inhouse.capture import Eager
from engines.inhouse.kv_cache import CacheSize, KvCache
from engines.inhouse.model import LlamaModel
from engines.inhouse.paged_attention import GATHERED
from engines.inhouse.runner import Runner
from engines.inhouse.torch_forward import TorchForward
from engines.inhouse.weights import load_weights
from engines.scheduling.policies import make_policy
from engines.scheduling.scheduler import Limits, Scheduler
from engines.scheduling.sequence import Sequence
from harness.core.clock import MonotonicClock

LAYERS, HIDDEN, HEADS, KV_HEADS, DIM, MIDDLE, WORDS = 2, 64, 4, 2, 16, 96, 160
THETA, EPSILON, NEW_TOKENS = 10_000.0, 1e-5, 8
PROMPTS = [list(range(3, 3 + n)) for n in (1, 2, 7, 16, 17, 40)]
Tensors = dict[str, NDArray[np.float32]]


def random_tensors() -> Tensors:
    """Tensors of an untied model under Hugging Face's names, matrices [out, in]."""
    generator = np.random.default_rng(7)

    def matrix(*shape: int) -> NDArray[np.float32]:
        return generator.normal(0, 0.2, shape).astype(np.float32)

    def norm() -> NDArray[np.float32]:
        return generator.normal(1, 0.1, HIDDEN).astype(np.float32)

    tensors = {"model.embed_tokens.weight": matrix(WORDS, HIDDEN), "model.norm.weight": norm()}
    tensors["lm_head.weight"] = matrix(WORDS, HIDDEN)
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        tensors |= {
            f"{layer}self_attn.q_proj.weight": matrix(HEADS * DIM, HIDDEN),
            f"{layer}self_attn.k_proj.weight": matrix(KV_HEADS * DIM, HIDDEN),
            f"{layer}self_attn.v_proj.weight": matrix(KV_HEADS * DIM, HIDDEN),
            f"{layer}self_attn.o_proj.weight": matrix(HIDDEN, HEADS * DIM),
            f"{layer}mlp.gate_proj.weight": matrix(MIDDLE, HIDDEN),
            f"{layer}mlp.up_proj.weight": matrix(MIDDLE, HIDDEN),
            f"{layer}mlp.down_proj.weight": matrix(HIDDEN, MIDDLE),
            f"{layer}input_layernorm.weight": norm(),
            f"{layer}post_attention_layernorm.weight": norm(),
        }
    return tensors


def write_folder(folder: Path, tensors: Tensors) -> Path:
    config = {
        "model_type": "llama",
        "num_hidden_layers": LAYERS,
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "intermediate_size": MIDDLE,
        "vocab_size": WORDS,
        "rms_norm_eps": EPSILON,
        "rope_theta": THETA,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config))
    save_file({n: torch.from_numpy(t) for n, t in tensors.items()}, folder / "model.safetensors")
    return folder


GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.layers": "blk",
}


def write_gguf(path: Path, tensors: Tensors, kind: Kind) -> Tensors:
    """Write `tensors` as a Llama GGUF, its matrices as `kind`; returns what is then stored."""
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_feed_forward_length(MIDDLE)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(THETA)
    writer.add_context_length(128)
    stored = {}
    for name, tensor in tensors.items():
        own_kind = Kind.F32 if tensor.ndim == 1 else kind
        stored[name] = gguf.quants.dequantize(gguf.quants.quantize(tensor, own_kind), own_kind)
        short = name
        for ours, theirs in GGUF_NAMES.items():
            short = short.replace(ours, theirs)
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(short.split(".")[-2])
        rows = tensor if heads is None else neighbours_first(tensor, heads)
        writer.add_tensor(short, gguf.quants.quantize(rows, own_kind), raw_dtype=own_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return stored


def neighbours_first(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """What the converter of llama.cpp does to the query and key rows of a Llama model."""
    order = [
        head * DIM + pair + half * (DIM // 2)
        for head in range(heads)
        for pair in range(DIM // 2)
        for half in (0, 1)
    ]
    return rows[order]


def plain_next_token(tensors: Tensors, token_ids: list[int]) -> int:
    """The greedy next token, computed in float64 over all of `token_ids` at once."""
    weights = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    count = len(token_ids)
    angles = np.outer(np.arange(count), THETA ** (-np.arange(DIM // 2) / (DIM // 2)))
    turn = np.exp(1j * angles)[:, None, :]
    hidden_future = np.triu(np.full((count, count), -np.inf), 1)

    def norm(rows: NDArray[Any], name: str) -> NDArray[Any]:
        scale = np.sqrt((rows**2).mean(-1, keepdims=True) + EPSILON)
        return np.asarray(rows / scale * weights[name])

    def rotated(rows: NDArray[Any], heads: int) -> NDArray[Any]:
        pairs = rows.reshape(count, heads, 2, DIM // 2)
        turned = (pairs[:, :, 0] + 1j * pairs[:, :, 1]) * turn
        return np.concatenate([turned.real, turned.imag], axis=-1)

    hidden = weights["model.embed_tokens.weight"][token_ids]
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        rows = norm(hidden, f"{layer}input_layernorm.weight")
        queries, keys, values = (
            rows @ weights[f"{layer}self_attn.{name}_proj.weight"].T for name in "qkv"
        )
        queries, keys = rotated(queries, HEADS), rotated(keys, KV_HEADS)
        values = values.reshape(count, KV_HEADS, DIM)
        outputs = []
        for head in range(HEADS):
            shared = head * KV_HEADS // HEADS
            scores = queries[:, head] @ keys[:, shared].T / np.sqrt(DIM) + hidden_future
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            outputs.append(shares / shares.sum(-1, keepdims=True) @ values[:, shared])
        hidden = hidden + np.concatenate(outputs, 1) @ weights[f"{layer}self_attn.o_proj.weight"].T
        rows = norm(hidden, f"{layer}post_attention_layernorm.weight")
        gate, up = (rows @ weights[f"{layer}mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        hidden = (
            hidden + (gate / (1 + np.exp(-gate)) * up) @ weights[f"{layer}mlp.down_proj.weight"].T
        )
    last = norm(hidden[-1], "model.norm.weight")
    return int((weights["lm_head.weight"] @ last).argmax())


def plain_answers(tensors: Tensors) -> list[list[int]]:
    answers = []
    for prompt in PROMPTS:
        text = list(prompt)
        for _ in range(NEW_TOKENS):
            text.append(plain_next_token(tensors, text))
        answers.append(text[len(prompt) :])
    return answers


def our_answers(
    path: Path, policy: str = "continuous", *, pads: bool = False, in_buckets: bool = False
) -> list[list[int]]:
    config, weights = load_weights(path, torch.float32)
    cache = KvCache(config, CacheSize(64, 4), torch.float32, torch.device("cpu"))
    model = LlamaModel(config, weights)
    means = Means(GATHERED, Eager())
    decoder = BucketedDecode(model, cache, Bucket(4, 32), means) if in_buckets else None
    forward = TorchForward(model, cache, decoder)
    runner = Runner(forward, MonotonicClock())
    scheduler = Scheduler(make_policy(policy), Limits(4, 64, 4, pad_prompts=pads))
    scheduler.is_draining = True
    answers: list[list[int]] = [[] for _ in PROMPTS]
    for index, prompt in enumerate(PROMPTS):
        runner.add(index, prompt, ignore_eos=True)
        scheduler.add(Sequence(index, len(prompt), NEW_TOKENS - index % 2, 0))
    while (plan := scheduler.plan(0)) is not None:
        output = runner.execute(plan)
        scheduler.commit(plan, output.result)
        for index, token_id in output.token_ids.items():
            answers[index].append(token_id)
    return answers


def agree(ours: list[list[int]], theirs: list[list[int]]) -> bool:
    """True when each of our answers, every second of which is a token shorter, begins theirs."""
    lengths = [NEW_TOKENS - index % 2 for index in range(len(PROMPTS))]
    expected = [answer[:length] for answer, length in zip(theirs, lengths, strict=True)]
    return ours == expected


@pytest.mark.parametrize(
    ("policy", "pads"),
    [("static", False), ("static", True), ("dynamic", True), ("continuous", False)],
)
def test_a_model_in_safetensors_answers_as_the_plain_loop_does(
    tmp_path: Path, policy: str, pads: bool
) -> None:
    tensors = random_tensors()
    folder = write_folder(tmp_path, tensors)

    assert agree(our_answers(folder, policy, pads=pads), plain_answers(tensors))


@pytest.mark.parametrize(("policy", "pads"), [("static", True), ("continuous", False)])
def test_a_model_that_decodes_in_buckets_answers_as_the_plain_loop_does(
    tmp_path: Path, policy: str, pads: bool
) -> None:
    tensors = random_tensors()
    folder = write_folder(tmp_path, tensors)

    assert agree(our_answers(folder, policy, pads=pads, in_buckets=True), plain_answers(tensors))


@pytest.mark.parametrize("kind", [Kind.F32, Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_1])
def test_a_model_in_gguf_answers_as_the_plain_loop_does(tmp_path: Path, kind: Kind) -> None:
    path = tmp_path / "model.gguf"
    stored = write_gguf(path, random_tensors(), kind)

    assert agree(our_answers(path), plain_answers(stored))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["Llama", "Qwen2", "Qwen3"])
@pytest.mark.parametrize("ties", [False, True])
def test_each_architecture_answers_as_hugging_face_does(
    tmp_path: Path, name: str, ties: bool
) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(
        vocab_size=WORDS,
        hidden_size=HIDDEN,
        intermediate_size=MIDDLE,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=DIM,
        max_position_embeddings=128,
        tie_word_embeddings=ties,
    )
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    for parameter in model.parameters():
        is_norm = parameter.ndim == 1 and bool((parameter == 1).all())
        torch.nn.init.normal_(parameter, mean=1.0 if is_norm else 0.0, std=0.2)
    model.save_pretrained(tmp_path)
    theirs = []
    for prompt in PROMPTS:
        text = list(prompt)
        for _ in range(NEW_TOKENS):
            with torch.inference_mode():
                text.append(int(model(torch.tensor([text])).logits[0, -1].argmax()))
        theirs.append(text[len(prompt) :])

    assert agree(our_answers(tmp_path), theirs)
