"""PASS, FAIL or neither: what the runs of two sides say about the rules that were agreed before.

PASS: a regression of the margin was ruled out in every gated metric. FAIL: one is established in
at least one, after Holm's correction over all of them. INCONCLUSIVE: neither, which buys more pairs
once. INVALID: what there is cannot be judged. NOT_COMPARABLE: the sides are not alike.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.analyzer.summary import Summary, Validity
from harness.core.cautions import Caution, Code, caution
from harness.core.errors import NotComparable, UsageError
from harness.gate import formatting
from harness.gate.agreement import Agreement
from harness.gate.attempt import Attempt, cautions_of_runs
from harness.gate.baseline_store import failed_checks
from harness.gate.comparison import ComparisonTable, compare, context_of
from harness.gate.lengths import is_bound_to_length
from harness.gate.metric_decision import (
    Level,
    MetricDecision,
    fails_by_failures_alone,
    judge_metrics,
    without_like_work,
)
from harness.gate.other_work import agreement_cautions, has_other_lengths
from harness.gate.rules import GateRules
from harness.gate.verdict import Verdict

# History of a stored decision:
#   1  first version
SCHEMA_VERSION = 1
# So many pairs may be left out because a run of theirs is INVALID; more are no accident.
MOST_LEFT_OUT = 2
# When more pairs than these are needed, a second look would most likely not tell either.
MOST_PAIRS_WORTH_TRYING = 20
REQUESTS_FAIL = "runs of the candidate are INVALID: too many of their requests failed"
# The verdict of the whole is the first of these that a metric has.
WORST_FIRST = (
    Verdict.FAIL,
    Verdict.NOT_COMPARABLE,
    Verdict.INVALID,
    Verdict.INCONCLUSIVE,
    Verdict.PASS,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs on the same bytes, one after the other; `seed` is that of the schedule."""

    baseline: Summary
    candidate: Summary
    seed: int
    baseline_first: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """What the gate answers, and all that it rests on.

    `reasons` say why in words, `allowed` what may differ because the user says so. `baseline_from`
    is of when and of what a stored baseline is; empty for runs that were given. `runs` is how
    many of each side were judged, under the load that has fewest; `left_out` names those that were
    not. `needs_more_pairs`: a second look is planned, and worth it.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    metrics: tuple[MetricDecision, ...]
    cautions: tuple[Caution, ...]
    needs_more_pairs: bool
    baseline_name: str
    candidate_name: str
    context: str
    factors: tuple[str, ...]
    runs: int
    is_paired: bool
    rules: GateRules
    rules_digest: str
    left_out: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    baseline_from: str = ""
    schema_version: int = SCHEMA_VERSION

    @property
    def design(self) -> str:
        """How the runs were made, and how many, in words."""
        if self.is_paired:
            return f"{self.runs} pairs"
        return f"{self.runs} runs a side at least, unpaired, drift not controlled"


@dataclass(frozen=True, slots=True)
class Case:
    """All that is judged together: the loads, and what the two sides are called.

    `context` says on what they ran. `faults` say why there can be no verdict, and `left_out` names
    the runs that are in no load. `allowed` are keys in which the sides may differ.
    """

    rules: GateRules
    levels: tuple[Level, ...]
    names: tuple[str, str]
    context: str
    is_paired: bool
    faults: tuple[str, ...]
    left_out: tuple[str, ...]
    allowed: Collection[str]


def decide(
    pairs: Sequence[Pair],
    rules: GateRules,
    *,
    is_last_look: bool,
    allowed: Collection[str] = (),
    names: tuple[str, str] | None = None,
) -> Decision:
    """What `pairs` say. `allowed` are keys in which the sides may differ.

    `names` are what the sides are called; their engines' names by default. A pair with an INVALID
    run is left out, but for a candidate that is INVALID only because its requests failed: that is
    what a gate is for. Raises UsageError when there is no pair.
    """
    if not pairs:
        msg = "there is no pair to gate; measure some with `batchmark duel A B`"
        raise UsageError(msg)
    kept = [pair for pair in pairs if is_fit(pair.baseline) and is_fit_to_fail(pair.candidate)]
    under: dict[str, list[Pair]] = {}
    for pair in kept:
        under.setdefault(load_name(pair.baseline), []).append(pair)
    levels = tuple(
        Level(name, tuple(p.baseline for p in of), tuple(p.candidate for p in of), is_paired=True)
        for name, of in under.items()
    )
    lost = [pair for pair in pairs if pair not in kept]
    case = Case(
        rules=rules,
        levels=levels,
        names=names or names_of(pairs[0].baseline, pairs[0].candidate),
        context=context_of(pairs[0].candidate.manifest),
        is_paired=True,
        faults=faults_of(levels, len(lost), rules),
        left_out=named(run for pair in lost for run in (pair.baseline, pair.candidate)),
        allowed=allowed,
    )
    return _with_next_look(judge(case), is_last_look=is_last_look)


def load_name(run: Summary, allowed: Collection[str] = ()) -> str:
    """The load that `run` is judged under; one for all where the user lets it differ."""
    is_one = not {"workload", "load"}.isdisjoint(allowed)
    return "all loads" if is_one else run.manifest.workload.title


def names_of(baseline: Summary, candidate: Summary) -> tuple[str, str]:
    """What the two sides are called; an engine against itself needs more than its name."""
    base, cand = baseline.manifest.engine.name, candidate.manifest.engine.name
    return (base, cand) if base != cand else (f"{base} (baseline)", f"{cand} (candidate)")


def judge(case: Case) -> Decision:
    """The decision of `case`, whatever there is in it."""
    plain = Decision(
        verdict=Verdict.INVALID,
        reasons=case.faults,
        metrics=(),
        cautions=(),
        needs_more_pairs=False,
        baseline_name=case.names[0],
        candidate_name=case.names[1],
        context=case.context,
        factors=(),
        runs=min((len(side) for lv in case.levels for side in _sides(lv)), default=0),
        is_paired=case.is_paired,
        rules=case.rules,
        rules_digest=case.rules.digest,
        left_out=case.left_out,
    )
    try:
        tables = [_compared(case, level) for level in case.levels if all(_sides(level))]
    except NotComparable as error:
        return replace(plain, verdict=Verdict.NOT_COMPARABLE, reasons=(str(error),))
    runs = [run for level in case.levels for side in _sides(level) for run in side]
    doubts = dict.fromkeys(doubt for table in tables for doubt in table.cautions)
    plain = replace(
        plain,
        factors=tuple(dict.fromkeys(factor for table in tables for factor in table.factors)),
        allowed=tuple(dict.fromkeys(said for table in tables for said in table.allowed)),
        cautions=tuple(dict.fromkeys((*doubts, *_of_runs(runs)))),
    )
    if case.faults:
        return plain
    levels = [
        replace(level, is_same_length=_is_same_length(table))
        for level, table in zip(case.levels, tables, strict=True)
    ]
    return _with_metrics(plain, judge_metrics(levels, case.rules), levels)


def _with_metrics(
    plain: Decision, metrics: tuple[MetricDecision, ...], levels: Sequence[Level]
) -> Decision:
    """`plain` with its verdict: the worst of its metrics, whose words are its reasons."""
    verdict, reasons = _worst_of(metrics)
    has_failed = any(fails_by_failures_alone(run) for level in levels for run in level.candidate)
    if has_failed and verdict is not Verdict.FAIL:
        verdict = Verdict.INVALID
        reasons = [REQUESTS_FAIL]
    better = (
        caution(Code.BETTER_THAN_MARGIN, metric=m.title, candidate=plain.candidate_name)
        for m in metrics
        if m.evidence is not None and m.evidence.d < -math.log1p(m.margin or 0.0)
    )
    return replace(
        plain,
        verdict=verdict,
        reasons=tuple(reasons) or ("no metric could be gated",),
        metrics=metrics,
        cautions=(*dict.fromkeys(better), *plain.cautions),
    )


def _worst_of(metrics: Sequence[MetricDecision]) -> tuple[Verdict, list[str]]:
    found = {metric.verdict for metric in metrics}
    verdict = next((v for v in WORST_FIRST if v in found), Verdict.INVALID)
    return verdict, [
        f"{metric_name(m, metrics)}: {m.said}" for m in metrics if m.verdict is verdict
    ]


def with_answers(decision: Decision, found: Agreement) -> Decision:
    """`decision` after the answers of both sides were compared: what `found` makes doubtful.

    Where their lengths are of two distributions, there is no verdict on what follows from them.
    """
    names = (decision.baseline_name, decision.candidate_name)
    doubts = (*decision.cautions, *agreement_cautions(names, found, decision.metrics))
    decision = replace(decision, cautions=tuple(dict.fromkeys(doubts)))
    judged = (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE)
    if decision.verdict not in judged or not has_other_lengths(found):
        return decision
    metrics = tuple(
        without_like_work(m) if is_bound_to_length(m.metric) and m.verdict in judged else m
        for m in decision.metrics
    )
    verdict, reasons = _worst_of(metrics)
    still_open = decision.needs_more_pairs and verdict is Verdict.INCONCLUSIVE
    return replace(
        decision,
        metrics=metrics,
        verdict=verdict,
        reasons=tuple(reasons),
        needs_more_pairs=still_open,
    )


def metric_name(metric: MetricDecision, among: Sequence[MetricDecision]) -> str:
    """The metric in words, with its load where `among` has several."""
    has_levels = len({other.level for other in among}) > 1
    return f"{metric.title} at {metric.level}" if has_levels else metric.title


def _with_next_look(decision: Decision, *, is_last_look: bool) -> Decision:
    """`decision` with whether more pairs are worth measuring, and why not, if they are not."""
    if decision.verdict is not Verdict.INCONCLUSIVE or is_last_look:
        return decision
    for metric in decision.metrics:
        if metric.verdict is not Verdict.INCONCLUSIVE or metric.evidence is None:
            continue
        needed = metric.evidence.pairs_needed_90
        if needed is None or needed > MOST_PAIRS_WORTH_TRYING:
            said = (
                f"no second look: {metric.title} would need more than "
                f"{MOST_PAIRS_WORTH_TRYING} pairs at this noise; use longer runs or a wider margin"
            )
            return replace(decision, reasons=(*decision.reasons, said))
    return replace(decision, needs_more_pairs=True)


def faults_of(levels: Sequence[Level], lost: int, rules: GateRules) -> tuple[str, ...]:
    """Why runs cannot be judged: too many were left out, a side lacks a load, or has too few."""
    return tuple(_faults(levels, lost, rules.pairs[0]))


def _faults(levels: Sequence[Level], lost: int, needed: int) -> Iterator[str]:
    if lost > MOST_LEFT_OUT:
        yield f"{lost} pairs or runs are INVALID; {MOST_LEFT_OUT} may be left out"
    if not levels:
        yield f"no pair is left to judge; {needed} are needed"
    for level in levels:
        for side, runs in zip(("baseline", "candidate"), _sides(level), strict=True):
            if len(runs) < needed:
                what = "pairs" if level.is_paired else f"runs of the {side}"
                yield f"{level.name}: {len(runs)} {what} can be judged, {needed} are needed"
                break


def is_fit(run: Summary) -> bool:
    """True when `run` can be held against others."""
    return run.validity is not Validity.INVALID


def is_fit_to_fail(run: Summary) -> bool:
    """True when `run` can be judged as a candidate, if only to say that its requests failed."""
    return is_fit(run) or fails_by_failures_alone(run)


def named(runs: Iterable[Summary]) -> tuple[str, ...]:
    """Those of `runs` that are INVALID, each with why."""
    said = (f"{run.manifest.run_id}: {failed_checks(run)}" for run in runs if not is_fit(run))
    return tuple(map(formatting.one_line, said))


def _compared(case: Case, level: Level) -> ComparisonTable:
    base, cand = case.names
    return compare(
        base, level.baseline, cand, level.candidate, paired=level.is_paired, allowed=case.allowed
    )


def _is_same_length(table: ComparisonTable) -> bool:
    return Code.DIFFERENT_OUTPUT not in {doubt.code for doubt in table.cautions}


def _of_runs(runs: Sequence[Summary]) -> tuple[Caution, ...]:
    return cautions_of_runs(Attempt(run.manifest.run_id, summary=run) for run in runs)


def _sides(level: Level) -> tuple[tuple[Summary, ...], tuple[Summary, ...]]:
    return level.baseline, level.candidate
