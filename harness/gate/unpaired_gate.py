"""The gate on runs that were not made side by side: the weaker claim, and it says so.

Against a stored baseline, whose engine was not run again, a FAIL may be the machine's, which is
another one than on the day of the baseline. It counts only where fresh runs of the baseline's
engine agree with the stored ones.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from statistics import fmean

from harness.analyzer.summary import Summary
from harness.core.errors import UsageError
from harness.gate import formatting
from harness.gate.comparison import compare, context_of
from harness.gate.decision import (
    REQUESTS_FAIL,
    Case,
    Decision,
    faults_of,
    is_fit,
    is_fit_to_fail,
    judge,
    load_name,
    metric_name,
    named,
    names_of,
)
from harness.gate.metric_decision import REGRESSION, Level, MetricDecision
from harness.gate.rules import FAILURES, GateRules
from harness.gate.verdict import Verdict

RERUNS = 3


def decide_unpaired(
    baseline: Sequence[Summary],
    candidate: Sequence[Summary],
    rules: GateRules,
    *,
    allowed: Collection[str] = (),
    names: tuple[str, str] | None = None,
) -> Decision:
    """What runs say that are no pairs: Welch's t on as many runs a side as a look wants pairs.

    `allowed` and `names` are as in `decide`. Raises UsageError when a side has no run.
    """
    if not baseline or not candidate:
        empty = "candidate" if baseline else "baseline"
        msg = f"the {empty} has no run, so there is nothing to gate; name run folders of both sides"
        raise UsageError(msg)
    base = [run for run in baseline if is_fit(run)]
    cand = [run for run in candidate if is_fit_to_fail(run)]
    loads = dict.fromkeys(load_name(run, allowed) for run in (*baseline, *candidate))
    levels = tuple(
        Level(load, _under(load, base, allowed), _under(load, cand, allowed), is_paired=False)
        for load in loads
    )
    lost = max(len(baseline) - len(base), len(candidate) - len(cand))
    case = Case(
        rules=rules,
        levels=levels,
        names=names or names_of(baseline[0], candidate[0]),
        context=context_of(candidate[0].manifest),
        is_paired=False,
        faults=faults_of(levels, lost, rules),
        left_out=named((*baseline, *(run for run in candidate if not is_fit_to_fail(run)))),
        allowed=allowed,
    )
    return judge(case)


def decide_stored(
    stored: Sequence[Summary],
    candidate: Sequence[Summary],
    reruns: Sequence[Summary],
    rules: GateRules,
    *,
    allowed: Collection[str] = (),
    names: tuple[str, str] | None = None,
) -> Decision:
    """As `decide_unpaired`, with a FAIL only where 3 `reruns` of the baseline agree with it.

    They agree when their geometric mean lies within half the margin of the stored runs', and for
    the failure rate when none of their requests failed. Raises UsageError when a side has no run or
    a rerun is INVALID, and NotComparable when the reruns are not alike to the stored runs.
    """
    decision = decide_unpaired(stored, candidate, rules, allowed=allowed, names=names)
    if unfit := named(reruns):
        raise UsageError(f"a rerun of the baseline is INVALID: {unfit[0]}; repeat it")
    if reruns:
        name = decision.baseline_name
        compare(name, stored, f"{name} again", reruns, paired=False, allowed=allowed)
    if decision.verdict is not Verdict.FAIL:
        return decision
    metrics = tuple(
        _confirmed(
            metric, _under(metric.level, stored, allowed), _under(metric.level, reruns, allowed)
        )
        if metric.verdict is Verdict.FAIL
        else metric
        for metric in decision.metrics
    )
    has_failed = any(metric.verdict is Verdict.FAIL for metric in metrics)
    verdict = Verdict.FAIL if has_failed else Verdict.INCONCLUSIVE
    if not has_failed and not all(is_fit(run) or not is_fit_to_fail(run) for run in candidate):
        return replace(decision, verdict=Verdict.INVALID, metrics=metrics, reasons=(REQUESTS_FAIL,))
    reasons = tuple(f"{metric_name(m, metrics)}: {m.said}" for m in metrics if m.verdict is verdict)
    return replace(decision, verdict=verdict, metrics=metrics, reasons=reasons)


def _under(load: str, runs: Sequence[Summary], allowed: Collection[str]) -> tuple[Summary, ...]:
    return tuple(run for run in runs if load_name(run, allowed) == load)


def _confirmed(
    metric: MetricDecision, stored: Sequence[Summary], reruns: Sequence[Summary]
) -> MetricDecision:
    """The failed `metric`, which is INCONCLUSIVE unless the reruns agree with the stored runs."""
    if len(reruns) < RERUNS:
        how = f"{RERUNS} fresh runs of the baseline would say whether it is the machine"
    elif _agree(metric, stored, reruns):
        return replace(metric, said=f"{metric.said}; {len(reruns)} reruns of the baseline agree")
    else:
        how = "fresh runs of the baseline are not like the stored ones: measure both in a duel"
    above = "" if metric.margin is None else f" above {formatting.share(metric.margin)}"
    said = f"a regression{above} is likely, but the baseline is stored; {how}"
    return replace(metric, verdict=Verdict.INCONCLUSIVE, said=said, leaning=REGRESSION)


def _agree(metric: MetricDecision, stored: Sequence[Summary], reruns: Sequence[Summary]) -> bool:
    if metric.metric == FAILURES:
        return not any(run.manifest.counts.failed for run in reruns)
    before, after = ([run.value(metric.metric) for run in side] for side in (stored, reruns))
    known = [value for value in (*before, *after) if value is not None and 0 < value < math.inf]
    if len(known) < len(before) + len(after):
        return False
    logs = [math.log(value) for value in known]
    change = fmean(logs[len(before) :]) - fmean(logs[: len(before)])
    return abs(change) <= math.log1p(metric.margin or 0.0) / 2
