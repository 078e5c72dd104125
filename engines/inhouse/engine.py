"""The in-house engine as serving sees it: requests in, tokens out, on an event loop.

The work is done by `worker`; here are the requests, who waits for which tokens, and how all the
parts are put together.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from engines.inhouse.kv_cache import CacheSize, KvCache, bytes_per_token
from engines.inhouse.llama_config import LlamaConfig
from engines.inhouse.model import LlamaModel
from engines.inhouse.runner import Runner
from engines.inhouse.weights import load_weights
from engines.inhouse.worker import Arrival, Cancel, Reports, Tokens, Worker
from engines.models.identity import describe_weights, model_digest, model_name
from engines.models.tokenizer import load_codec
from engines.scheduling.policies import Policy, make_policy
from engines.scheduling.scheduler import Limits, Scheduler
from engines.serving.generation import GeneratedToken, GenerationRequest, TextCodec
from engines.serving.request_limits import RequestLimits
from harness.core.clock import Clock
from harness.core.engine import EngineFacts
from harness.core.errors import UsageError
from harness.core.rundir import LineWriter
from harness.core.units import ns_to_ms

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
_CACHE_BYTES_MOST = 2**30


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How the engine runs. None: no window, the default KV cache, all cores, a GPU if there is one.

    By default the KV cache has room for as many tokens as `slots` times the model's context, within
    1 GiB.
    """

    slots: int = 8
    kv_tokens: int | None = None
    block_tokens: int = 16
    policy: str = "continuous"
    window_ns: int | None = None
    pad_prompts: bool = True
    dtype: str = "bfloat16"
    threads: int | None = None
    device: str | None = "cpu"
    version: str = ""


class InhouseEngine:
    """A TokenEngine that batches by the policy of its scheduler."""

    def __init__(
        self,
        worker: Worker,
        codec: TextCodec,
        facts: EngineFacts,
        limits: RequestLimits,
        clock: Clock,
    ) -> None:
        self.codec = codec
        self._worker = worker
        self._facts = facts
        self._limits = limits
        self._clock = clock
        self._ids = itertools.count(1)
        self._inboxes: dict[int, asyncio.Queue[GeneratedToken | RuntimeError]] = {}
        self._over: str | None = None

    def facts(self) -> EngineFacts:
        """What the engine is: model, dtype, limits and settings."""
        return self._facts

    def gauges(self) -> Mapping[str, float]:
        """Prometheus sample names to present values, without the `batchmark_` prefix."""
        return self._worker.gauges()

    def start(self) -> None:
        """Begin to work, on a thread of the engine's own; called with an event loop running."""
        loop = asyncio.get_running_loop()

        def on_the_loop(callback: Callable[..., None], *values: object) -> None:
            with contextlib.suppress(RuntimeError):  # a closed loop: nobody waits any more
                loop.call_soon_threadsafe(callback, *values)

        self._worker.start(
            Reports(
                made=lambda tokens: on_the_loop(self._deliver, tokens),
                failed=lambda reason: on_the_loop(self._fail, reason),
            )
        )

    async def stop(self) -> None:
        """End the work after the step in progress; requests in flight fail."""
        await asyncio.to_thread(self._worker.stop)
        self._fail("the engine was stopped")

    async def generate(self, request: GenerationRequest) -> AsyncIterator[GeneratedToken]:
        """Tokens of the answer as they are made. Closing the iterator cancels the request.

        Raises RequestRefused before the first token when the request can never be served, and
        RuntimeError when the engine has failed or was stopped.
        """
        self._limits.check(request)
        if self._over is not None:
            raise RuntimeError(self._over)
        sequence_id = next(self._ids)
        inbox = self._inboxes[sequence_id] = asyncio.Queue()
        self._worker.order(Arrival(sequence_id, request, self._clock.now_ns()))
        is_ended = False
        try:
            while not is_ended:
                token = await inbox.get()
                if isinstance(token, RuntimeError):
                    raise token
                is_ended = token.finish_reason is not None
                yield token
        finally:
            del self._inboxes[sequence_id]
            if not is_ended:
                self._worker.order(Cancel(sequence_id))

    def _deliver(self, tokens: Tokens) -> None:
        for sequence_id, token in tokens.items():
            if inbox := self._inboxes.get(sequence_id):
                inbox.put_nowait(token)

    def _fail(self, reason: str) -> None:
        self._over = self._over or reason
        for inbox in self._inboxes.values():
            inbox.put_nowait(RuntimeError(self._over))


def build_engine(
    model_path: Path, options: EngineOptions, clock: Clock, step_log: LineWriter | None
) -> InhouseEngine:
    """Load the model at `model_path` and put an engine together around it.

    Raises ModelFileError when the model cannot be read, and UsageError when an option is wrong.
    """
    policy = _policy(options)
    if options.device is None:
        options = replace(options, device="cuda" if torch.cuda.is_available() else "cpu")
    dtype, device = _dtype_and_device(options)
    torch.set_num_threads(_threads(options))
    config, weights = load_weights(model_path, dtype)
    codec = load_codec(model_path)
    weights = {name: tensor.to(device) for name, tensor in weights.items()}
    size = _cache_size(config, options, dtype)
    limits = Limits(options.slots, size.kv_blocks, size.block_tokens, options.pad_prompts)
    scheduler = Scheduler(policy, limits)
    runner = Runner(LlamaModel(config, weights), KvCache(config, size, dtype, device), clock)
    return InhouseEngine(
        Worker(scheduler, runner, clock, step_log),
        codec,
        _facts(model_path, options, config, scheduler.most_tokens),
        RequestLimits(config.context, scheduler.most_tokens, config.vocabulary),
        clock,
    )


def _policy(options: EngineOptions) -> Policy:
    for name, count in (("slots", options.slots), ("threads", options.threads)):
        if count is not None and count < 1:
            msg = f"{name} is {count}; it must be at least 1"
            raise UsageError(msg)
    try:
        return make_policy(options.policy, options.window_ns)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _dtype_and_device(options: EngineOptions) -> tuple[torch.dtype, torch.device]:
    if options.dtype not in DTYPES:
        msg = f"unknown dtype {options.dtype!r}; choose from {', '.join(DTYPES)}"
        raise UsageError(msg)
    if options.device not in {"cpu", "cuda"}:
        msg = f"unknown device {options.device!r}; choose cpu or cuda"
        raise UsageError(msg)
    if options.device == "cuda" and not torch.cuda.is_available():
        msg = "device 'cuda' was asked for, but torch finds no CUDA device; use cpu"
        raise UsageError(msg)
    return DTYPES[options.dtype], torch.device(options.device or "cpu")


def _threads(options: EngineOptions) -> int:
    return options.threads or len(os.sched_getaffinity(0))


def _cache_size(config: LlamaConfig, options: EngineOptions, dtype: torch.dtype) -> CacheSize:
    tokens = options.kv_tokens
    if tokens is None:
        most_tokens = _CACHE_BYTES_MOST // bytes_per_token(config, dtype)
        tokens = min(options.slots * config.context, most_tokens)
    if tokens < options.block_tokens or options.block_tokens < 1:
        msg = f"a KV cache of {tokens} tokens in blocks of {options.block_tokens} is too small"
        raise UsageError(msg)
    return CacheSize(tokens // options.block_tokens, options.block_tokens)


def _facts(path: Path, options: EngineOptions, config: LlamaConfig, kv_tokens: int) -> EngineFacts:
    return EngineFacts(
        version=f"batchmark {options.version}".strip(),
        model=model_name(path),
        model_digest=model_digest(path),
        dtype=options.dtype,
        weights=describe_weights(path),
        context_tokens=config.context,
        settings={
            "policy": options.policy,
            "window_ms": None if options.window_ns is None else ns_to_ms(options.window_ns),
            "slots": options.slots,
            "kv_tokens": kv_tokens,
            "block_tokens": options.block_tokens,
            "pad_prompts": options.pad_prompts,
            "threads": _threads(options),
            "device": options.device,
        },
    )
