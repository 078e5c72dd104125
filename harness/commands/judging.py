"""What several commands do with finished runs: read, compare, and simulate their twins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from engines.scheduling.policies import POLICY_NAMES, make_policy
from engines.scheduling.scheduler import Limits
from engines.simulator.cost_model import CostModel
from engines.simulator.simulate import SimulatedRequest, simulate
from harness.analyzer.columns import columns_of
from harness.analyzer.frame import frame_of
from harness.analyzer.reading import read_run
from harness.analyzer.steps import step_totals
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import StepTotals, Summary
from harness.core.clock import utc_now
from harness.core.rundir import SUMMARY, RunFolder, write_json
from harness.core.units import ms_to_ns
from harness.core.workload import LoadKind
from harness.gate.baseline import age_cautions, load_baseline
from harness.gate.comparison import ComparisonTable, compare
from reports.page import ReportedRun

_MOST_SIMULATED_TOKENS = 1_000_000  # some seconds


def read_reported(path: Path) -> ReportedRun:
    """The run folder at `path`, and its summary."""
    folder = read_run(path)
    return ReportedRun(folder, summarize(folder))


def keep_summary(run: ReportedRun) -> None:
    """Write the summary of `run` beside its records, for other programs to read."""
    write_json(run.folder.path / SUMMARY, run.summary)


def compare_all(
    runs: Sequence[ReportedRun], baseline: str | None, store: Path
) -> tuple[ComparisonTable, ...]:
    """Each engine of `runs` against `baseline`: the name of one of them, or of a saved baseline.

    Raises UsageError when there is no such baseline, NotComparable when a side is not like it.
    """
    if baseline is None:
        return ()
    groups: dict[str, list[Summary]] = {}
    for run in runs:
        groups.setdefault(run.summary.manifest.engine.name, []).append(run.summary)
    if baseline in groups:
        base = groups.pop(baseline)
        return tuple(compare(baseline, base, n, g, paired=True) for n, g in groups.items())
    return tuple(compare_saved(baseline, store, name, group) for name, group in groups.items())


def compare_saved(
    baseline: str, store: Path, name: str, candidate: Sequence[Summary]
) -> ComparisonTable:
    """`candidate` against the saved baseline `baseline`, with a caution when that is old."""
    saved = load_baseline(store, baseline)
    table = compare(baseline, [summarize(saved.read())], name, candidate, paired=False)
    return replace(table, cautions=(*table.cautions, *age_cautions(saved, utc_now())))


def simulated_twins(runs: Iterable[ReportedRun]) -> dict[str, StepTotals]:
    """What the simulator says of each run's work, by engine name, at the run's own mean costs.

    Only for engines with a policy that the scheduler knows and a step log, for loads whose arrivals
    do not depend on answers, and for work that is simulated within seconds. Slots, order and
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
    records = columns_of(folder.requests)
    names = ("due_ns", "index", "prompt_tokens_asked", "output_tokens_asked")
    columns = (records.numbers[name].tolist() for name in names)
    requests = sorted(zip(*columns, records.words["label"], strict=True))
    work = [SimulatedRequest(label, p, o, due) for due, _, p, o, label in requests]
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
