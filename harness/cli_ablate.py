"""`batchmark ablate`: its words to a frozen plan; no logic."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from harness import cli_options as options
from harness.cli_exit import finish
from harness.core.ablation_plan import AblateFlags
from harness.core.engine_flags import EngineFlags
from harness.core.errors import ExitCode
from harness.core.plan import LoadFlags, RunFlags
from harness.core.version import tool_version


def ablate(
    workload: options.NameUnlessLocked = None,
    levels: Annotated[
        str | None,
        typer.Option(
            help="Two at least, in this order: static,dynamic,continuous,paged,chunked,prefix. "
            "All by default; prefix only where prompts share their beginnings."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Runs of each level; 3 give intervals.")] = 3,
    model: options.Model = options.DEFAULT_MODEL,
    slots: options.Slots = 8,
    dtype: options.Dtype = "bfloat16",
    threads: options.Threads = None,
    kv_tokens: options.KvTokens = None,
    batched_tokens: Annotated[
        int, typer.Option(help="Most tokens of one step, from the level chunked on.")
    ] = 512,
    prefix_cache: Annotated[
        bool, typer.Option("--prefix-cache", help="Measure the level prefix in any case.")
    ] = False,
    repeat_mix: options.RepeatMix = None,
    backlog: options.Backlog = False,
    concurrency: options.Concurrency = None,
    rate: options.Rate = None,
    arrivals: options.Arrivals = None,
    cv: options.Cv = None,
    burstiness: options.Burstiness = None,
    stages: options.Stages = None,
    schedule: options.Schedule = None,
    speed: options.Speed = None,
    seed: options.Seed = None,
    out: options.Out = None,
    deadline_s: options.DeadlineS = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, and all else on standard error.")
    ] = False,
) -> None:
    """Measure what each step is worth on our own engine, from static batching upwards.

    Then paged KV, chunked prefill and a prefix cache: one factor at a time.
    """

    def body() -> ExitCode:
        from harness.commands import ablate as command

        load = LoadFlags(
            backlog=backlog,
            concurrency=concurrency,
            rate_rps=rate,
            arrivals=arrivals,
            cv=cv,
            burstiness=burstiness,
            stages=stages,
            schedule=schedule,
            speed=speed,
            repeat_mix=repeat_mix,
        )
        engine = EngineFlags(
            engines="inhouse",
            model=model,
            slots=slots,
            dtype=dtype,
            threads=threads,
            kv_tokens=kv_tokens,
            batched_tokens=batched_tokens,
        )
        run = RunFlags(
            workload=workload,
            engines=engine,
            load=load,
            seed=seed,
            repeats=rounds,
            warmup_requests=None,
            baseline=None,
            out=out,
            deadline_s=deadline_s,
        )
        flags = AblateFlags(run, levels, prefix_cache)
        return command.ablate(flags, tuple(sys.argv[1:]), tool_version(), as_json=as_json)

    finish(body)
