"""`batchmark serve`: its words to frozen flags; no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import cli_options as options
from harness.cli_exit import finish
from harness.core.errors import ExitCode
from harness.core.plan import ServeFlags
from harness.core.version import tool_version


def serve(
    engine: Annotated[
        str, typer.Option(help="inhouse, huggingface-static or openvino.")
    ] = "inhouse",
    model: options.Model = options.DEFAULT_MODEL,
    policy: Annotated[
        str | None, typer.Option(help="Of inhouse: static, dynamic, or continuous (default).")
    ] = None,
    slots: options.Slots = 8,
    dtype: options.Dtype = "bfloat16",
    threads: options.Threads = None,
    pad_prompts: options.PadPrompts = True,
    batch_window_ms: options.WindowMs = None,
    context_tokens: options.ContextTokens = None,
    batched_tokens: options.BatchedTokens = None,
    kv_tokens: options.KvTokens = None,
    chunked_prefill: options.ChunkedPrefill = None,
    prefix_cache: options.PrefixCache = False,
    kv: Annotated[
        str, typer.Option(help="KV blocks: paged, as an answer grows, or reserved, all at once.")
    ] = "paged",
    capacity: Annotated[
        str,
        typer.Option(
            help="A request starts when it is sure to end: guaranteed_no_evict, or when its prompt "
            "fits: max_utilization, where the youngest may have to begin again."
        ),
    ] = "guaranteed_no_evict",
    step_order: Annotated[
        str, typer.Option(help="What a step does first: decode_first or prefill_first.")
    ] = "decode_first",
    block_tokens: Annotated[int, typer.Option(help="Tokens of a KV block.")] = 16,
    kv_bytes: Annotated[
        int | None, typer.Option(help="Bytes that the KV cache takes; instead of --kv-tokens.")
    ] = None,
    weights: Annotated[
        str, typer.Option(help="How weights are kept: bfloat16, or int8 with the error reported.")
    ] = "bfloat16",
    queue_limit: Annotated[
        int | None, typer.Option(help="Most requests that wait for a slot; more are answered 429.")
    ] = None,
    queue_tokens: Annotated[
        int | None, typer.Option(help="Most prompt tokens that wait for a slot; more get a 429.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; cuda when present.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    step_log: Annotated[Path | None, typer.Option(help="Append a line per step here.")] = None,
    until_stdin_closes: Annotated[
        bool,
        typer.Option(
            "--until-stdin-closes",
            help="End at once, answers in flight or not, when standard input closes.",
        ),
    ] = False,
    drain_s: Annotated[
        float,
        typer.Option(
            help="On SIGTERM or SIGINT, go on with the answers in flight for so long at most; a "
            "second signal ends at once."
        ),
    ] = 30.0,
) -> None:
    """Serve a model with the in-house engine, or a library, as an OpenAI-compatible server."""

    def body() -> ExitCode:
        from harness.commands import serve as command

        flags = ServeFlags(
            engine=engine,
            model=model,
            policy=policy,
            slots=slots,
            dtype=dtype,
            threads=threads,
            pad_prompts=pad_prompts,
            batch_window_ms=batch_window_ms,
            context_tokens=context_tokens,
            batched_tokens=batched_tokens,
            kv_tokens=kv_tokens,
            chunked_prefill=chunked_prefill,
            prefix_cache=prefix_cache,
            device=device,
            host=host,
            port=port,
            step_log=step_log,
            until_stdin_closes=until_stdin_closes,
            kv=kv,
            capacity=capacity,
            step_order=step_order,
            block_tokens=block_tokens,
            kv_bytes=kv_bytes,
            weights=weights,
            queue_limit=queue_limit,
            queue_tokens=queue_tokens,
            drain_s=drain_s,
        )
        return command.serve(flags, tool_version())

    finish(body)
