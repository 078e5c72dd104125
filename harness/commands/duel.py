"""`batchmark duel`: two engines in turn, pair by pair on the same bytes, until it can be told."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace

from engines.registry import policies
from harness import console
from harness.commands.engines import keep_preflight
from harness.commands.judging import attempt_of
from harness.commands.measuring import (
    Bench,
    Stopped,
    Turn,
    checked_engines,
    measure,
    open_work,
    repeating,
)
from harness.core.clock import utc_now
from harness.core.duel_plan import DuelFlags, parse_pairs, plan_duel
from harness.core.engine_flags import KnownEngines
from harness.core.engines_file import read_engines
from harness.core.errors import ExitCode, NotComparable
from harness.core.jsonable import to_json
from harness.core.plan import RunPlan
from harness.core.rundir import create_folder, write_json
from harness.gate.agreement_table import agreement_table
from harness.gate.allowance import allowed_keys, allowed_line
from harness.gate.attempt import Attempt
from harness.gate.cells import Tone
from harness.gate.comparability import DIGEST_SHOWN
from harness.gate.comparison import ComparisonTable
from harness.gate.decision import Decision, decide, with_answers
from harness.gate.decision_table import decision_table
from harness.gate.duel import (
    Duel,
    DuelSide,
    Place,
    in_vain,
    metrics_of,
    next_place,
)
from harness.gate.duel_judging import (
    PairRuns,
    cautions_of,
    compare_sides,
    counted_of,
    judged,
    manifests_of,
    sent_one_schedule,
    with_one_cut,
)
from harness.gate.duel_table import (
    READING,
    claims,
    duel_table,
    pair_table,
    title_of,
    verdict_of,
)
from harness.gate.preflight import Preflight, preflight
from harness.gate.rules import FEWEST_PAIRS, GateRules, read_rules
from harness.gate.verdict import exit_code
from harness.loadgen.interruption import Interruption
from reports.duel_page import render_duel
from reports.filling import write_page

DUEL = "duel.json"
PAGE = "duel.html"


@dataclass(slots=True)
class Match:
    """A duel on its way: what is fixed, and what came of it so far."""

    bench: Bench
    sides: tuple[DuelSide, DuelSide]
    rules: GateRules
    allowed: tuple[str, ...]
    before: Preflight
    pairs: list[PairRuns] = field(default_factory=list)
    table: ComparisonTable | None = None
    decision: Decision | None = None
    stopped: Stopped | None = None


def duel(flags: DuelFlags, command: tuple[str, ...], version: str, *, as_json: bool) -> ExitCode:
    """Run the two sides in turn, as many pairs as it takes, and answer with the gate's verdict.

    With `as_json` the duel alone goes to standard output, and all else to standard error.
    """
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        match = _open(flags, command, version)
        interruption = Interruption()
        interruption.run(_fight(match, interruption))
        found = _keep(match)
        folder = match.bench.plan.folder
        manifests = manifests_of(match.pairs)
        write_page(folder / PAGE, render_duel(found, manifests))
        _print(found)
        console.print_line(f"report: {folder / PAGE}")
    if as_json:
        console.print_line(json.dumps(to_json(found), indent=2, allow_nan=False))
    if interruption.exit_code is not None:
        console.print_error(f"interrupted; what was measured is in {folder}")
        return interruption.exit_code
    if match.stopped is not None:
        console.print_error(match.stopped.reason)
        return match.stopped.exit_code
    return ExitCode.INCONCLUSIVE if match.decision is None else exit_code(match.decision.verdict)


def _open(flags: DuelFlags, command: tuple[str, ...], version: str) -> Match:
    """What will be run, checked, said, and written down as far as it is known before a start."""
    rules = read_rules(flags.rules)
    if flags.pairs is not None:
        rules = replace(rules, pairs=parse_pairs(flags.pairs))
    allowed = allowed_keys(flags.allowed)
    known = KnownEngines(policies(), read_engines(flags.run.engines.file))
    plan, work = open_work(plan_duel(flags, utc_now(), known), flags.run.workload)
    engines = checked_engines(plan)
    create_folder(plan.folder)
    sides = _sides(plan)
    pairs = ", then ".join(f"{look} pairs" for look in rules.pairs)
    console.print_line(f"{sides[1].name} against the baseline {sides[0].name}: {pairs}")
    console.print_line(f"{plan.title}, seed {plan.seed}")
    console.print_line(f"folder: {plan.folder}")
    keep_preflight(engines, plan.folder)
    before = preflight(engines)
    console.print_preflight(before)
    return Match(Bench(plan, work, command, version), sides, rules, allowed, before)


def _sides(plan: RunPlan) -> tuple[DuelSide, DuelSide]:
    """The two sides; an engine against itself needs more than its name."""
    baseline, candidate = plan.engines
    is_itself = baseline.name == candidate.name
    marks = (" (baseline)", " (candidate)") if is_itself else ("", "")
    return (
        DuelSide(baseline.name + marks[0], baseline),
        DuelSide(candidate.name + marks[1], candidate),
    )


async def _fight(match: Match, interruption: Interruption) -> None:
    """Run pairs until a look decides, the last one is over, or the duel cannot go on."""
    looks = match.rules.pairs
    for look, wanted in enumerate(looks, 1):
        while (place := next_place([pair.stored for pair in match.pairs], wanted)) is not None:
            await _run_pair(match, place)
            _keep(match)
            if match.stopped is not None or interruption.exit_code is not None:
                return
        counted = counted_of(match.pairs)
        if len(counted) < wanted:
            vain = in_vain([pair.stored for pair in match.pairs])
            why = f"INVALID: {vain} pairs had a run that does not count; see why above"
            match.stopped = Stopped(why)
            return
        if wanted < FEWEST_PAIRS:
            continue
        found = decide(counted, match.rules, is_last_look=look == len(looks), allowed=match.allowed)
        agreed = None if match.table is None else match.table.agreement
        match.decision = found if agreed is None else with_answers(found, agreed)
        if not match.decision.needs_more_pairs:
            return


async def _run_pair(match: Match, place: Place) -> None:
    """Run both sides of a pair; the second one only when the first one counts."""
    bench, plan = match.bench, match.bench.plan
    again = f"-again-{place.attempt - 1}" if place.attempt > 1 else ""
    turns = [
        Turn(
            place.number - 1,
            side.engine,
            plan.folder / f"pair-{place.number}{again}-{letter}-{side.engine.name}",
        )
        for letter, side in zip("AB", match.sides, strict=True)
    ]
    runs = {turn.folder: Attempt(turn.folder.name) for turn in turns}
    for turn in turns if place.baseline_first else reversed(turns):
        match.stopped = await measure(bench, turn)
        run = runs[turn.folder] = attempt_of(turn, match.stopped)
        if (run.counted if turn is turns[0] else judged(run)) is None:
            break  # its pair is made again, or the duel is over
    seed = plan.seed + (0 if bench.work.is_locked else place.number - 1)
    made = PairRuns(place, seed, *runs.values())
    match.pairs = with_one_cut([*match.pairs, made])
    if len(made.digests) > 1:
        sent = " and ".join(digest[:DIGEST_SHOWN] for digest in sorted(made.digests))
        why = f"INVALID: the runs of pair {place.number} were not sent the same bytes ({sent})"
        match.stopped = Stopped(f"{why}; lock them with `batchmark workload lock`")
        return
    try:
        match.table = compare_sides(match.sides, match.pairs, match.allowed)
    except NotComparable as error:
        match.table = None
        match.stopped = Stopped(str(error), error.exit_code)


def _keep(match: Match) -> Duel:
    """What is known now, written to the folder, whole."""
    bench, plan, table = match.bench, match.bench.plan, match.table
    is_same = sent_one_schedule(match.pairs)
    doubts = cautions_of(match.pairs, table, match.decision, is_locked=is_same)
    found = Duel(
        baseline=match.sides[0],
        candidate=match.sides[1],
        context=plan.title if table is None else table.context,
        factors=() if table is None else table.factors,
        allowed=() if table is None else table.allowed,
        command=repeating(bench.command, plan.seed, is_locked=bench.work.is_locked),
        tool_version=bench.version,
        created_utc=utc_now().isoformat(timespec="seconds"),
        looks=match.rules.pairs,
        pairs=tuple(pair.stored for pair in match.pairs),
        metrics=()
        if table is None
        else metrics_of(counted_of(match.pairs), is_like_work=table.is_like_work),
        decision=match.decision,
        stopped=None if match.stopped is None else match.stopped.reason,
        agreement=None if table is None else table.agreement,
        cautions=tuple(dict.fromkeys((*match.before.cautions, *doubts))),
    )
    write_json(plan.folder / DUEL, found)
    return found


def _print(found: Duel) -> None:
    """What may differ by leave first; then the pairs, the metrics, and what the gate says."""
    if said := allowed_line(found.allowed):
        console.print_line(said, tone=Tone.BAD)
    console.print_line(title_of(found))
    if found.factors:
        console.print_line(f"what differs on purpose: {', '.join(found.factors)}")
    console.draw(pair_table(found))
    console.draw(replace(duel_table(found), title=""))
    console.draw(agreement_table([found]))
    if found.decision is not None:
        console.draw(replace(decision_table(found.decision), title="What the gate says"))
    console.print_line(READING)
    console.print_cautions(found.cautions)
    for ratio, of_what, certainty in claims(found):
        console.print_line(f"{ratio} {of_what}; {certainty}", tone=Tone.STRONG)
    verdict, why, tone = verdict_of(found)
    console.print_line(f"{verdict}: {why}", tone=tone)
