"""`batchmark reproduce`: is all as it was, and what comes of the same bytes sent again?"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from engines.local_model import local_model, located
from harness import console
from harness.commands.judging import compare_reported, read_reported
from harness.commands.measuring import Bench, open_work, turns
from harness.commands.run import carry_out
from harness.core.clock import utc_now
from harness.core.errors import BatchmarkError, ExitCode, NotComparable, UsageError
from harness.core.imported import DEFINITIONS
from harness.core.manifest import RunManifest, RunStatus, workload_facts
from harness.core.plan import RunPlan
from harness.core.rundir import read_manifest, safe_name
from harness.core.source import Recipe
from harness.core.workload import Load, LoadKind
from harness.gate.reproduction import Present, changes, changes_table, require_same_bytes


def reproduce(
    path: Path, out: Path | None, command: tuple[str, ...], version: str, *, checks_only: bool
) -> ExitCode:
    """Say what is not as it was when the run at `path` was made; then make it again, and compare.

    Raises NotComparable when the same bytes cannot be sent again, and UsageError when the run was
    not measured by batchmark.
    """
    manifest = read_manifest(path)
    plan, work = open_work(plan_again(manifest, out, utc_now()), None)
    bench = Bench(plan, work, command, version)
    present = Present(
        tool_version=version,
        machine=bench.machine,
        workload=workload_facts(work.workload(plan, 0)),
        model_digest=_model_digest(manifest),
    )
    found = changes(manifest, present)
    console.print_line(f"{manifest.run_id}: {manifest.workload.title}, {manifest.created_utc}")
    console.draw(changes_table(found))
    require_same_bytes(manifest, present)
    unlike = ", ".join(change.what for change in found) or "nothing"
    console.print_line(f"the same {manifest.workload.requests:,} requests; what differs: {unlike}")
    if checks_only:
        return ExitCode.INVALID if found else ExitCode.OK
    code = carry_out(bench, plan.folder)  # no baseline is named, so none is looked up
    _compare(path, next(turns(plan)).folder)
    return code


def plan_again(manifest: RunManifest, out: Path | None, now: datetime) -> RunPlan:
    """The plan of one run like that of `manifest`. Raises UsageError for one that was not measured.

    A run of an older version does not say what was named: its workload's own name is taken.
    """
    if manifest.clock != "monotonic" or DEFINITIONS in manifest.labels:
        msg = f"{manifest.run_id} was not measured by `batchmark run`, but simulated or imported"
        raise UsageError(f"{msg}; make it again with the tool that made it")
    work, recipe = manifest.workload, manifest.recipe or Recipe(manifest.workload.name)
    schedule = None if recipe.schedule is None else Path(recipe.schedule)
    stamp = now.strftime("%Y%m%d-%H%M%S")
    engine = manifest.engine
    return RunPlan(
        workload=recipe.workload,
        repeat_mix=work.repeat_mix,
        load=work.load if schedule is None else Load(LoadKind.REPLAY, speed=recipe.speed),
        seed=work.seed,
        engines=(engine if engine.attach_url else replace(engine, port=None),),
        repeats=1,
        warmup_requests=manifest.warmup_requests,
        baseline=None,
        folder=out or Path("runs") / f"{stamp}-again-{safe_name(work.name)}",
        deadline_s=None,
        schedule=schedule,
        workers=None if manifest.client is None else manifest.client.workers,
        slos=manifest.slos,
        source=recipe.reading,
        names_load=schedule is not None or work.load.kind is not LoadKind.REPLAY,
    )


def _model_digest(manifest: RunManifest) -> str | None:
    """The sha256 of the weights that lie here; None of a server, or where there are none."""
    if manifest.engine.attach_url is not None:
        return None
    try:
        found = local_model(located(manifest.engine.model))
    except BatchmarkError:  # what is missing is told when the engine is checked
        return None
    return None if found is None else found.digest


def _compare(then: Path, now: Path) -> None:
    """Print the new run against the old one, or why the two cannot be compared."""
    runs = [read_reported(folder) for folder in (then, now) if folder.exists()]
    whole = [run for run in runs if run.folder.manifest.status is RunStatus.COMPLETE]
    if len(whole) != 2:
        console.print_line("no comparison: one of the two runs did not come to its end")
        return
    base, again = whole
    names = (f"{then.name} (then)", f"{now.name} (now)")
    try:
        table = compare_reported(names[0], [base], names[1], [again], paired=False)
    except NotComparable as error:
        console.print_line(f"no comparison: {error}")
        return
    console.print_comparison(table)
    console.print_cautions(table.cautions)
