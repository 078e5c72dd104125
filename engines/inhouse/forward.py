"""What the runner asks of whoever computes: the tokens that follow prompts, and decoding rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engines.inhouse.llama_config import LlamaConfig
from engines.scheduling.step import Decode, Prefill

TokenIds = Sequence[int]


@dataclass(frozen=True, slots=True)
class NumberBytes:
    """Bytes of a weight, and of a number in the KV cache."""

    weight: int
    kv: int


class Forward(Protocol):
    """A model with its KV cache. Both methods store keys and values where the plan says."""

    @property
    def config(self) -> LlamaConfig: ...

    @property
    def name(self) -> str:
        """What computes, in a word or two, for the engine's facts."""
        ...

    @property
    def number_bytes(self) -> NumberBytes: ...

    @property
    def weight_error(self) -> float | None:
        """RMS of what weights are off, over their RMS; None where they are as in the file."""
        ...

    def read(self, prefills: Sequence[Prefill], token_ids: Sequence[TokenIds]) -> list[int]:
        """Read `token_ids[i]` of `prefills[i]`; the likeliest next token of each last chunk."""
        ...

    def decode(self, decodes: Sequence[Decode], token_ids: TokenIds) -> list[int]:
        """Feed `token_ids[i]` at the position of `decodes[i]`; the likeliest next token of each."""
        ...
