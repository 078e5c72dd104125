"""`batchmark run`: launch each engine, measure it, compare, report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from engines.registry import open_engine, policies
from harness import console
from harness.analyzer.summary import Validity
from harness.commands.engines import keep_preflight, with_preflight
from harness.commands.judging import compare_all, keep_summary, read_reported, simulated_twins
from harness.core.cache import default_cache_folder
from harness.core.clock import MonotonicClock, utc_now
from harness.core.engine import Checked, Engine, EngineSpec
from harness.core.engine_flags import KnownEngines
from harness.core.engines_file import read_engines
from harness.core.errors import BatchmarkError, ExitCode
from harness.core.manifest import RunStatus
from harness.core.plan import RunFlags, RunPlan, plan_run
from harness.core.rundir import create_folder, write_json
from harness.core.workload import Request, Workload
from harness.gate.baseline import load_baseline
from harness.gate.preflight import preflight
from harness.loadgen.ceiling import Place, find_ceiling
from harness.loadgen.crew import workers_for
from harness.loadgen.interruption import Interruption
from harness.loadgen.lifecycle import RunContext, run_engine
from harness.loadgen.machine import machine_facts, with_burn_in
from harness.loadgen.session import ClientOptions, Progress
from reports.page import write_report
from workloads.catalog import WorkloadSpec, build_warmup, build_workload, load_spec, spec_of
from workloads.schedule_file import read_schedule

COMPARISON = "comparison.json"
REPORT = "report.html"


@dataclass(frozen=True, slots=True)
class _Work:
    """What is sent: a mix, and `locked` when every byte of it is in a schedule file."""

    spec: WorkloadSpec
    locked: Workload | None = None

    def workload(self, plan: RunPlan, repeat: int) -> Workload:
        """Seed + i in repeat i; the same bytes every time when they are locked."""
        if self.locked is not None:
            return self.locked
        return build_workload(self.spec, plan.load, plan.repeat_mix, plan.seed + repeat)

    def warmup(self, plan: RunPlan, repeat: int) -> tuple[Request, ...]:
        return build_warmup(self.spec, plan.warmup_requests, plan.seed + repeat)


@dataclass(frozen=True, slots=True)
class _Stopped:
    """Why no further run was made, and the exit code that it means."""

    reason: str
    exit_code: ExitCode = ExitCode.INVALID


def run(flags: RunFlags, store: Path, command: tuple[str, ...], version: str) -> ExitCode:
    """Measure, then judge what was measured, whatever ended the measuring."""
    known = KnownEngines(policies(), read_engines(flags.engines.file))
    plan, work = _open_work(plan_run(flags, utc_now(), known), flags.workload)
    engines = _check_before_measuring(plan, store)
    create_folder(plan.folder)
    console.print_plan(plan)
    keep_preflight(engines, plan.folder)
    if len(engines) > 1:
        console.print_preflight(preflight(engines))
    interruption = Interruption()
    stopped = interruption.run(_measure_all(plan, work, command, version))
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


def _open_work(plan: RunPlan, name: str | None) -> tuple[RunPlan, _Work]:
    """What is sent, and the plan, which takes the words for it from a locked schedule."""
    if plan.schedule is None:
        work = _Work(load_spec(plan.workload))
        work.workload(plan, repeat=0)
        return plan, work
    locked = read_schedule(plan.schedule, plan.load.speed or 1.0, name)
    plan = replace(
        plan,
        workload=locked.name,
        repeat_mix=locked.repeat_mix,
        load=locked.load,
        seed=locked.seed,
    )
    return plan, _Work(spec_of(locked), locked)


def _check_before_measuring(plan: RunPlan, store: Path) -> tuple[Engine, ...]:
    """The engines, not started. Raises UsageError for what is known to be wrong before a start."""
    clock = MonotonicClock()
    engines = tuple(open_engine(spec, plan.folder / spec.name, clock) for spec in plan.engines)
    for engine in engines:
        if isinstance(engine, Checked):
            engine.check()
    if plan.baseline is not None and not plan.is_baseline_measured:
        load_baseline(store, plan.baseline)
    return engines


async def _measure_all(
    plan: RunPlan, work: _Work, command: tuple[str, ...], version: str
) -> _Stopped | None:
    """Run every engine `repeats` times; returns why it stopped early, or None.

    Repeat i sends the same bytes to every engine, in reverse order every other time, so that a slow
    drift of the machine weighs on all alike.
    """
    clock, machine = MonotonicClock(), machine_facts()
    for repeat, engine_spec, folder in _schedule(plan):
        workload = work.workload(plan, repeat)
        warmup = work.warmup(plan, repeat)
        workers = plan.workers or workers_for(workload, machine.cores)
        kept = find_ceiling(default_cache_folder(), Place(machine, version, workers))
        create_folder(folder)
        engine = open_engine(engine_spec, folder, clock)
        with console.RunProgress(folder.name, workload.output_tokens) as progress:
            context = RunContext(
                tool_version=version,
                command=command,
                machine=with_burn_in(machine, clock),
                clock=clock,
                on_stage=progress.stage,
                on_progress=_show(progress),
                deadline_s=plan.deadline_s,
                client=ClientOptions(workers=workers, saves_text=plan.saves_text),
                ceiling=None if kept is None else kept.ceiling,
            )
            try:
                manifest = await run_engine(engine, workload, warmup, folder, context)
            except BatchmarkError as error:
                return _Stopped(f"{folder.name}: {error}", error.exit_code)
        if manifest.status is not RunStatus.COMPLETE:
            return _Stopped(f"{folder.name}: {manifest.failure}")
    return None


def _show(progress: console.RunProgress) -> Callable[[Progress], None]:
    return lambda now: progress.update(now.counts, now.events, now.elapsed_s)


def _schedule(plan: RunPlan) -> Iterator[tuple[int, EngineSpec, Path]]:
    for repeat in range(plan.repeats):
        for spec in plan.engines if repeat % 2 == 0 else reversed(plan.engines):
            name = spec.name if plan.repeats == 1 else f"{spec.name}-{repeat + 1}"
            yield repeat, spec, plan.folder / name


def _judge(plan: RunPlan, engines: tuple[Engine, ...], store: Path) -> list[str]:
    """Summarise, compare and report what was measured; returns the names of runs not valid."""
    folders = [folder for _, _, folder in _schedule(plan) if folder.exists()]
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
        console.print_time_split([run.summary for run in runs], twins)
        of_runs = (caution for run in runs for caution in run.summary.cautions)
        of_tables = (caution for table in tables for caution in table.cautions)
        console.print_cautions([*of_runs, *of_tables])
        write_report(plan.folder / REPORT, runs, tables, twins)
        console.print_headlines(tables)
        console.print_line(f"report: {plan.folder / REPORT}")
    return [r.folder.path.name for r in runs if r.summary.validity is Validity.INVALID]
