"""`batchmark run`: launch each engine, measure it, compare, report."""

from __future__ import annotations

from pathlib import Path

from engines.registry import policies
from harness import console
from harness.analyzer.summary import Validity
from harness.commands.engines import keep_preflight, with_preflight
from harness.commands.judging import (
    compare_all,
    keep_summary,
    open_baseline,
    read_reported,
    simulated_twins,
)
from harness.commands.measuring import Bench, Stopped, checked_engines, measure, open_work, turns
from harness.core.clock import utc_now
from harness.core.engine import Engine
from harness.core.engine_flags import KnownEngines
from harness.core.engines_file import read_engines
from harness.core.errors import ExitCode
from harness.core.manifest import RunStatus
from harness.core.plan import RunFlags, RunPlan, plan_run
from harness.core.rundir import create_folder, write_json
from harness.gate.agreement_table import agreement_table
from harness.gate.preflight import preflight
from harness.loadgen.interruption import Interruption
from reports.page import write_report

COMPARISON = "comparison.json"
REPORT = "report.html"


def run(flags: RunFlags, store: Path, command: tuple[str, ...], version: str) -> ExitCode:
    """Measure, then judge what was measured, whatever ended the measuring."""
    known = KnownEngines(policies(), read_engines(flags.engines.file))
    plan, work = open_work(plan_run(flags, utc_now(), known), flags.workload)
    return carry_out(Bench(plan, work, command, version), store)


def carry_out(bench: Bench, store: Path) -> ExitCode:
    """Measure what `bench` plans, and judge it; `store` is where named baselines are kept."""
    plan = bench.plan
    engines = _check_before_measuring(plan, store)
    create_folder(plan.folder)
    console.print_plan(plan)
    keep_preflight(engines, plan.folder)
    if len(engines) > 1:
        console.print_preflight(preflight(engines))
    interruption = Interruption()
    stopped = interruption.run(_measure_all(bench))
    invalid = _judge(plan, engines, store)
    if interruption.exit_code is not None:
        console.print_error(f"interrupted; what was measured is in {plan.folder}")
        return interruption.exit_code
    if stopped is not None:
        console.print_error(stopped.reason)
        return stopped.exit_code
    if invalid:
        console.print_error(f"INVALID: {', '.join(invalid)}; see the checks above")
        return ExitCode.INVALID
    return ExitCode.OK


def _check_before_measuring(plan: RunPlan, store: Path) -> tuple[Engine, ...]:
    """The engines, not started. Raises UsageError for what is known to be wrong before a start."""
    engines = checked_engines(plan)
    if plan.baseline is not None and not plan.is_baseline_measured:
        open_baseline(store, plan.baseline)
    return engines


async def _measure_all(bench: Bench) -> Stopped | None:
    """Run every engine `repeats` times; returns why it stopped early, or None."""
    for turn in turns(bench.plan):
        if (stopped := await measure(bench, turn)) is not None:
            return stopped
    return None


def _judge(plan: RunPlan, engines: tuple[Engine, ...], store: Path) -> list[str]:
    """Summarise, compare and report what was measured; returns the names of runs not valid."""
    folders = [turn.folder for turn in turns(plan) if turn.folder.exists()]
    runs = [run for run in map(read_reported, folders) if run.folder.requests]
    for run in runs:
        keep_summary(run)
    if runs:
        console.print_summaries([run.summary for run in runs])
        console.print_headroom([run.summary for run in runs])
    whole = [r for r in runs if r.folder.manifest.status is RunStatus.COMPLETE]
    names = {r.folder.manifest.engine.name for r in whole}
    can_compare = not plan.is_baseline_measured or plan.baseline in names
    tables = compare_all(whole, plan.baseline, store) if can_compare else ()
    tables = tuple(with_preflight(table, engines) for table in tables)
    write_json(plan.folder / COMPARISON, list(tables))
    if runs:
        twins = simulated_twins(whole)
        console.print_steps([run.summary for run in runs], twins)
        console.draw(agreement_table(tables))
        of_runs = (caution for run in runs for caution in run.summary.cautions)
        of_tables = (caution for table in tables for caution in table.cautions)
        console.print_cautions([*of_runs, *of_tables])
        write_report(plan.folder / REPORT, runs, tables, twins)
        console.print_headlines(tables)
        console.print_line(f"report: {plan.folder / REPORT}")
    return [r.folder.path.name for r in runs if r.summary.validity is Validity.INVALID]
