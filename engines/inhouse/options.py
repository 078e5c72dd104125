"""How the engine is set, and what follows from that for its parts; every fault in words."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from engines.inhouse.kv_cache import CacheSize, bytes_per_token
from engines.inhouse.llama_config import LlamaConfig
from engines.scheduling.limits import Limits
from engines.scheduling.policies import Policy, make_policy
from engines.serving.request_queue import QueueLimits
from harness.core.errors import UsageError
from harness.core.units import ns_to_ms

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
WEIGHTS = ("bfloat16", "int8")
# With chunks of prompts, what a step has room for when nobody says.
STEP_TOKENS = 256
_CACHE_BYTES_MOST = 2**30
# The scheduler's words for its settings, and those of the command line.
_FLAGS = {
    "step_tokens": "--batched-tokens",
    "chunked_prefill": "--chunked-prefill",
    "prefix_cache": "--prefix-cache",
    "capacity": "--capacity",
    "order": "--step-order",
    "kv": "--kv",
}


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How the engine runs. None: no window, the default KV cache, all cores, a GPU if there is one.

    By default the KV cache has room for as many tokens as `slots` times the model's context, within
    1 GiB. `kv`, `capacity`, `order`, `step_tokens`, `chunked_prefill` and `prefix_cache` are those
    of the scheduler's Limits. At most `queue_limit` requests, with at most `queue_tokens` tokens in
    their prompts, wait for a slot; None: no limit.
    """

    slots: int = 8
    kv_tokens: int | None = None
    kv_bytes: int | None = None
    block_tokens: int = 16
    policy: str = "continuous"
    window_ns: int | None = None
    pad_prompts: bool = True
    kv: str = "paged"
    capacity: str = "guaranteed_no_evict"
    order: str = "decode_first"
    step_tokens: int | None = None
    chunked_prefill: bool = False
    prefix_cache: bool = False
    queue_limit: int | None = None
    queue_tokens: int | None = None
    dtype: str = "bfloat16"
    weights: str = "bfloat16"
    threads: int | None = None
    device: str | None = "cpu"
    version: str = ""

    @property
    def cores(self) -> int:
        """How many threads compute."""
        return self.threads or len(os.sched_getaffinity(0))

    @property
    def most_step_tokens(self) -> int | None:
        """The token budget of a step; chunks need one, so that there is one in any case then."""
        if self.step_tokens is None and self.chunked_prefill:
            return max(STEP_TOKENS, self.slots)
        return self.step_tokens

    def policy_and_queue(self) -> tuple[Policy, QueueLimits]:
        """When sequences start, and how many may wait. Raises UsageError for what cannot be."""
        for name in ("slots", "threads", "queue_limit", "queue_tokens"):
            count = getattr(self, name)
            if count is not None and count < 1:
                msg = f"{name} is {count}; it must be at least 1"
                raise UsageError(msg)
        try:
            policy = make_policy(self.policy, self.window_ns)
        except ValueError as error:
            raise UsageError(str(error)) from error
        if policy.holds_slots and self.queue_limit is not None and self.queue_limit < self.slots:
            msg = (
                f"--queue-limit is {self.queue_limit}, and a {self.policy} batch of {self.slots} "
                f"forms in the queue; give at least {self.slots}, or fewer slots"
            )
            raise UsageError(msg)
        return policy, QueueLimits(self.queue_limit, self.queue_tokens)

    def limits(self, size: CacheSize) -> Limits:
        """What bounds a step. Raises UsageError when settings contradict each other."""
        try:
            return Limits(
                slots=self.slots,
                kv_blocks=size.kv_blocks,
                block_tokens=size.block_tokens,
                pad_prompts=self.pad_prompts,
                kv=self.kv,
                capacity=self.capacity,
                step_tokens=self.most_step_tokens,
                chunked_prefill=self.chunked_prefill,
                order=self.order,
                prefix_cache=self.prefix_cache,
            )
        except ValueError as error:
            names = "|".join(_FLAGS)
            said = re.sub(rf"\b({names})\b", lambda name: _FLAGS[name[0]], str(error))
            raise UsageError(said) from error

    def dtype_and_device(self) -> tuple[torch.dtype, torch.device]:
        """What is computed in, and where. Raises UsageError when that cannot be."""
        if self.dtype not in DTYPES:
            msg = f"unknown dtype {self.dtype!r}; choose from {', '.join(DTYPES)}"
            raise UsageError(msg)
        if self.weights not in WEIGHTS:
            msg = f"unknown weights {self.weights!r}; choose from {', '.join(WEIGHTS)}"
            raise UsageError(msg)
        if self.device not in {None, "cpu", "cuda"}:
            msg = f"unknown device {self.device!r}; choose cpu or cuda"
            raise UsageError(msg)
        has_cuda = torch.cuda.is_available()
        if self.device == "cuda" and not has_cuda:
            msg = "device 'cuda' was asked for, but torch finds no CUDA device; use cpu"
            raise UsageError(msg)
        device = self.device or ("cuda" if has_cuda else "cpu")
        return DTYPES[self.dtype], torch.device(device)

    def cache_size(self, config: LlamaConfig) -> CacheSize:
        """The KV cache in whole blocks. Raises UsageError when it would not hold even one."""
        tokens, each = self.kv_tokens, bytes_per_token(config, DTYPES[self.dtype])
        if tokens is not None and self.kv_bytes is not None:
            msg = "--kv-tokens and --kv-bytes both say how large the KV cache is; give one"
            raise UsageError(msg)
        if self.kv_bytes is not None:
            tokens = self.kv_bytes // each
        if tokens is None:
            tokens = min(self.slots * config.context, _CACHE_BYTES_MOST // each)
        if self.block_tokens < 1 or tokens < self.block_tokens:
            msg = f"a KV cache of {tokens} tokens in blocks of {self.block_tokens} is too small"
            raise UsageError(msg)
        return CacheSize(tokens // self.block_tokens, self.block_tokens)

    def settings(self, limits: Limits) -> Mapping[str, str | int | float | bool | None]:
        """Every setting by its name, as it came out."""
        return {
            "policy": self.policy,
            "window_ms": None if self.window_ns is None else ns_to_ms(self.window_ns),
            "slots": self.slots,
            "kv_tokens": limits.most_tokens,
            "block_tokens": limits.block_tokens,
            "kv": self.kv,
            "capacity": self.capacity,
            "step_order": self.order,
            "batched_tokens": limits.step_tokens,
            "chunked_prefill": self.chunked_prefill,
            "prefix_cache": self.prefix_cache,
            "pad_prompts": self.pad_prompts,
            "queue_limit": self.queue_limit,
            "queue_tokens": self.queue_tokens,
            "threads": self.cores,
            "device": self.device,
        }
