"""`batchmark serve`: the in-house engine, or a hosted library, behind our HTTP front."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

from engines.hosted.build import build_engine as build_hosted
from engines.hosted.libraries import LIBRARIES
from engines.hosted.options import HostedOptions
from engines.models.model_store import resolve_model
from engines.scheduling.policies import POLICY_NAMES
from engines.server_process import require_free_port
from engines.serving.app import serve as serve_until_told
from engines.serving.generation import TokenEngine
from harness import console
from harness.core.cache import default_cache_folder
from harness.core.clock import MonotonicClock
from harness.core.errors import ExitCode, UsageError
from harness.core.plan import ServeFlags, require_positive
from harness.core.rundir import LineWriter, open_lines
from harness.core.units import ms_to_ns

# A server cannot know that no more requests will come, so static batching gives up waiting at last.
STATIC_WINDOW_MS = 5000.0
# Flags that say nothing to an engine, each with what it is when it was not given.
_NO_EFFECT: Mapping[str, Mapping[str, object]] = {
    "inhouse": {
        "context_tokens": None,
        "batched_tokens": None,
        "chunked_prefill": None,
        "prefix_cache": False,
    },
    "huggingface-static": {
        "policy": None,
        "pad_prompts": True,
        "batched_tokens": None,
        "kv_tokens": None,
        "chunked_prefill": None,
        "prefix_cache": False,
    },
    "openvino": {
        "policy": None,
        "pad_prompts": True,
        "batch_window_ms": None,
        "step_log": None,
    },
}


def serve(flags: ServeFlags, version: str) -> ExitCode:
    """Load the model, then answer requests until told to stop."""
    _check(flags)
    require_free_port(flags.port, flags.host)
    model = resolve_model(flags.model, default_cache_folder())
    with nullcontext() if flags.step_log is None else open_lines(flags.step_log) as step_log:
        engine = _build(flags, model, version, step_log)
        asyncio.run(
            serve_until_told(
                engine,
                flags.host,
                flags.port,
                announce=lambda url: console.print_line(f"serving {engine.facts().model} at {url}"),
                until_stdin_closes=flags.until_stdin_closes,
            )
        )
    return ExitCode.OK


def _build(
    flags: ServeFlags, model: Path, version: str, step_log: LineWriter | None
) -> TokenEngine:
    if flags.engine in LIBRARIES:
        return build_hosted(flags.engine, model, _hosted(flags), MonotonicClock(), step_log)
    from engines.inhouse.engine import EngineOptions, build_engine  # noqa: PLC0415 - it loads torch

    options = EngineOptions(
        slots=flags.slots,
        policy=flags.policy or "continuous",
        window_ns=_window_ns(flags, is_static=flags.policy == "static"),
        pad_prompts=flags.pad_prompts,
        dtype=flags.dtype,
        threads=flags.threads,
        kv_tokens=flags.kv_tokens,
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
        ("--batch-window-ms", flags.batch_window_ms),
    ):
        if value is not None:
            require_positive(flag, value)
