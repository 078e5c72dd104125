"""What `sweep` and `capacity` share: one plan, measured at loads that differ in one number.

Each point is a run of its own: the engine is launched afresh, so that no cache, no queue and no
leftover of the load before it is met by the next, and the seed is another one, so that no prompt
comes twice.
"""

from __future__ import annotations

from dataclasses import replace

from engines.registry import policies
from harness import console
from harness.commands.engines import keep_preflight
from harness.commands.measuring import Bench, checked_engines, open_work
from harness.core.clock import utc_now
from harness.core.engine_flags import KnownEngines
from harness.core.engines_file import read_engines
from harness.core.load_flags import LoadFlags, parse_load
from harness.core.load_points import Axis
from harness.core.manifest import RunManifest
from harness.core.plan import RunFlags, plan_run
from harness.core.rundir import create_folder


def open_bench(flags: RunFlags, first: LoadFlags, command: tuple[str, ...], version: str) -> Bench:
    """What all points share, checked; nothing is written yet. `first` is the load of the first."""
    known = KnownEngines(policies(), read_engines(flags.engines.file))
    # No load is sent all of a long trace: that it would take days says nothing.
    flags = replace(flags, source=replace(flags.source, yes=True))
    plan, work = open_work(plan_run(replace(flags, load=first), utc_now(), known), flags.workload)
    return Bench(plan, work, command, version)


def begin(bench: Bench, what: str) -> None:
    """Make the folder, say `what` is about to be measured, and keep what is known of the launch."""
    plan = bench.plan
    engines = checked_engines(plan)
    create_folder(plan.folder)
    console.print_line(f"{plan.workload}, seeds from {plan.seed}: {what}")
    if bench.work.available is not None:
        console.print_line("each load is sent the first requests of the trace, as many as it takes")
    console.print_line(f"folder: {plan.folder}")
    keep_preflight(engines, plan.folder)


def bench_at(bench: Bench, load: LoadFlags, requests: int) -> Bench:
    """The bench with that load, and so much of its work that it makes `requests` at least."""
    plan = replace(bench.plan, load=parse_load(load), repeat_mix=load.repeat_mix, names_load=True)
    plan = bench.work.sized(plan, requests)
    recipe = replace(bench.work.recipe, reading=plan.source)
    return replace(bench, plan=plan, work=replace(bench.work, recipe=recipe))


def run_name(axis: Axis, level: float) -> str:
    """How a level is called in the name of a run's folder, such as `rate-0.5`."""
    return f"{axis.value}-{level:g}"


def context_of_mix(manifest: RunManifest) -> str:
    """Model, hardware and mix: what all loads have in common."""
    return f"{manifest.model_title}, {manifest.machine.title}, {manifest.workload.name}"
