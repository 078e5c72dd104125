"""What several commands do with finished runs: read, compare, and simulate their twins."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from engines.scheduling.policies import POLICY_NAMES, make_policy
from engines.scheduling.scheduler import Limits
from engines.simulator.cost_model import CostModel
from engines.simulator.simulate import SimulatedRequest, simulate
from harness.analyzer.columns import MISSING, RecordColumns, columns_of
from harness.analyzer.experiment import summarize_alike
from harness.analyzer.frame import frame_of
from harness.analyzer.reading import read_run
from harness.analyzer.steps import step_totals
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import StepTotals
from harness.commands.measuring import Stopped, Turn
from harness.core.clock import utc_now
from harness.core.errors import UsageError
from harness.core.rundir import SUMMARY, RunFolder, write_json
from harness.core.slo import Slo
from harness.core.units import ms_to_ns
from harness.core.workload import After, LoadKind
from harness.gate.attempt import Attempt
from harness.gate.baseline import (
    Baseline,
    age_cautions,
    load_baseline,
    names_in,
    retirement,
)
from harness.gate.comparison import ComparisonTable, compare, with_agreement
from reports.page import ReportedRun
from reports.published import find_claim

_MOST_SIMULATED_TOKENS = 1_000_000  # some seconds


def read_reported(path: Path, slos: tuple[Slo, ...] = ()) -> ReportedRun:
    """The run folder at `path`, and its summary; judged by `slos` where there are any."""
    folder = judged_by(read_run(path), slos)
    return ReportedRun(folder, summarize(folder))


def judged_by(folder: RunFolder, slos: tuple[Slo, ...]) -> RunFolder:
    """`folder` as if it had been measured with these limits; as it is when there are none."""
    return replace(folder, manifest=replace(folder.manifest, slos=slos)) if slos else folder


def cut_alike(runs: Sequence[ReportedRun]) -> list[ReportedRun]:
    """`runs`, which are held against each other, with the same beginning left out of each."""
    folders, numbers = [run.folder for run in runs], [run.summary for run in runs]
    return list(map(ReportedRun, folders, summarize_alike(folders, numbers)))


def keep_summary(run: ReportedRun) -> None:
    """Write the summary of `run` beside its records, for other programs to read."""
    write_json(run.folder.path / SUMMARY, run.summary)


def attempt_of(turn: Turn, stopped: Stopped | None) -> Attempt:
    """What the run of `turn` left behind, its summary kept with it; `stopped` is how it failed."""
    why = None if stopped is None else stopped.reason.removeprefix(f"{turn.folder.name}: ")
    if not turn.folder.exists():
        return Attempt(turn.folder.name, failure=why)
    run = read_reported(turn.folder)
    keep_summary(run)
    return Attempt(turn.folder.name, run.folder, run.summary, why)


def compare_all(
    runs: Sequence[ReportedRun], baseline: str | None, store: Path, allowed: Collection[str] = ()
) -> tuple[ComparisonTable, ...]:
    """Each engine of `runs` against `baseline`: the name of one of them, or of a saved baseline.

    All of `runs` are cut alike. `allowed` are keys that may differ. Raises UsageError when there is
    no such baseline, NotComparable when a side is not like it.
    """
    if baseline is None:
        return ()
    groups: dict[str, list[ReportedRun]] = {}
    for run in cut_alike(runs):
        groups.setdefault(run.summary.manifest.engine.name, []).append(run)
    if baseline in groups:
        base = groups.pop(baseline)
        return tuple(
            compare_reported(baseline, base, name, group, paired=True, allowed=allowed)
            for name, group in groups.items()
        )
    saved = open_baseline(store, baseline, allowed)
    return tuple(compare_saved(saved, name, group, allowed) for name, group in groups.items())


def compare_reported(
    baseline_name: str,
    baseline: Sequence[ReportedRun],
    candidate_name: str,
    candidate: Sequence[ReportedRun],
    *,
    paired: bool,
    allowed: Collection[str] = (),
) -> ComparisonTable:
    """The runs `candidate` against the runs `baseline`, as `compare`; their answers too.

    All of them are cut alike.
    """
    numbers = [run.summary for run in cut_alike([*baseline, *candidate])]
    base, cand = numbers[: len(baseline)], numbers[len(baseline) :]
    table = compare(baseline_name, base, candidate_name, cand, paired=paired, allowed=allowed)
    folders = ([run.folder for run in side] for side in (baseline, candidate))
    return with_agreement(table, *folders)


def open_baseline(store: Path, name: str, allowed: Collection[str] = ()) -> Baseline:
    """The saved baseline `name`. Raises UsageError where `name` is what somebody else published."""
    claim = None if name in names_in(store) else find_claim(name)
    if claim is not None:
        msg = (
            f"{name!r} is a published claim about {claim.model} on {claim.hardware}, not a run: "
            f"it cannot be compared with; read it with `batchmark baseline show {name}`"
        )
        raise UsageError(msg)
    return load_baseline(store, name, allowed)


def compare_saved(
    saved: Baseline, name: str, candidate: Sequence[ReportedRun], allowed: Collection[str] = ()
) -> ComparisonTable:
    """`candidate` against a saved baseline, with a caution when that is old.

    The baseline is judged by the limits of the candidate, where that has any.
    """
    folders = (judged_by(f, candidate[0].folder.manifest.slos) for f in saved.read())
    base = [ReportedRun(folder, summarize(folder)) for folder in folders]
    table = compare_reported(saved.name, base, name, candidate, paired=False, allowed=allowed)
    cautions = (*table.cautions, *age_cautions(saved, utc_now()))
    return replace(table, allowed=(*table.allowed, *retirement(saved, allowed)), cautions=cautions)


def simulated_twins(runs: Iterable[ReportedRun]) -> dict[str, StepTotals]:
    """What the simulator says of each run's work, by engine name, at the run's own mean costs.

    Only for engines with a policy that the scheduler knows and a step log, for open loops, and for
    work that is simulated within seconds. Slots, order and
    lengths decide the shares; the costs, which are the run's mean decode step and mean time per
    prompt token, only place them in time.
    """
    twins: dict[str, StepTotals] = {}
    for run in runs:
        manifest, totals = run.summary.manifest, run.summary.steps
        is_known = manifest.engine.policy in POLICY_NAMES
        is_closed = manifest.workload.load.kind is LoadKind.CLOSED
        is_long = manifest.workload.output_tokens > _MOST_SIMULATED_TOKENS
        if not is_known or totals is None or is_closed or is_long:
            continue
        twin = _simulated(run.folder, totals)
        if twin is not None:
            twins[manifest.engine.name] = twin
    return twins


def _simulated(folder: RunFolder, totals: StepTotals) -> StepTotals | None:
    spec = folder.manifest.engine
    work = _work_of(columns_of(folder.requests))
    window_ns = None if spec.batch_window_ms is None else ms_to_ns(spec.batch_window_ms)
    policy = make_policy(spec.policy or "", window_ns)
    blocks = sum(-(-(r.prompt_tokens + r.output_tokens) // 16) for r in work)
    limits = Limits(spec.slots, kv_blocks=max(blocks, 1), pad_prompts=spec.pad_prompts)
    prompt_tokens = totals.prefill_tokens + totals.prefill_padding_tokens
    cost = CostModel(
        step_fixed_ns=max(round(totals.decode_s / totals.steps * 1e9), 1),
        prefill_token_ns=round(totals.prefill_s / prompt_tokens * 1e9) if prompt_tokens else 0,
    )
    simulation = simulate(work, policy, limits, cost)
    virtual = replace(folder.manifest, clock="virtual", start_ns=0)
    twin = RunFolder(folder.path, virtual, (), simulation.steps, ())
    return step_totals(frame_of(twin).steps)


def _work_of(records: RecordColumns) -> list[SimulatedRequest]:
    """What was sent, in order; a later turn waits as long for the one before as it did."""
    names = ("due_ns", "index", "prompt_tokens_asked", "output_tokens_asked", "after")
    columns = (records.numbers[name].tolist() for name in names)
    rows = sorted(zip(*columns, records.words["label"], strict=True))
    places = {index: place for place, (_, index, *_) in enumerate(rows)}
    index, closed_ns = (records.numbers[name].tolist() for name in ("index", "closed_ns"))
    ended_ns = dict(zip(index, closed_ns, strict=True))
    work = []
    for due_ns, _, prompt_tokens, output_tokens, waited, label in rows:
        request = SimulatedRequest(label, prompt_tokens, output_tokens, due_ns)
        if ended_ns.get(waited, MISSING) != MISSING:
            after = After(places[waited], max(due_ns - ended_ns[waited], 0))
            request = replace(request, due_ns=0, after=after)
        work.append(request)
    return work
