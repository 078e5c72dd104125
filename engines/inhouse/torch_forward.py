"""The forward pass in torch operators: every device and dtype, and the reference for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from engines.inhouse.attention import decode_attention, prefill_attention
from engines.inhouse.capture import wait_until_done
from engines.inhouse.forward import NumberBytes, TokenIds
from engines.inhouse.kv_cache import KvCache
from engines.inhouse.llama_config import LlamaConfig
from engines.inhouse.model import LlamaModel
from engines.scheduling.step import Decode, Prefill


class Decoder(Protocol):
    """The half of a Forward that makes the next token of sequences which were read."""

    @property
    def name(self) -> str:
        """How it computes, in a word or two; empty where there is nothing to say."""
        ...

    def __call__(self, decodes: Sequence[Decode], token_ids: TokenIds) -> list[int]:
        """See Forward.decode."""
        ...


class RaggedDecode:
    """A Decoder whose steps have the shape of their batch: nothing is padded but attention."""

    name = ""

    def __init__(self, model: LlamaModel, cache: KvCache) -> None:
        self._model = model
        self._cache = cache

    def __call__(self, decodes: Sequence[Decode], token_ids: TokenIds) -> list[int]:
        """See Decoder."""
        device = self._model.device
        order = sorted(range(len(decodes)), key=lambda i: -decodes[i].position)
        rows = [decodes[i] for i in order]
        logits = self._model.logits(
            torch.tensor([token_ids[i] for i in order], device=device),
            torch.tensor([d.position for d in rows], device=device),
            decode_attention(self._cache, rows, self._model.dtype, device),
            None,
        )
        chosen = dict(zip(order, logits.argmax(dim=-1).tolist(), strict=True))
        return [chosen[i] for i in range(len(decodes))]


class TorchForward:
    """A Forward over a LlamaModel and a KvCache on the same device.

    `decoder` makes the tokens of decoding rows; None: a RaggedDecode. `reason` is why torch
    computes where something faster would have, if so.
    """

    def __init__(
        self, model: LlamaModel, cache: KvCache, decoder: Decoder | None = None, reason: str = ""
    ) -> None:
        self._model = model
        self._cache = cache
        self._decoder = decoder or RaggedDecode(model, cache)
        self._reason = reason

    @property
    def config(self) -> LlamaConfig:
        """The model's sizes."""
        return self._model.config

    @property
    def name(self) -> str:
        """See Forward."""
        remarks = ", ".join(filter(None, (self._decoder.name, self._reason)))
        name = f"torch on {self._model.device.type}"
        return f"{name} ({remarks})" if remarks else name

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
        device = self._model.device
        fed = (
            torch.tensor(rows, device=device),
            torch.tensor(positions, device=device),
            prefill_attention(self._cache, prefills, device),
        )
        if not wanted:  # chunks of which none is the last: nobody needs what they come to
            self._model.read(*fed)
            wait_until_done(device.type)  # or its time would count as that of what comes next
            return []
        logits = self._model.logits(*fed, torch.tensor(wanted, device=device))
        chosen: list[int] = logits.argmax(dim=-1).tolist()
        return chosen

    def decode(self, decodes: Sequence[Decode], token_ids: TokenIds) -> list[int]:
        """See Forward."""
        return self._decoder(decodes, token_ids)
