"""`batchmark serve`: the in-house engine behind our HTTP front."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

from engines.inhouse.engine import EngineOptions, build_engine
from engines.inhouse.model_store import resolve_model
from engines.scheduling.policies import POLICY_NAMES
from engines.server_process import require_free_port
from engines.serving.app import serve as serve_until_told
from harness import console
from harness.core.cache import default_cache_folder
from harness.core.clock import MonotonicClock
from harness.core.errors import ExitCode, UsageError
from harness.core.plan import ServeFlags, require_positive
from harness.core.rundir import open_lines
from harness.core.units import ms_to_ns

# A server cannot know that no more requests will come, so static batching gives up waiting at last.
STATIC_WINDOW_MS = 5000.0


def serve(flags: ServeFlags, version: str) -> ExitCode:
    """Load the model, then answer requests until told to stop."""
    _check(flags)
    require_free_port(flags.port, flags.host)
    model = resolve_model(flags.model, default_cache_folder())
    window_ms = flags.batch_window_ms
    if window_ms is None and flags.policy == "static":
        window_ms = STATIC_WINDOW_MS
    options = EngineOptions(
        slots=flags.slots,
        policy=flags.policy,
        window_ns=None if window_ms is None else ms_to_ns(window_ms),
        pad_prompts=flags.pad_prompts,
        dtype=flags.dtype,
        threads=flags.threads,
        kv_tokens=flags.kv_tokens,
        device=flags.device,
        version=version,
    )
    with nullcontext() if flags.step_log is None else open_lines(flags.step_log) as step_log:
        engine = build_engine(model, options, MonotonicClock(), step_log)
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


def _check(flags: ServeFlags) -> None:
    if flags.policy not in POLICY_NAMES:
        msg = f"unknown policy {flags.policy!r}; choose from {', '.join(POLICY_NAMES)}"
        raise UsageError(msg)
    if flags.dtype not in ("bfloat16", "float32"):
        msg = f"unknown dtype {flags.dtype!r}; choose bfloat16 or float32"
        raise UsageError(msg)
    for flag, value in (
        ("--slots", flags.slots),
        ("--threads", flags.threads),
        ("--kv-tokens", flags.kv_tokens),
        ("--batch-window-ms", flags.batch_window_ms),
    ):
        if value is not None:
            require_positive(flag, value)
