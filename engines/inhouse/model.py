"""The forward pass of the Llama family, written out.

For each layer::

    h = h + W_out · attend(rotate(W_q · n), rotate(W_k · n), W_v · n)      n = rmsnorm(h)
    h = h + W_down · (silu(W_gate · m) * (W_up · m))                       m = rmsnorm(h)

The three projections of attention are one matrix, and so are gate and up. Rows of different
sequences stand one after the other; only attention, which is passed in, knows which is whose.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import embedding, rms_norm, silu

from engines.inhouse.attention import Attend
from engines.inhouse.linear import Linear, make_linear
from engines.inhouse.llama_config import LlamaConfig
from engines.inhouse.weights import Weights


@dataclass(frozen=True, slots=True)
class Layer:
    """The parameters of one layer, fused. `qk_norm` is [heads + kv_heads, head_dim] or None."""

    attention_norm: torch.Tensor
    qkv: Linear
    qk_norm: torch.Tensor | None
    attention_out: Linear
    mlp_norm: torch.Tensor
    gate_up: Linear
    down: Linear


class LlamaModel:
    """Token ids to logits, on the device and in the dtype of `weights`."""

    def __init__(self, config: LlamaConfig, weights: Weights) -> None:
        self.config = config
        self._embedding = weights["embedding"]
        self._layers = [_fused_layer(config, weights, index) for index in range(config.layers)]
        self._output_norm = weights["output_norm"]
        self._output = make_linear(weights["output"])
        steps = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        self._frequencies = (1.0 / config.rope_theta**steps).to(self._embedding.device)

    @property
    def dtype(self) -> torch.dtype:
        """The type that everything is computed in."""
        return self._embedding.dtype

    @property
    def device(self) -> torch.device:
        """Where everything is computed."""
        return self._embedding.device

    @torch.inference_mode()
    def logits(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        attend: Attend,
        wanted: torch.Tensor | None,
    ) -> torch.Tensor:
        """Logits [wanted, vocabulary] of the `wanted` rows of `token_ids` [rows] at `positions`.

        None: of all rows.
        """
        hidden = self.read(token_ids, positions, attend)
        rows = hidden if wanted is None else hidden[wanted]
        return self._output(self._norm(rows, self._output_norm))

    @torch.inference_mode()
    def read(
        self, token_ids: torch.Tensor, positions: torch.Tensor, attend: Attend
    ) -> torch.Tensor:
        """What all layers make of `token_ids` [rows] at `positions`: [rows, hidden]."""
        hidden = embedding(token_ids, self._embedding)
        rotation = self._rotation(positions)
        for index, layer in enumerate(self._layers):
            normed = self._norm(hidden, layer.attention_norm)
            queries, kv = self._queries_and_kv(layer, normed, rotation)
            hidden = hidden + layer.attention_out(attend(index, queries, kv).flatten(1))
            normed = self._norm(hidden, layer.mlp_norm)
            gate, up = layer.gate_up(normed).chunk(2, dim=-1)
            hidden = hidden + layer.down(silu(gate).mul_(up))
        return hidden

    def _norm(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(rows, weight.shape, weight, self.config.norm_eps)

    def _rotation(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and signed sines, each [rows, 1, head_dim], of the angles at `positions`."""
        angles = positions[:, None, None].float() * self._frequencies
        cosines, sines = angles.cos(), angles.sin()
        return (
            torch.cat((cosines, cosines), dim=-1).to(self.dtype),
            torch.cat((-sines, sines), dim=-1).to(self.dtype),
        )

    def _queries_and_kv(
        self, layer: Layer, rows: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Queries [rows, heads, head_dim] and keys then values [rows, 2 * kv_heads, head_dim]."""
        config = self.config
        qkv = layer.qkv(rows).view(len(rows), -1, config.head_dim)
        rotated = qkv[:, : config.heads + config.kv_heads]
        if layer.qk_norm is not None:
            normed = rms_norm(rotated, (config.head_dim,), eps=config.norm_eps)
            torch.mul(normed, layer.qk_norm, out=rotated)
        # (a, b) becomes (a cos - b sin, b cos + a sin), a and b the halves of each head.
        cosines, signed_sines = rotation
        swapped = rotated.roll(config.head_dim // 2, dims=-1)
        rotated.mul_(cosines).add_(swapped.mul_(signed_sines))
        return qkv[:, : config.heads], qkv[:, config.heads :]


def _fused_layer(config: LlamaConfig, weights: Weights, index: int) -> Layer:
    own = {n.removeprefix(f"{index}."): w for n, w in weights.items() if n.startswith(f"{index}.")}
    bias = qk_norm = None
    if config.qkv_bias:
        bias = torch.cat([own["query_bias"], own["key_bias"], own["value_bias"]])
    if config.qk_norm:
        query_rows = own["query_norm"].expand(config.heads, -1)
        qk_norm = torch.cat([query_rows, own["key_norm"].expand(config.kv_heads, -1)])
    return Layer(
        attention_norm=own["attention_norm"],
        qkv=make_linear(torch.cat([own["query"], own["key"], own["value"]]), bias),
        qk_norm=qk_norm,
        attention_out=make_linear(own["attention_out"]),
        mlp_norm=own["mlp_norm"],
        gate_up=make_linear(torch.cat([own["gate"], own["up"]])),
        down=make_linear(own["down"]),
    )
