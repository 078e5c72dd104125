"""The forward pass in torch operators: every device and dtype, and the reference for the others."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engines.inhouse.attention import Attend, decode_attention, prefill_attention
from engines.inhouse.forward import NumberBytes, TokenIds
from engines.inhouse.kv_cache import KvCache
from engines.inhouse.llama_config import LlamaConfig
from engines.inhouse.model import LlamaModel
from engines.scheduling.step import Decode, Prefill


class TorchForward:
    """A Forward over a LlamaModel and a KvCache on the same device.

    `reason` is why torch computes where something faster would have, if so.
    """

    def __init__(self, model: LlamaModel, cache: KvCache, reason: str = "") -> None:
        self._model = model
        self._cache = cache
        self._reason = reason

    @property
    def config(self) -> LlamaConfig:
        """The model's sizes."""
        return self._model.config

    @property
    def name(self) -> str:
        """See Forward."""
        name = f"torch on {self._model.device.type}"
        return f"{name} ({self._reason})" if self._reason else name

    @property
    def number_bytes(self) -> NumberBytes:
        """See Forward."""
        size = self._model.dtype.itemsize
        return NumberBytes(weight=size, kv=size)

    @property
    def weight_error(self) -> float | None:
        """See Forward."""
        return None

    def read(self, prefills: Sequence[Prefill], token_ids: Sequence[TokenIds]) -> list[int]:
        """See Forward."""
        rows: list[int] = []
        positions: list[int] = []
        wanted: list[int] = []
        for prefill, own in zip(prefills, token_ids, strict=True):
            if prefill.is_last:
                wanted.append(len(rows) + prefill.tokens - 1)
            count = prefill.tokens + prefill.padding_tokens
            rows += [*own, *[0] * prefill.padding_tokens]
            positions += range(prefill.first, prefill.first + count)
        attend = prefill_attention(self._cache, prefills, self._model.device)
        return self._greedy(rows, positions, attend, wanted)

    def decode(self, decodes: Sequence[Decode], token_ids: TokenIds) -> list[int]:
        """See Forward."""
        order = sorted(range(len(decodes)), key=lambda i: -decodes[i].position)
        rows = [decodes[i] for i in order]
        attend = decode_attention(self._cache, rows, self._model.dtype, self._model.device)
        positions = [d.position for d in rows]
        made = self._greedy(
            [token_ids[i] for i in order], positions, attend, list(range(len(rows)))
        )
        chosen = dict(zip(order, made, strict=True))
        return [chosen[i] for i in range(len(decodes))]

    def _greedy(
        self, token_ids: list[int], positions: list[int], attend: Attend, wanted: list[int]
    ) -> list[int]:
        device = self._model.device
        logits = self._model.logits(
            torch.tensor(token_ids, device=device),
            torch.tensor(positions, device=device),
            attend,
            torch.tensor(wanted or [0], device=device),  # chunks that are not last want none
        )
        chosen: list[int] = logits.argmax(dim=-1).tolist()
        return chosen[: len(wanted)]
