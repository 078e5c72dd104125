"""`batchmark sweep` and `batchmark capacity`: their words to frozen plans; no logic."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from harness import cli_options as options
from harness.cli_exit import finish
from harness.core.engine_flags import EngineFlags
from harness.core.errors import ExitCode
from harness.core.load_points import CapacityFlags, SweepFlags
from harness.core.plan import LoadFlags, RunFlags
from harness.core.version import tool_version

Warmup = Annotated[
    int | None, typer.Option(help="Requests sent before measuring; a batch by default.")
]
Workers = Annotated[str, typer.Option(help="Sending processes: a number, or auto.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and all else on standard error.")]


def sweep(
    workload: options.WorkloadName,
    rates: Annotated[str | None, typer.Option(help="Requests a second, rising: 0.5,1,2,4.")] = None,
    concurrencies: Annotated[
        str | None, typer.Option(help="Closed loops: requests in flight at most, rising: 1,2,4,8.")
    ] = None,
    points: Annotated[
        int | None,
        typer.Option(help="So many rates, each the same number of times the one before it."),
    ] = None,
    first: Annotated[float | None, typer.Option("--from", help="The first of --points.")] = None,
    last: Annotated[float | None, typer.Option("--to", help="The last of --points.")] = None,
    closed: Annotated[
        bool, typer.Option("--closed", help="--points are concurrencies, not rates.")
    ] = False,
    window_s: Annotated[
        float | None,
        typer.Option(help="Seconds at least in which requests arrive at a rate; 20 by default."),
    ] = None,
    engine: options.Engines = "inhouse",
    engines: options.EnginesFile = None,
    policy: options.Policies = None,
    model: options.Model = options.DEFAULT_MODEL,
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
    speculative: options.Speculative = None,
    served_name: options.ServedName = None,
    attach: options.Attach = None,
    metrics_url: options.MetricsUrl = None,
    api_key_env: options.ApiKeyEnv = None,
    image: options.Image = None,
    engine_arg: options.EngineArgs = None,
    port: options.Port = None,
    arrivals: options.Arrivals = None,
    cv: options.Cv = None,
    burstiness: options.Burstiness = None,
    repeat_mix: options.RepeatMix = None,
    slo: options.Slos = None,
    seed: options.Seed = None,
    warmup: Warmup = None,
    out: options.Out = None,
    deadline_s: options.DeadlineS = None,
    workers: Workers = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure latency against throughput: one load after another, each on a fresh launch.

    Marks the loads worth choosing: those that no other one beats in throughput and latency.
    """

    def body() -> ExitCode:
        from harness.commands import sweep as command

        engine_flags = EngineFlags(
            engines=engine,
            model=model,
            policies=policy,
            slots=slots,
            dtype=dtype,
            threads=threads,
            pad_prompts=pad_prompts,
            batch_window_ms=batch_window_ms,
            port=port,
            context_tokens=context_tokens,
            batched_tokens=batched_tokens,
            kv_tokens=kv_tokens,
            chunked_prefill=chunked_prefill,
            prefix_cache=prefix_cache,
            speculative=speculative,
            served_name=served_name,
            attach_url=attach,
            metrics_url=metrics_url,
            api_key_env=api_key_env,
            image=image,
            args=tuple(engine_arg or ()),
            file=engines,
        )
        load = LoadFlags(arrivals=arrivals, cv=cv, burstiness=burstiness, repeat_mix=repeat_mix)
        run = RunFlags(
            workload=workload,
            engines=engine_flags,
            load=load,
            seed=seed,
            repeats=1,
            warmup_requests=warmup,
            baseline=None,
            out=out,
            deadline_s=deadline_s,
            workers=workers,
            slos=tuple(slo or ()),
        )
        flags = SweepFlags(run, rates, concurrencies, points, first, last, closed, window_s)
        return command.sweep(flags, tuple(sys.argv[1:]), tool_version(), as_json=as_json)

    finish(body)


def capacity(
    workload: options.WorkloadName,
    slo: Annotated[
        list[str] | None,
        typer.Option(
            "--slo",
            help="What must hold, once or more: ttft_p99=2s, tpot_p50=50ms, failure_rate=1%; or of "
            "single requests, ttft=500ms, of which --share must meet all.",
        ),
    ] = None,
    share: Annotated[
        float | None, typer.Option(help="Of the requests, by --slo ttft=...; 0.99 by default.")
    ] = None,
    closed: Annotated[
        bool, typer.Option("--closed", help="Search for a concurrency, not for a rate.")
    ] = False,
    first: Annotated[
        float | None, typer.Option("--from", help="The load to begin with; 1 by default.")
    ] = None,
    last: Annotated[float | None, typer.Option("--to", help="The highest load to try.")] = None,
    precision: Annotated[
        float, typer.Option(help="End when what met and what did not are so close: 0.1 is 10 %.")
    ] = 0.1,
    tries: Annotated[
        int, typer.Option(help="Runs of a load that stays unresolved, each twice as long.")
    ] = 3,
    window_s: Annotated[
        float | None,
        typer.Option(help="Seconds at least in which requests arrive at a rate; 60 by default."),
    ] = None,
    engine: options.Engines = "inhouse",
    engines: options.EnginesFile = None,
    policy: options.Policies = None,
    model: options.Model = options.DEFAULT_MODEL,
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
    speculative: options.Speculative = None,
    served_name: options.ServedName = None,
    attach: options.Attach = None,
    metrics_url: options.MetricsUrl = None,
    api_key_env: options.ApiKeyEnv = None,
    image: options.Image = None,
    engine_arg: options.EngineArgs = None,
    port: options.Port = None,
    arrivals: options.Arrivals = None,
    cv: options.Cv = None,
    burstiness: options.Burstiness = None,
    seed: options.Seed = None,
    warmup: Warmup = None,
    out: options.Out = None,
    deadline_s: options.DeadlineS = None,
    workers: Workers = "auto",
    as_json: AsJson = False,
) -> None:
    """Find the highest load at which an engine still keeps to service level objectives.

    Exit 0 bracketed, 3 not, 4 the engine failed.
    """

    def body() -> ExitCode:
        from harness.commands import capacity as command

        engine_flags = EngineFlags(
            engines=engine,
            model=model,
            policies=policy,
            slots=slots,
            dtype=dtype,
            threads=threads,
            pad_prompts=pad_prompts,
            batch_window_ms=batch_window_ms,
            port=port,
            context_tokens=context_tokens,
            batched_tokens=batched_tokens,
            kv_tokens=kv_tokens,
            chunked_prefill=chunked_prefill,
            prefix_cache=prefix_cache,
            speculative=speculative,
            served_name=served_name,
            attach_url=attach,
            metrics_url=metrics_url,
            api_key_env=api_key_env,
            image=image,
            args=tuple(engine_arg or ()),
            file=engines,
        )
        run = RunFlags(
            workload=workload,
            engines=engine_flags,
            load=LoadFlags(arrivals=arrivals, cv=cv, burstiness=burstiness),
            seed=seed,
            repeats=1,
            warmup_requests=warmup,
            baseline=None,
            out=out,
            deadline_s=deadline_s,
            workers=workers,
        )
        flags = CapacityFlags(
            run,
            slos=tuple(slo or ()),
            share=share,
            first=first,
            last=last,
            is_closed=closed,
            precision=precision,
            tries=tries,
            window_s=window_s,
        )
        return command.capacity(flags, tuple(sys.argv[1:]), tool_version(), as_json=as_json)

    finish(body)
