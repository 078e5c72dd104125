"""`batchmark serve`: the in-house engine, or a hosted library, behind our HTTP front."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

from engines.hosted.build import build_engine as build_hosted
from engines.hosted.libraries import LIBRARIES
from engines.hosted.options import HostedOptions
from engines.models.model_store import resolve_model
from engines.scheduling.policies import POLICY_NAMES
from engines.server_process import require_free_port
from engines.serving.generation import TokenEngine
from engines.serving.lifetime import serve as serve_until_told
from harness import console
from harness.core.cache import default_cache_folder
from harness.core.clock import MonotonicClock
from harness.core.errors import ExitCode, UsageError
from harness.core.flag import require_positive
from harness.core.rundir import LineWriter, open_lines
from harness.core.serve_flags import ServeFlags
from harness.core.units import ms_to_ns

# A server cannot know that no more requests will come, so static batching gives up waiting at last.
STATIC_WINDOW_MS = 5000.0
# How long one thread keeps the interpreter from another that asks for it. The one that computes
# asks when a step has ended, and Python's own 5 ms would be a third of a step; it also has to
# prepare a step in one go, 0.3 ms, before the other gets its turn.
_SWITCH_S = 1e-3
# Flags that say nothing to an engine, each with what it is when it was not given.
_OF_INHOUSE: Mapping[str, object] = {
    "policy": None,
    "pad_prompts": True,
    "kv": "paged",
    "capacity": "guaranteed_no_evict",
    "step_order": "decode_first",
    "block_tokens": 16,
    "kv_bytes": None,
    "weights": "bfloat16",
    "queue_limit": None,
    "queue_tokens": None,
}
_NO_EFFECT: Mapping[str, Mapping[str, object]] = {
    "inhouse": {"context_tokens": None},
    "huggingface-static": {
        **_OF_INHOUSE,
        "batched_tokens": None,
        "kv_tokens": None,
        "chunked_prefill": None,
        "prefix_cache": False,
    },
    "openvino": {
        **_OF_INHOUSE,
        "batch_window_ms": None,
        "step_log": None,
    },
}


def serve(flags: ServeFlags, version: str) -> ExitCode:
    """Load the model, then answer requests until told to stop."""
    _check(flags)
    require_free_port(flags.port, flags.host)
    model = resolve_model(flags.model, default_cache_folder())
    sys.setswitchinterval(_SWITCH_S)
    with nullcontext() if flags.step_log is None else open_lines(flags.step_log) as step_log:
        engine = _build(flags, model, version, step_log)
        asyncio.run(
            serve_until_told(
                engine,
                flags.host,
                flags.port,
                announce=lambda url: console.print_line(f"serving {engine.facts().model} at {url}"),
                until_stdin_closes=flags.until_stdin_closes,
                drain_s=flags.drain_s,
            )
        )
    return ExitCode.OK


def _build(
    flags: ServeFlags, model: Path, version: str, step_log: LineWriter | None
) -> TokenEngine:
    if flags.engine in LIBRARIES:
        return build_hosted(flags.engine, model, _hosted(flags), MonotonicClock(), step_log)
    from engines.inhouse.engine import build_engine  # noqa: PLC0415 - it loads torch
    from engines.inhouse.options import EngineOptions  # noqa: PLC0415

    options = EngineOptions(
        slots=flags.slots,
        kv_tokens=flags.kv_tokens,
        kv_bytes=flags.kv_bytes,
        block_tokens=flags.block_tokens,
        policy=flags.policy or "continuous",
        window_ns=_window_ns(flags, is_static=flags.policy == "static"),
        pad_prompts=flags.pad_prompts,
        kv=flags.kv,
        capacity=flags.capacity,
        order=flags.step_order,
        step_tokens=flags.batched_tokens,
        chunked_prefill=bool(flags.chunked_prefill),
        prefix_cache=flags.prefix_cache,
        queue_limit=flags.queue_limit,
        queue_tokens=flags.queue_tokens,
        dtype=flags.dtype,
        weights=flags.weights,
        threads=flags.threads,
        device=flags.device,
        version=version,
    )
    return build_engine(model, options, MonotonicClock(), step_log)


def _hosted(flags: ServeFlags) -> HostedOptions:
    return HostedOptions(
        slots=flags.slots,
        dtype=flags.dtype,
        threads=flags.threads,
        batch_window_ns=_window_ns(flags, is_static=True),
        context_tokens=flags.context_tokens,
        batched_tokens=flags.batched_tokens,
        kv_tokens=flags.kv_tokens,
        chunked_prefill=flags.chunked_prefill,
        prefix_cache=flags.prefix_cache,
        device=flags.device,
    )


def _window_ns(flags: ServeFlags, *, is_static: bool) -> int | None:
    window_ms = flags.batch_window_ms
    if window_ms is None and is_static:
        window_ms = STATIC_WINDOW_MS
    return None if window_ms is None else ms_to_ns(window_ms)


def _check(flags: ServeFlags) -> None:
    if flags.engine not in _NO_EFFECT:
        known = ", ".join(_NO_EFFECT)
        msg = f"unknown engine {flags.engine!r}; `batchmark serve` has {known}"
        raise UsageError(msg)
    for name, default in _NO_EFFECT[flags.engine].items():
        if getattr(flags, name) != default:
            flag = name.replace("_", "-")
            msg = f"--{flag} has no effect on {flags.engine}; leave it out"
            raise UsageError(msg)
    if flags.policy not in (None, *POLICY_NAMES):
        msg = f"unknown policy {flags.policy!r}; choose from {', '.join(POLICY_NAMES)}"
        raise UsageError(msg)
    if flags.dtype not in ("bfloat16", "float32"):
        msg = f"unknown dtype {flags.dtype!r}; choose bfloat16 or float32"
        raise UsageError(msg)
    for flag, value in (
        ("--slots", flags.slots),
        ("--threads", flags.threads),
        ("--context-tokens", flags.context_tokens),
        ("--batched-tokens", flags.batched_tokens),
        ("--kv-tokens", flags.kv_tokens),
        ("--block-tokens", flags.block_tokens),
        ("--kv-bytes", flags.kv_bytes),
        ("--queue-limit", flags.queue_limit),
        ("--queue-tokens", flags.queue_tokens),
        ("--batch-window-ms", flags.batch_window_ms),
        ("--drain-s", flags.drain_s),
    ):
        if value is not None:
            require_positive(flag, value)
