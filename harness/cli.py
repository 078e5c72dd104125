"""Words on a command line to frozen plans; no logic. The top of the program: nobody imports it.

Exit codes: 0 ok, 1 FAIL, 2 usage, 3 INCONCLUSIVE, 4 INVALID or NOT_COMPARABLE, 5 internal error,
130 and 143 when interrupted. Commands are imported when they are called, so that help is quick.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness import cli_options as options
from harness.cli_ablate import ablate
from harness.cli_capacity import capacity, sweep
from harness.cli_duel import duel
from harness.cli_exit import finish
from harness.cli_gate import gate_app
from harness.cli_groups import baseline_app, engines_app, model_app, workload_app
from harness.cli_import import import_results
from harness.cli_serve import serve
from harness.cli_simulate import simulate
from harness.core.engine_flags import EngineFlags
from harness.core.errors import ExitCode
from harness.core.plan import CalibrateFlags, LoadFlags, RunFlags
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
app.command()(ablate)
app.command()(capacity)
app.command()(sweep)
app.command()(duel)
app.command("import")(import_results)
app.command()(simulate)
app.command()(serve)


@app.command()
def run(
    workload: options.NameUnlessLocked = None,
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
    repeats: Annotated[int, typer.Option(help="Runs of each engine; 3 give intervals.")] = 1,
    warmup: Annotated[
        int | None, typer.Option(help="Requests sent before measuring; a batch by default.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="An engine of this run, as inhouse-static, or a saved name.")
    ] = None,
    out: options.Out = None,
    deadline_s: options.DeadlineS = None,
    workers: Annotated[str, typer.Option(help="Sending processes: a number, or auto.")] = "auto",
    save_text: Annotated[
        bool, typer.Option("--save-text", help="Keep the answers' text, in texts.jsonl.")
    ] = False,
    slo: options.Slos = None,
    baselines: options.Baselines = options.BASELINES,
) -> None:
    """Launch engines, measure each on a workload, and compare them with a named baseline."""

    def body() -> ExitCode:
        from harness.commands import run as command

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
        flags = RunFlags(
            workload=workload,
            engines=EngineFlags(
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
            ),
            load=load,
            seed=seed,
            repeats=repeats,
            warmup_requests=warmup,
            baseline=baseline,
            out=out,
            deadline_s=deadline_s,
            workers=workers,
            saves_text=save_text,
            slos=tuple(slo or ()),
        )
        return command.run(flags, baselines, tuple(sys.argv[1:]), tool_version())

    finish(body)


@app.command()
def calibrate(
    workers: Annotated[int, typer.Option(help="Sending processes, each with its own server.")] = 1,
    streams: Annotated[int, typer.Option(help="Streams at once to begin with.")] = 64,
    limit_s: Annotated[float, typer.Option(help="Begin no level that ends after this.")] = 38.0,
) -> None:
    """Find how much our client can read on this machine before its stamps go wrong."""

    def body() -> ExitCode:
        from harness.commands import calibrate as command

        return command.calibrate_client(CalibrateFlags(workers, streams, limit_s), tool_version())

    finish(body)


@app.command()
def doctor(
    threads: options.Threads = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure no ceilings; show those that were kept.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say whether this machine is fit to measure on, and measure what it can do at best."""

    def body() -> ExitCode:
        from harness.commands import doctor as command

        return command.doctor(threads, is_quick=quick, as_json=as_json)

    finish(body)


@app.command()
def compare(
    run_folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders: repeats of one setting.")
    ],
    baseline: Annotated[str, typer.Option(help="A saved baseline's name, or a run folder.")],
    allow: options.Allow = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    slo: options.Slos = None,
    baselines: options.Baselines = options.BASELINES,
) -> None:
    """Compare runs with a named baseline; refused when the two are not alike."""

    def body() -> ExitCode:
        from harness.commands import compare as command

        flags = command.CompareFlags(
            tuple(run_folders),
            baseline,
            baselines,
            tuple(allow or ()),
            as_json,
            as_markdown,
            tuple(slo or ()),
        )
        return command.compare_runs(flags)

    finish(body)


@app.command()
def show(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    slo: options.Slos = None,
) -> None:
    """Print what a run measured: validity first, then every metric."""

    def body() -> ExitCode:
        from harness.commands import show as command

        return command.show(run_folder, tuple(slo or ()))

    finish(body)


@app.command()
def explain(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print a run's numbers as vLLM, SGLang, GuideLLM, AIPerf and MLPerf define them."""

    def body() -> ExitCode:
        from harness.commands import explain as command

        return command.explain_run(run_folder, as_json=as_json)

    finish(body)


@app.command()
def report(
    run_folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    baseline: Annotated[
        str | None, typer.Option(help="Which to compare with: a run's engine name, or a saved one.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    allow: options.Allow = None,
    slo: options.Slos = None,
    baselines: options.Baselines = options.BASELINES,
) -> None:
    """Write a self-contained HTML report of one or more runs."""

    def body() -> ExitCode:
        from harness.commands import report as command

        return command.report(
            tuple(run_folders), baseline, out, baselines, tuple(allow or ()), tuple(slo or ())
        )

    finish(body)


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
