"""Words on a command line to frozen plans; no logic. The top of the program: nobody imports it.

Exit codes: 0 ok, 1 FAIL, 2 usage, 3 INCONCLUSIVE, 4 INVALID or NOT_COMPARABLE, 5 internal error,
130 and 143 when interrupted. Commands are imported when they are called, so that help is quick.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness import cli_options as options
from harness.cli_flags import as_command
from harness.cli_gate import gate_app
from harness.cli_groups import baseline_app, engines_app, model_app, workload_app
from harness.core.ablation_plan import AblateFlags
from harness.core.duel_plan import DuelFlags
from harness.core.engine_flags import Threads
from harness.core.errors import ExitCode
from harness.core.export_flags import ExportFlags
from harness.core.flag import Allowed, Flag, Word
from harness.core.load_points import CapacityFlags, SweepFlags
from harness.core.plan import CalibrateFlags, RunFlags
from harness.core.plot_flags import PlotFlags
from harness.core.serve_flags import ServeFlags
from harness.core.simulate_flags import SimulateFlags
from harness.core.slo import Slos
from harness.core.version import tool_version

app = typer.Typer(
    name="batchmark",
    help='Compare LLM inference engines; no number without its "compared to what".',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(engines_app, name="engines")
app.add_typer(model_app, name="model")
app.add_typer(baseline_app, name="baseline")
app.add_typer(workload_app, name="workload")
app.add_typer(gate_app, name="gate")


@app.command()
@as_command
def ablate(flags: AblateFlags, as_json: options.JsonAlone = False) -> ExitCode:
    """Measure what each step is worth on our own engine, from static batching upwards.

    Then paged KV, chunked prefill and a prefix cache: one factor at a time.
    """
    from harness.commands import ablate as command

    return command.ablate(flags, tuple(sys.argv[1:]), tool_version(), as_json=as_json)


@app.command()
@as_command
def capacity(
    workload: options.WorkloadName, flags: CapacityFlags, as_json: options.JsonAlone = False
) -> ExitCode:
    """Find the highest load at which an engine still keeps to service level objectives.

    Exit 0 bracketed, 3 not, 4 the engine failed.
    """
    from harness.commands import capacity as command

    flags = replace(flags, run=replace(flags.run, workload=workload))
    return command.capacity(flags, tuple(sys.argv[1:]), tool_version(), as_json=as_json)


@app.command()
@as_command
def sweep(
    workload: options.WorkloadName, flags: SweepFlags, as_json: options.JsonAlone = False
) -> ExitCode:
    """Measure latency against throughput: one load after another, each on a fresh launch.

    Marks the loads worth choosing: those that no other one beats in throughput and latency.
    """
    from harness.commands import sweep as command

    flags = replace(flags, run=replace(flags.run, workload=workload))
    return command.sweep(flags, tuple(sys.argv[1:]), tool_version(), as_json=as_json)


@app.command()
@as_command
def duel(flags: DuelFlags, as_json: options.JsonAlone = False) -> ExitCode:
    """Run two engines in turn, pair by pair on the same bytes, and say which one is ahead.

    The way to compare on a machine that is not quiet. Exit 0 PASS, 1 FAIL, 3 INCONCLUSIVE,
    4 INVALID.
    """
    from harness.commands import duel as command

    return command.duel(flags, tuple(sys.argv[1:]), tool_version(), as_json=as_json)


@app.command("import")
@as_command
def import_results(
    file: Annotated[Path, Word("FILE", "JSON or JSON lines of a tool.")],
    out: Annotated[Path | None, Flag("The run folder to make.", "--out -o")] = None,
    format_name: Annotated[
        str | None,
        Flag(
            "vllm-bench, sglang, aiperf, guidellm, genai-bench, inference-perf or llmperf; known "
            "by the file's keys unless named.",
            "--format",
        ),
    ] = None,
    result: Annotated[int | None, Flag("Which result of a file with several, from 1.")] = None,
) -> ExitCode:
    """Read a result of another benchmark tool into a run folder, with what is doubtful about it."""
    from harness.commands import import_results as command

    flags = command.ImportFlags(file, out, format_name, result)
    return command.import_result(flags, tool_version())


@app.command()
@as_command
def simulate(flags: SimulateFlags, as_json: options.AsJson = False) -> ExitCode:
    """Run the scheduler in virtual time, and compare the policy with static batching.

    A step costs what is given, or what is fitted to a measured run of our own engine.
    """
    from harness.commands import simulate as command

    return command.simulate_policy(flags, as_json=as_json)


@app.command()
@as_command
def serve(flags: ServeFlags) -> ExitCode:
    """Serve a model with the in-house engine, or a library, as an OpenAI-compatible server."""
    from harness.commands import serve as command

    return command.serve(flags, tool_version())


@app.command()
@as_command
def run(flags: RunFlags, baselines: options.Baselines = options.BASELINES) -> ExitCode:
    """Launch engines, measure each on a workload, and compare them with a named baseline."""
    from harness.commands import run as command

    return command.run(flags, baselines, tuple(sys.argv[1:]), tool_version())


@app.command()
@as_command
def reproduce(
    run_folder: options.RunFolder,
    out: Annotated[Path | None, Flag("A new folder; runs/<time> by default.")] = None,
    check: Annotated[bool, Flag("Say what differs, and send nothing.", "--check")] = False,
) -> ExitCode:
    """Say what is not as it was when a run was made, then make it again on the same bytes.

    Exit 4 when the bytes cannot be made again; with --check also when anything else differs.
    """
    from harness.commands import reproduce as command

    words = tuple(sys.argv[1:])
    return command.reproduce(run_folder, out, words, tool_version(), checks_only=check)


@app.command()
@as_command
def calibrate(flags: CalibrateFlags) -> ExitCode:
    """Find how much our client can read on this machine before its stamps go wrong."""
    from harness.commands import calibrate as command

    return command.calibrate_client(flags, tool_version())


@app.command()
@as_command
def doctor(
    threads: Threads = None,
    quick: Annotated[
        bool, Flag("Measure no ceilings; show those that were kept.", "--quick")
    ] = False,
    as_json: options.AsJson = False,
) -> ExitCode:
    """Say whether this machine is fit to measure on, and measure what it can do at best."""
    from harness.commands import doctor as command

    return command.doctor(threads, is_quick=quick, as_json=as_json)


@app.command()
@as_command
def compare(
    run_folders: options.Repeats,
    baseline: Annotated[str, Flag("A saved baseline's name, or a run folder.")],
    allow: Allowed = (),
    as_json: options.AsJson = False,
    as_markdown: Annotated[bool, Flag("Print Markdown.", "--markdown")] = False,
    slo: Slos = (),
    baselines: options.Baselines = options.BASELINES,
) -> ExitCode:
    """Compare runs with a named baseline; refused when the two are not alike."""
    from harness.commands import compare as command

    flags = command.CompareFlags(run_folders, baseline, baselines, allow, as_json, as_markdown, slo)
    return command.compare_runs(flags)


@app.command()
@as_command
def show(run_folder: options.RunFolder, slo: Slos = ()) -> ExitCode:
    """Print what a run measured: validity first, then every metric."""
    from harness.commands import show as command

    return command.show(run_folder, slo)


@app.command()
@as_command
def explain(
    subject: Annotated[
        str | None, Word("RUN or WORD", "A run folder, or a word such as TPOT; else all words.")
    ] = None,
    as_json: options.AsJson = False,
) -> ExitCode:
    """Say what a word means, or a run's numbers as vLLM, SGLang, GuideLLM and others define them.

    Words are metrics, heads of tables, terms and codes of cautions.
    """
    from harness.commands import explain as command

    return command.explain(subject, as_json=as_json)


@app.command()
@as_command
def report(
    run_folders: Annotated[tuple[Path, ...], Word("RUN...", "Run folders.")] = (),
    baseline: Annotated[
        str | None, Flag("Which to compare with: a run's engine name, or a saved one.")
    ] = None,
    index: Annotated[
        Path | None,
        Flag("Instead of runs: a folder, to find all runs in it on one page.", metavar="FOLDER"),
    ] = None,
    out: Annotated[
        Path | None,
        Flag("The page to write; report.html, or index.html in the folder of --index.", "--out -o"),
    ] = None,
    force: Annotated[bool, Flag("Replace a page that is there already.", "--force")] = False,
    allow: Allowed = (),
    slo: Slos = (),
    baselines: options.Baselines = options.BASELINES,
) -> ExitCode:
    """Write a self-contained HTML report of one or more runs, or an index of many."""
    from harness.commands import index as index_command
    from harness.commands import report as command

    if index is not None:
        return index_command.index(index, out, run_folders, replaces=force)
    return command.report(run_folders, baseline, out, baselines, allow, slo, replaces=force)


@app.command()
@as_command
def view(
    folder: Annotated[Path, Word("FOLDER", "A folder of runs, such as runs.")],
    port: Annotated[int, Flag("Where to listen; a free port by default.")] = 0,
) -> ExitCode:
    """Show the runs in a folder to this machine's browser: their index, and their reports."""
    from harness.commands import index as command

    return command.view(folder, port)


@app.command()
@as_command
def export(flags: ExportFlags, baselines: options.Baselines = options.BASELINES) -> ExitCode:
    """Write what runs measured as CSV, Parquet, Markdown or LaTeX."""
    from harness.commands import export as command

    return command.export(flags, baselines)


@app.command()
@as_command
def plot(flags: PlotFlags) -> ExitCode:
    """Draw one figure of runs, a sweep or an ablation into a file."""
    from harness.commands import plot as command

    return command.plot(flags)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"batchmark {tool_version()}")
        raise typer.Exit


@app.callback()
def _top(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The `batchmark` program."""
    app()


if __name__ == "__main__":
    main()
