"""The forward pass in C, for bfloat16 on a CPU: native/forward.c, built at first use.

One call computes all rows of a pass, on all threads, without Python in between. Weights are packed
in panels of 16 columns, and the KV cache is written in that layout too, so that reading the prompt
and decoding are products of the same kind. Where it cannot be built, or a model has sizes that do
not fill panels, `load_native` says so and torch computes.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from engines.inhouse.forward import NumberBytes, TokenIds
from engines.inhouse.kv_cache import CacheSize
from engines.inhouse.llama_config import LlamaConfig
from engines.inhouse.native_memory import NativeMemory
from engines.inhouse.native_rows import PANEL, Ints, Rows, rows_of_decodes, rows_of_prompts
from engines.inhouse.weights import Weights
from engines.scheduling.step import Decode, Prefill
from harness.core.compiled import NUMERIC, load_compiled

_SOURCE = Path(__file__).parent / "native" / "forward.c"
_TILE = 32  # numbers along a product that are multiplied at once
_MOST_HEAD_DIM = 256
_MOST_GROUP = 48
_ARITHMETIC = ("vectors of float32", "vectors of bfloat16 pairs", "AMX tiles")
_pointer = ctypes.c_void_p


class _Matrix(ctypes.Structure):
    _fields_ = [("panels", _pointer), ("scales", _pointer)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((f"{name}_norm", _pointer) for name in ("attention", "mlp")),
        ("qkv_bias", _pointer),
        *((f"{name}_norm", _pointer) for name in ("query", "key")),
        *((name, _Matrix) for name in ("qkv", "attention_out", "gate_up", "down")),
        ("cache", _pointer),
    ]


class _Model(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_int32)
            for name in (
                *("layers", "hidden", "heads", "kv_heads", "head_dim"),
                *("intermediate", "vocabulary", "threads", "cache_blocks"),
            )
        ),
        ("norm_eps", ctypes.c_float),
        ("layer", _pointer),
        ("embedding", _pointer),
        ("output", _Matrix),
        ("output_norm", _pointer),
        ("rotation", _pointer),
    ]


class _Batch(ctypes.Structure):
    _fields_ = [
        ("rows", ctypes.c_int32),
        ("wanted", ctypes.c_int32),
        *(
            (name, _pointer)
            for name in (
                *("token_ids", "positions", "sees", "slots", "sequences", "tables"),
                *("table_starts", "wanted_rows", "chosen", "logits"),
            )
        ),
    ]


@dataclass(frozen=True, slots=True)
class NativeOptions:
    """How many threads compute, and whether weights are kept as `bfloat16` or as `int8`."""

    threads: int
    weights: str = "bfloat16"


@dataclass(slots=True)
class Quantization:
    """Matrices as int8, symmetric, with one scale for each output; and what that cost so far.

    Half the bytes of bfloat16 are read, which is what decoding waits for. Products are the same:
    whole numbers to 127 are bfloat16 numbers, and the scale is applied to the sum.
    """

    squares: float = 0.0
    squared_errors: float = 0.0

    def quantize(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`weight` [out, in] as int8, and the scales [out]; a row of zeros stays one."""
        scales = weight.abs().amax(dim=1).clamp(min=1e-30) / 127
        values = (weight / scales[:, None]).round()
        self.squares += float(weight.square().sum())
        self.squared_errors += float((weight - values * scales[:, None]).square().sum())
        return values.to(torch.int8), scales

    @property
    def error(self) -> float:
        """RMS of the errors over RMS of the weights, of all matrices so far."""
        return math.sqrt(self.squared_errors / self.squares) if self.squares else 0.0


class NativeForward:
    """A Forward in C; it owns its KV cache."""

    def __init__(
        self,
        library: ctypes.CDLL,
        config: LlamaConfig,
        weights: Weights,
        size: CacheSize,
        options: NativeOptions,
    ) -> None:
        self._library = library
        self._config = config
        self._block_tokens = size.block_tokens
        self._arithmetic = _ARITHMETIC[library.prepare()]
        self._memory = NativeMemory()  # C holds addresses; this keeps what is there alive
        self._quantization = Quantization() if options.weights == "int8" else None
        self._layers = (_Layer * config.layers)()
        for index in range(config.layers):
            self._layers[index] = self._layer(weights, index, size)
        self._model = _Model(
            *(config.layers, config.hidden, config.heads, config.kv_heads, config.head_dim),
            *(config.intermediate, config.vocabulary, options.threads),
            *(size.kv_blocks * size.block_tokens // PANEL, config.norm_eps),
            ctypes.addressof(self._layers),
            self._memory.copy(weights["embedding"].to(torch.bfloat16)),
            self._matrix(weights["output"]),
            self._memory.copy(weights["output_norm"].float()),
            self._memory.copy(_rotation(config)),
        )

    @property
    def config(self) -> LlamaConfig:
        """The model's sizes."""
        return self._config

    @property
    def name(self) -> str:
        """See Forward."""
        return f"C, {self._arithmetic}"

    @property
    def number_bytes(self) -> NumberBytes:
        """See Forward."""
        return NumberBytes(weight=2 if self._quantization is None else 1, kv=2)

    @property
    def weight_error(self) -> float | None:
        """See Forward."""
        return None if self._quantization is None else self._quantization.error

    def read(self, prefills: Sequence[Prefill], token_ids: Sequence[TokenIds]) -> list[int]:
        """See Forward."""
        chosen, _ = self.compute(rows_of_prompts(prefills, token_ids, self._block_tokens))
        return chosen

    def decode(self, decodes: Sequence[Decode], token_ids: TokenIds) -> list[int]:
        """See Forward."""
        chosen, _ = self.compute(rows_of_decodes(decodes, token_ids, self._block_tokens))
        return chosen

    def compute(
        self, rows: Rows, *, with_logits: bool = False
    ) -> tuple[list[int], np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None]:
        """The likeliest next token of the wanted rows, and their logits where asked.

        Logits are [wanted, vocabulary]. Raises MemoryError when the pass finds no room.
        """
        wanted = len(rows.wanted)
        chosen = np.zeros(max(wanted, 1), dtype=np.int32)
        logits = np.empty((wanted, self._config.vocabulary), np.float32) if with_logits else None
        batch = _Batch(
            *(len(rows.token_ids), wanted),
            *(_address(rows.token_ids), _address(rows.positions), _address(rows.sees)),
            *(_address(rows.slots), _address(rows.sequences), _address(rows.tables)),
            *(_address(rows.table_starts), _address(rows.wanted), _address(chosen)),
            None if logits is None else logits.ctypes.data,
        )
        if self._library.forward(ctypes.byref(self._model), ctypes.byref(batch)):
            msg = f"there is no memory for a pass of {len(rows.token_ids)} rows"
            raise MemoryError(msg)
        return chosen[:wanted].tolist(), logits

    def _layer(self, weights: Weights, index: int, size: CacheSize) -> _Layer:
        config = self._config
        own = {name: weights[f"{index}.{name}"] for name in _names(config)}
        qkv = torch.cat([own["query"], own["key"], own["value"]])
        bias = torch.zeros(len(qkv))
        if config.qkv_bias:
            bias = torch.cat([own["query_bias"], own["key_bias"], own["value_bias"]])
        # Panels of gate and up take turns, so that both factors of a column meet in one block.
        gate_up = torch.stack(
            [own[name].view(-1, PANEL, config.hidden) for name in ("gate", "up")], dim=1
        )
        blocks = size.kv_blocks * size.block_tokens // PANEL
        numbers = blocks * config.kv_heads * 2 * PANEL * config.head_dim
        # Zeros, for a NaN would spread; a tile may read on behind the last value.
        cache = self._memory.zeros(2 * (numbers + PANEL * _TILE))
        return _Layer(
            self._memory.copy(own["attention_norm"].float()),
            self._memory.copy(own["mlp_norm"].float()),
            self._memory.copy(bias.float()),
            self._memory.copy(own["query_norm"].float()) if config.qk_norm else None,
            self._memory.copy(own["key_norm"].float()) if config.qk_norm else None,
            self._matrix(qkv),
            self._matrix(own["attention_out"]),
            self._matrix(gate_up.reshape(-1, config.hidden)),
            self._matrix(own["down"]),
            cache.ctypes.data,
        )

    def _matrix(self, weight: torch.Tensor) -> _Matrix:
        """`weight` [out, in], packed; as int8 with a scale for each of its rows, where asked."""
        if self._quantization is None:
            return _Matrix(self._memory.copy(_panels(weight.to(torch.bfloat16))), None)
        values, scales = self._quantization.quantize(weight.float())
        return _Matrix(self._memory.copy(_panels(values)), self._memory.copy(scales))


def load_native(
    config: LlamaConfig, weights: Weights, size: CacheSize, options: NativeOptions
) -> NativeForward | str:
    """The forward pass in C, or why it cannot be had here."""
    if reason := _misfit(config, size):
        return reason
    library = load_compiled(_SOURCE, NUMERIC)
    if library is None:
        return "no C compiler, or BATCHMARK_COMPILE=0"
    return NativeForward(library, config, weights, size, options)


def _misfit(config: LlamaConfig, size: CacheSize) -> str | None:
    queries = config.heads * config.head_dim
    for what, value, divisor in (
        ("hidden size", config.hidden, _TILE),
        ("query size", queries, _TILE),
        ("head_dim", config.head_dim, _TILE),
        ("intermediate size", config.intermediate, _TILE),
        ("vocabulary", config.vocabulary, PANEL),
        ("block_tokens", size.block_tokens, PANEL),
    ):
        if value % divisor:
            return f"{what} {value} is no multiple of {divisor}"
    if config.head_dim > _MOST_HEAD_DIM or config.heads // config.kv_heads > _MOST_GROUP:
        return f"head_dim {config.head_dim} or {config.heads} heads are too many"
    return None


def _names(config: LlamaConfig) -> list[str]:
    names = ["attention_norm", "query", "key", "value", "attention_out"]
    names += ["mlp_norm", "gate", "up", "down"]
    names += ["query_bias", "key_bias", "value_bias"] if config.qkv_bias else []
    return names + (["query_norm", "key_norm"] if config.qk_norm else [])


def _panels(weight: torch.Tensor) -> torch.Tensor:
    """`weight` [out, in] as [out/16, in/2, 16, 2]."""
    columns, k = weight.shape
    pairs = weight.reshape(columns // PANEL, PANEL, k // 2, 2)
    return pairs.permute(0, 2, 1, 3).contiguous()


def _rotation(config: LlamaConfig) -> torch.Tensor:
    """[context, head_dim]: the cosines of each position's angles, then the sines."""
    steps = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequencies = 1.0 / config.rope_theta**steps
    angles = torch.arange(config.context, dtype=torch.float32)[:, None] * frequencies
    return torch.cat((angles.cos(), angles.sin()), dim=1)


def _address(values: Ints) -> int:
    return values.ctypes.data
