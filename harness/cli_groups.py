"""The commands that come in groups: engines, model, baseline and workload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness import cli_options as options
from harness.cli_flags import as_command
from harness.core.engine_flags import EngineFlags, EnginesFile
from harness.core.errors import ExitCode
from harness.core.flag import Flag, Part, Word
from harness.core.work_flags import WorkFlags

engines_app = typer.Typer(help="See which engines there are, and how they are launched.")
model_app = typer.Typer(no_args_is_help=True, help="Get models that can be measured offline.")
baseline_app = typer.Typer(no_args_is_help=True, help="Name runs to compare against.")
workload_app = typer.Typer(no_args_is_help=True, help="See what is sent, and when; lock it.")


@engines_app.callback(invoke_without_command=True)
def engines_top(context: typer.Context) -> None:
    """See which engines there are, and how they are launched."""
    if context.invoked_subcommand is None:
        engines_list(engines=None)


@engines_app.command("list")
@as_command
def engines_list(engines: EnginesFile = None) -> ExitCode:
    """List the kinds of engines, plug-ins and those of engines.toml included."""
    from harness.commands import engines as command

    return command.list_engines(engines)


@engines_app.command("plan")
@as_command
def engines_plan(
    engine: Annotated[str, Word("ENGINE", "As of `run --engine`.")],
    flags: Annotated[EngineFlags, Part(without=("engines",))],
) -> ExitCode:
    """Show how engines would be launched, and what differs between them, launching nothing."""
    from harness.commands import engines as command

    return command.plan(replace(flags, engines=engine))


@model_app.command("fetch")
@as_command
def model_fetch(
    name: Annotated[str, Word("NAME", "A model's name; see `batchmark model list`.")],
) -> ExitCode:
    """Download a model into the cache, and check it."""
    from harness.commands import model as command

    return command.fetch(name)


@model_app.command("export")
@as_command
def model_export(
    name: Annotated[str, Word("NAME", "A fetched model's name, or a GGUF file.")],
    folder: Annotated[Path, Word("FOLDER", "The new folder to write.")],
    dtype: Annotated[str, Flag("bfloat16, float16 or float32.")] = "bfloat16",
) -> ExitCode:
    """Write a GGUF file as a Hugging Face folder, for engines that read no GGUF files."""
    from harness.commands import model as command

    return command.export(name, folder, dtype)


@model_app.command("list")
@as_command
def model_list() -> ExitCode:
    """List the models that can be fetched, and whether they are."""
    from harness.commands import model as command

    return command.list_models()


@baseline_app.command("save")
@as_command
def baseline_save(
    name: Annotated[str, Word("NAME", "Letters, digits, '.', '_' and '-'.")],
    run_folders: options.Repeats,
    why: options.Why = "",
    replaces: Annotated[bool, Flag("Replace one of that name.", "--replace")] = False,
    baselines: options.Baselines = options.BASELINES,
) -> ExitCode:
    """Keep runs, with their raw records, under a name to compare against."""
    from harness.commands import baseline as command

    return command.save(name, run_folders, baselines, why, replaces=replaces)


@baseline_app.command("list")
@as_command
def baseline_list(
    published: Annotated[
        bool, Flag("What others claim instead, with source.", "--published")
    ] = False,
    baselines: options.Baselines = options.BASELINES,
) -> ExitCode:
    """List the saved baselines, or what others have published."""
    from harness.commands import baseline as command

    return command.list_published() if published else command.list_saved(baselines)


@baseline_app.command("show")
@as_command
def baseline_show(
    name: Annotated[str, Word("NAME", "A saved baseline, or a published claim.")],
    baselines: options.Baselines = options.BASELINES,
) -> ExitCode:
    """Show one: who saved it, when and why, and its numbers; or what a publication claims."""
    from harness.commands import baseline as command

    return command.show(name, baselines)


@baseline_app.command("rename")
@as_command
def baseline_rename(
    old: Annotated[str, Word("OLD", "A saved baseline.")],
    new: Annotated[str, Word("NEW", "Its new name.")],
    baselines: options.Baselines = options.BASELINES,
) -> ExitCode:
    """Give a saved baseline another name."""
    from harness.commands import baseline as command

    return command.rename(old, new, baselines)


@baseline_app.command("retire")
@as_command
def baseline_retire(
    name: Annotated[str, Word("NAME", "A saved baseline.")],
    why: options.Why = "",
    baselines: options.Baselines = options.BASELINES,
) -> ExitCode:
    """Keep a baseline, but let nothing be compared with it unless --allow retired says so."""
    from harness.commands import baseline as command

    return command.retire(name, baselines, why)


@workload_app.command("list")
@as_command
def workload_list() -> ExitCode:
    """List the workloads that ship with batchmark."""
    from harness.commands import workload as command

    return command.list_workloads()


@workload_app.command("show")
@as_command
def workload_show(flags: WorkFlags) -> ExitCode:
    """Show what a workload sends, and the digests of it."""
    from harness.commands import workload as command

    return command.show(flags)


@workload_app.command("preview")
@as_command
def workload_preview(flags: WorkFlags) -> ExitCode:
    """Show a workload or a trace in figures and bars: lengths, arrivals, what is shared."""
    from harness.commands import workload as command

    return command.preview(flags)


@workload_app.command("fetch")
@as_command
def workload_fetch(
    name: Annotated[str, Word("NAME", "A workload made of a published trace.")],
) -> ExitCode:
    """Download the trace that a workload is made of, and check it."""
    from harness.commands import workload as command

    return command.fetch(name)


@workload_app.command("lock")
@as_command
def workload_lock(
    *,
    flags: Annotated[WorkFlags, Part(without=("load.schedule", "load.speed"))],
    out: Annotated[Path, Flag("The new file to write.", "--out -o")],
) -> ExitCode:
    """Write every prompt and due time of a workload to a file, for `--schedule` to send again."""
    from harness.commands import workload as command

    return command.lock(flags, out)
