"""The commands that come in groups: engines, model, baseline and workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import cli_options as options
from harness.cli_exit import finish
from harness.core.engine_flags import EngineFlags
from harness.core.errors import ExitCode
from harness.core.plan import LoadFlags

engines_app = typer.Typer(help="See which engines there are, and how they are launched.")
model_app = typer.Typer(no_args_is_help=True, help="Get models that can be measured offline.")
baseline_app = typer.Typer(no_args_is_help=True, help="Name runs to compare against.")
workload_app = typer.Typer(no_args_is_help=True, help="See what is sent, and when; lock it.")


@engines_app.callback(invoke_without_command=True)
def engines_top(context: typer.Context) -> None:
    """See which engines there are, and how they are launched."""
    if context.invoked_subcommand is None:
        engines_list()


@engines_app.command("list")
def engines_list(engines: options.EnginesFile = None) -> None:
    """List the kinds of engines, plug-ins and those of engines.toml included."""

    def body() -> ExitCode:
        from harness.commands import engines as command

        return command.list_engines(engines)

    finish(body)


@engines_app.command("plan")
def engines_plan(
    engine: Annotated[str, typer.Argument(metavar="ENGINE", help="As of `run --engine`.")],
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
) -> None:
    """Show how engines would be launched, and what differs between them, launching nothing."""

    def body() -> ExitCode:
        from harness.commands import engines as command

        flags = EngineFlags(
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
        return command.plan(flags)

    finish(body)


@model_app.command("fetch")
def model_fetch(
    name: Annotated[str, typer.Argument(help="A model's name; see `batchmark model list`.")],
) -> None:
    """Download a model into the cache, and check it."""

    def body() -> ExitCode:
        from harness.commands import model as command

        return command.fetch(name)

    finish(body)


@model_app.command("export")
def model_export(
    name: Annotated[str, typer.Argument(help="A fetched model's name, or a GGUF file.")],
    folder: Annotated[Path, typer.Argument(help="The new folder to write.")],
    dtype: Annotated[str, typer.Option(help="bfloat16, float16 or float32.")] = "bfloat16",
) -> None:
    """Write a GGUF file as a Hugging Face folder, for engines that read no GGUF files."""

    def body() -> ExitCode:
        from harness.commands import model as command

        return command.export(name, folder, dtype)

    finish(body)


@model_app.command("list")
def model_list() -> None:
    """List the models that can be fetched, and whether they are."""

    def body() -> ExitCode:
        from harness.commands import model as command

        return command.list_models()

    finish(body)


@baseline_app.command("save")
def baseline_save(
    name: Annotated[str, typer.Argument(help="Letters, digits, '.', '_' and '-'.")],
    run_folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders: repeats of one setting.")
    ],
    why: options.Why = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace one of that name.")] = False,
    baselines: options.Baselines = options.BASELINES,
) -> None:
    """Keep runs, with their raw records, under a name to compare against."""

    def body() -> ExitCode:
        from harness.commands import baseline as command

        return command.save(name, tuple(run_folders), baselines, why, replaces=replace)

    finish(body)


@baseline_app.command("list")
def baseline_list(
    published: Annotated[
        bool, typer.Option("--published", help="What others claim instead, with source.")
    ] = False,
    baselines: options.Baselines = options.BASELINES,
) -> None:
    """List the saved baselines, or what others have published."""

    def body() -> ExitCode:
        from harness.commands import baseline as command

        return command.list_published() if published else command.list_saved(baselines)

    finish(body)


@baseline_app.command("show")
def baseline_show(
    name: Annotated[str, typer.Argument(help="A saved baseline, or a published claim.")],
    baselines: options.Baselines = options.BASELINES,
) -> None:
    """Show one: who saved it, when and why, and its numbers; or what a publication claims."""

    def body() -> ExitCode:
        from harness.commands import baseline as command

        return command.show(name, baselines)

    finish(body)


@baseline_app.command("rename")
def baseline_rename(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A saved baseline.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
    baselines: options.Baselines = options.BASELINES,
) -> None:
    """Give a saved baseline another name."""

    def body() -> ExitCode:
        from harness.commands import baseline as command

        return command.rename(old, new, baselines)

    finish(body)


@baseline_app.command("retire")
def baseline_retire(
    name: Annotated[str, typer.Argument(help="A saved baseline.")],
    why: options.Why = "",
    baselines: options.Baselines = options.BASELINES,
) -> None:
    """Keep a baseline, but let nothing be compared with it unless --allow retired says so."""

    def body() -> ExitCode:
        from harness.commands import baseline as command

        return command.retire(name, baselines, why)

    finish(body)


@workload_app.command("list")
def workload_list() -> None:
    """List the workloads that ship with batchmark."""

    def body() -> ExitCode:
        from harness.commands import workload as command

        return command.list_workloads()

    finish(body)


@workload_app.command("show")
def workload_show(
    workload: options.NameUnlessLocked = None,
    seed: Annotated[int | None, typer.Option(help="Prompts and due times; 0 by default.")] = None,
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
) -> None:
    """Show what a workload sends, and the digests of it."""

    def body() -> ExitCode:
        from harness.commands import workload as command

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
        return command.show(workload, load, seed)

    finish(body)


@workload_app.command("lock")
def workload_lock(
    workload: options.WorkloadName,
    out: Annotated[Path, typer.Option("--out", "-o", help="The new file to write.")],
    seed: Annotated[int, typer.Option(help="Prompts and due times.")] = 0,
    repeat_mix: options.RepeatMix = None,
    backlog: options.Backlog = False,
    concurrency: options.Concurrency = None,
    rate: options.Rate = None,
    arrivals: options.Arrivals = None,
    cv: options.Cv = None,
    burstiness: options.Burstiness = None,
    stages: options.Stages = None,
) -> None:
    """Write every prompt and due time of a workload to a file, for `--schedule` to send again."""

    def body() -> ExitCode:
        from harness.commands import workload as command

        load = LoadFlags(
            backlog=backlog,
            concurrency=concurrency,
            rate_rps=rate,
            arrivals=arrivals,
            cv=cv,
            burstiness=burstiness,
            stages=stages,
            repeat_mix=repeat_mix,
        )
        return command.lock(workload, load, seed, out)

    finish(body)
