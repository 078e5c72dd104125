"""The commands that come in groups: model, baseline and workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import cli_options as options
from harness.cli_exit import finish
from harness.core.errors import ExitCode
from harness.core.plan import LoadFlags

model_app = typer.Typer(no_args_is_help=True, help="Get models that can be measured offline.")
baseline_app = typer.Typer(no_args_is_help=True, help="Name runs to compare against.")
workload_app = typer.Typer(no_args_is_help=True, help="See what is sent, and when; lock it.")


@model_app.command("fetch")
def model_fetch(
    name: Annotated[str, typer.Argument(help="A model's name; see `batchmark model list`.")],
) -> None:
    """Download a model into the cache, and check it."""

    def body() -> ExitCode:
        from harness.commands import model as command

        return command.fetch(name)

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
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace one of that name.")] = False,
    baselines: options.Baselines = options.BASELINES,
) -> None:
    """Keep a run, with its raw records, under a name to compare against."""

    def body() -> ExitCode:
        from harness.commands import baseline as command

        return command.save(name, run_folder, baselines, replace=replace)

    finish(body)


@baseline_app.command("list")
def baseline_list(baselines: options.Baselines = options.BASELINES) -> None:
    """List the saved baselines."""

    def body() -> ExitCode:
        from harness.commands import baseline as command

        return command.list_saved(baselines)

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
