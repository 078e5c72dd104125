"""`batchmark ablate`: what each step from static batching upwards is worth, on our own engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path

from engines.registry import policies
from harness import console
from harness.commands.engines import keep_preflight
from harness.commands.judging import attempt_of
from harness.commands.measuring import (
    Bench,
    Stopped,
    checked_engines,
    measure,
    open_work,
    repeating,
    turns,
)
from harness.core.ablation_plan import AblateFlags, Level, choose_levels, level_spec
from harness.core.clock import utc_now
from harness.core.engine_flags import KnownEngines
from harness.core.errors import ExitCode
from harness.core.flag import require_positive
from harness.core.jsonable import to_json
from harness.core.manifest import RunManifest
from harness.core.plan import plan_run
from harness.core.rundir import create_folder, write_json
from harness.gate.ablation import Ablation
from harness.gate.ablation_judging import (
    LevelAttempts,
    cautions_of,
    judge_levels,
    with_one_cut,
)
from harness.gate.ablation_remarks import sent_of, shares_prefixes
from harness.gate.ablation_table import not_counted
from harness.gate.attempt import Attempt
from harness.gate.comparison import context_of
from harness.loadgen.interruption import Interruption
from reports.filling import write_page
from reports.waterfall_page import render_ablation

ABLATION = "ablation.json"
PAGE = "ablation.html"


def ablate(
    flags: AblateFlags, command: tuple[str, ...], version: str, *, as_json: bool
) -> ExitCode:
    """Measure every level in turn, round by round, then say what each step is worth.

    With `as_json` the ablation alone goes to standard output, and all else to standard error.
    """
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        bench, levels = _plan(flags, command, version)
        interruption = Interruption()
        stopped = interruption.run(_measure_all(bench, interruption))
        ablation = _judge(bench, levels, stopped)
    if as_json:
        console.print_line(json.dumps(to_json(ablation), indent=2, allow_nan=False))
    if interruption.exit_code is not None:
        console.print_error(f"interrupted; what was measured is in {bench.plan.folder}")
        return interruption.exit_code
    if faulty := not_counted(ablation):
        console.print_error(f"INVALID: {faulty}; see why above")
        return ExitCode.INVALID
    return ExitCode.OK


def _plan(
    flags: AblateFlags, command: tuple[str, ...], version: str
) -> tuple[Bench, tuple[Level, ...]]:
    """What will be run, checked, said, and written down as far as it is known before a start."""
    require_positive("--rounds", flags.rounds)
    choose_levels(flags, shares_prefixes=False)
    known = KnownEngines(policies())
    plan, work = open_work(plan_run(flags.run_of_a_level, utc_now(), known), flags.run.workload)
    is_shared = shares_prefixes(work.workload(plan, repeat=0))
    levels = choose_levels(flags, shares_prefixes=is_shared)
    (base,) = plan.engines
    specs = tuple(level_spec(base, level) for level in levels)
    plan = replace(plan, engines=specs, baseline=levels[0].name)
    engines = checked_engines(plan)
    create_folder(plan.folder)
    console.print_plan(plan)
    keep_preflight(engines, plan.folder)
    return Bench(plan, work, command, version), levels


async def _measure_all(bench: Bench, interruption: Interruption) -> dict[Path, Stopped]:
    """Run every level in every round; returns why a run did not come to its end, by its folder.

    A level that fails takes no other one with it.
    """
    failed: dict[Path, Stopped] = {}
    for turn in turns(bench.plan):
        if interruption.exit_code is not None:
            break
        if (stopped := await measure(bench, turn)) is not None:
            failed[turn.folder] = stopped
    return failed


def _judge(bench: Bench, levels: Sequence[Level], failed: dict[Path, Stopped]) -> Ablation:
    """What was measured, in numbers; printed, and kept as JSON and as a page."""
    plan = bench.plan
    by_level: dict[str, list[Attempt]] = {level.name: [] for level in levels}
    for turn in turns(plan):
        by_level[turn.spec.name].append(attempt_of(turn, failed.get(turn.folder)))
    ladder = with_one_cut([LevelAttempts(level, tuple(by_level[level.name])) for level in levels])
    manifests = [_manifest(rung) for rung in ladder]
    known = [manifest for manifest in manifests if manifest is not None]
    best = next((m for m in known if m.facts.model is not None), next(iter(known), None))
    workload = bench.work.workload(plan, repeat=0)
    is_same = bench.work.is_locked
    ablation = Ablation(
        baseline=levels[0].name,
        context=plan.title if best is None else context_of(best),
        command=repeating(bench.command, plan.seed, is_locked=is_same),
        tool_version=bench.version,
        created_utc=utc_now().isoformat(timespec="seconds"),
        seeds=tuple(plan.seed if is_same else plan.seed + i for i in range(plan.repeats)),
        levels=judge_levels(ladder, sent_of(workload, plan.engines[-1])),
        cautions=cautions_of(ladder),
    )
    write_json(plan.folder / ABLATION, ablation)
    write_page(plan.folder / PAGE, render_ablation(ablation, known))
    console.print_ablation(ablation)
    console.print_line(f"report: {plan.folder / PAGE}")
    return ablation


def _manifest(rung: LevelAttempts) -> RunManifest | None:
    """That of a run of the level: of one that counts, if there is any."""
    folders = [(a.counted is not None, a.folder) for a in rung.attempts if a.folder is not None]
    chosen = max(folders, key=lambda pair: pair[0], default=None)
    return None if chosen is None else chosen[1].manifest
