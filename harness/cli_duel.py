"""`batchmark duel`: its words to a frozen plan; no logic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness import cli_options as options
from harness.cli_exit import finish
from harness.core.duel_plan import DuelFlags
from harness.core.engine_flags import EngineFlags
from harness.core.errors import ExitCode
from harness.core.plan import LoadFlags, RunFlags
from harness.core.version import tool_version


def duel(
    baseline: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="The baseline: a kind, one with its policy as inhouse-static, or a name of "
            "engines.toml.",
        ),
    ],
    candidate: Annotated[
        str, typer.Argument(metavar="B", help="The candidate, called likewise; A again for A/A.")
    ],
    workload: options.NameUnlessLocked = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            help="Runs of each side: 5 is exactly 5; 5,10 is 10 where 5 cannot tell, which is the "
            "default. Below 5 there is no verdict."
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option("--rules", help="Margins and looks; ./batchmark.toml by default."),
    ] = None,
    allow: options.Allow = None,
    engines: options.EnginesFile = None,
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
    image: options.Image = None,
    engine_arg: options.EngineArgs = None,
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
    warmup: Annotated[
        int | None, typer.Option(help="Requests sent before measuring; a batch by default.")
    ] = None,
    out: options.Out = None,
    deadline_s: options.DeadlineS = None,
    workers: Annotated[str, typer.Option(help="Sending processes: a number, or auto.")] = "auto",
    slo: options.Slos = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, and all else on standard error.")
    ] = False,
) -> None:
    """Run two engines in turn, pair by pair on the same bytes, and say which one is ahead.

    The way to compare on a machine that is not quiet. Exit 0 PASS, 1 FAIL, 3 INCONCLUSIVE,
    4 INVALID.
    """

    def body() -> ExitCode:
        from harness.commands import duel as command

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
            engines=baseline,
            model=model,
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
            speculative=speculative,
            image=image,
            args=tuple(engine_arg or ()),
            file=engines,
        )
        run = RunFlags(
            workload=workload,
            engines=engine,
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
        flags = DuelFlags(run, baseline, candidate, pairs, rules, tuple(allow or ()))
        return command.duel(flags, tuple(sys.argv[1:]), tool_version(), as_json=as_json)

    finish(body)
