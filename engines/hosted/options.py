"""How a hosted library is to run, in the words of EngineSpec."""

from __future__ import annotations

import os
from dataclasses import dataclass

from harness.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class HostedOptions:
    """What a library is told; those that it has no word for are not looked at.

    None: the library's own default, the model's context, all cores, a GPU where there is one.
    """

    slots: int = 8
    dtype: str = "bfloat16"
    threads: int | None = None
    batch_window_ns: int | None = None
    context_tokens: int | None = None
    batched_tokens: int | None = None
    kv_tokens: int | None = None
    chunked_prefill: bool | None = None
    prefix_cache: bool = False
    device: str | None = "cpu"

    @property
    def cores(self) -> int:
        """How many threads compute."""
        return self.threads or len(os.sched_getaffinity(0))

    def context_of(self, model_tokens: int) -> int:
        """The context to serve, of a model made for `model_tokens`. Raises UsageError beyond it."""
        wanted = model_tokens if self.context_tokens is None else self.context_tokens
        if wanted > model_tokens:
            msg = f"a context of {wanted} tokens was asked for; the model's is {model_tokens}"
            raise UsageError(msg)
        return wanted
