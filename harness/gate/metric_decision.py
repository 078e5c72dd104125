"""One gated metric under one load: is a regression ruled out, established, or neither?

Nothing is skipped. A value that is missing, 0 or infinite on either side never passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean, variance

from scipy import special

from harness.analyzer.estimators import floor_n
from harness.analyzer.intervals import (
    Noninferiority,
    noninferiority,
    pairs_needed,
    resolvable_margin,
)
from harness.analyzer.metric import Better
from harness.analyzer.metrics import find_metric
from harness.analyzer.significance import fisher, holm, sign_flip
from harness.analyzer.summary import CheckVerdict, MetricValue, Summary
from harness.gate import formatting
from harness.gate.lengths import UNLIKE_WORK, is_bound_to_length
from harness.gate.rules import FAILURES, GateRules, MetricRule
from harness.gate.verdict import Verdict

REGRESSION, FINE, NOISY = "likely regression", "likely fine", "too noisy"


@dataclass(frozen=True, slots=True)
class Level:
    """The runs of both sides under one load, which is its name.

    `is_paired`: run i of one side was made side by side with run i of the other.
    `is_same_length`: both sides answered with as many tokens, but for the tolerance.
    """

    name: str
    baseline: tuple[Summary, ...]
    candidate: tuple[Summary, ...]
    is_paired: bool
    is_same_length: bool = True


@dataclass(frozen=True, slots=True)
class MetricDecision:
    """One metric under one load. `said` is the verdict in words; a `verdict` of None: not gated.

    `baseline` and `candidate` are geometric means over the runs, and rates of all requests for the
    failure rate. `evidence` is in logarithms, positive worse, at the error rate of one look.
    `p_fail_holm` is `p_fail` corrected for all metrics that could have failed. `sign_flip_p` is a
    second opinion on "worse at all", which no verdict uses. `is_small`: the difference is surely
    below `min_abs`. `leaning` is which way an INCONCLUSIVE metric points.
    """

    metric: str
    level: str
    verdict: Verdict | None
    said: str = ""
    margin: float | None = None
    min_abs: float | None = None
    baseline: float | None = None
    candidate: float | None = None
    evidence: Noninferiority | None = None
    p_fail: float | None = None
    p_fail_holm: float | None = None
    sign_flip_p: float | None = None
    is_small: bool = False
    leaning: str | None = None

    @property
    def title(self) -> str:
        """The metric in the words used beside a ratio."""
        return find_metric(self.metric).title

    @property
    def is_clear(self) -> bool:
        """True when the interval does not hold "no difference"."""
        return self.evidence is not None and not self.evidence.lo <= 0 <= self.evidence.hi

    @property
    def is_unclear(self) -> bool:
        """True when the interval holds it."""
        return self.evidence is not None and not self.is_clear


def judge_metrics(levels: Sequence[Level], rules: GateRules) -> tuple[MetricDecision, ...]:
    """Every rule under every load. FAIL takes Holm's correction over all of them together."""
    alpha = rules.alpha_per_look
    weighed = [_weigh(rule, level, alpha) for level in levels for rule in rules.metrics]
    tested = [d.p_fail for d in weighed if d.p_fail is not None]
    corrected = iter(holm(tested))
    return tuple(d if d.p_fail is None else _settle(d, next(corrected), alpha) for d in weighed)


def _settle(decision: MetricDecision, p_fail_holm: float, alpha: float) -> MetricDecision:
    """`decision` as FAIL, if that is established among all metrics; in words."""
    is_fail = p_fail_holm < alpha and not decision.is_small
    verdict = Verdict.FAIL if is_fail else decision.verdict
    leaning = _leaning(decision.evidence) if verdict is Verdict.INCONCLUSIVE else None
    settled = replace(decision, verdict=verdict, p_fail_holm=p_fail_holm, leaning=leaning)
    return replace(settled, said=_said(settled))


def _leaning(evidence: Noninferiority | None) -> str | None:
    if evidence is None:
        return None
    if evidence.lo > 0:
        return REGRESSION
    return FINE if evidence.d < 0 else NOISY


def _said(decision: MetricDecision) -> str:
    margin, evidence = formatting.share(decision.margin), decision.evidence
    if evidence is None:
        more = "does" if decision.verdict is Verdict.FAIL else "does not"
        return f"the candidate {more} fail more requests than chance explains"
    if decision.is_small:
        unit = find_metric(decision.metric).unit
        return f"it is worse by less than {formatting.quantity(decision.min_abs, unit)}"
    if decision.verdict is Verdict.PASS:
        return f"a regression of {margin} or more was ruled out"
    if decision.verdict is Verdict.FAIL:
        return f"a regression above {margin} is established"
    needed = evidence.pairs_needed_90
    pairs = "more than 1,000" if needed is None else f"about {needed}"
    return f"cannot tell; would need {pairs} pairs ({decision.leaning})"


def _weigh(rule: MetricRule, level: Level, alpha: float) -> MetricDecision:
    """The evidence, and what it says without a look at the other metrics."""
    plain = MetricDecision(
        rule.metric, level.name, Verdict.INVALID, margin=rule.margin, min_abs=rule.min_abs
    )
    sides = [
        [_reading(run, rule.metric) for run in side] for side in (level.baseline, level.candidate)
    ]
    readings = list(chain(*sides))
    if any(reading.value is None for reading in readings):
        is_nowhere = all(reading.value is None for reading in readings)
        is_short = any(
            _is_cut_short(run, rule.metric) for run in (*level.baseline, *level.candidate)
        )
        said = _missing(sides)
        if rule.optional and (is_nowhere or is_short):
            return replace(plain, verdict=None, said=f"not gated: {said}")
        return replace(plain, said=said)
    base, cand = ([r.value for r in side if r.value is not None] for side in sides)
    if rule.metric == FAILURES:
        return _weigh_failures(plain, level)
    is_sound = all(0 < value < math.inf for value in (*base, *cand))
    if is_bound_to_length(rule.metric) and not level.is_same_length:
        means = [
            math.exp(fmean(map(math.log, side))) if is_sound else None for side in (base, cand)
        ]
        return without_like_work(replace(plain, baseline=means[0], candidate=means[1]))
    if not is_sound:
        return _without_ratio(plain, base, cand)
    return _weigh_ratio(plain, (base, cand), is_paired=level.is_paired, alpha=alpha)


def without_like_work(metric: MetricDecision) -> MetricDecision:
    """`metric`, which follows the length of answers, of two sides whose answers are not alike."""
    return MetricDecision(
        metric.metric,
        metric.level,
        Verdict.NOT_COMPARABLE,
        UNLIKE_WORK,
        margin=metric.margin,
        min_abs=metric.min_abs,
        baseline=metric.baseline,
        candidate=metric.candidate,
    )


def _is_cut_short(run: Summary, metric: str) -> bool:
    """True when the shared cut, which no side chose, leaves too few requests for a percentile."""
    percent = metric.rpartition("_p")[2]
    left = run.manifest.counts.sent - run.left_out
    return run.left_out > 0 and percent.isdigit() and left < floor_n(int(percent))


def _reading(run: Summary, metric: str) -> MetricValue:
    """`metric` of `run`, +inf where so many requests failed that it has none."""
    found = next((value for value in run.values if value.metric == metric), None)
    if found is None:
        return MetricValue(metric, None, "the run was summarised without this metric")
    if found.value is None and fails_by_failures_alone(run):
        return replace(found, value=math.inf)
    if found.value is not None and math.isnan(found.value):
        return MetricValue(metric, None, "its value is not a number")
    return found


def fails_by_failures_alone(run: Summary) -> bool:
    """True when `run` is INVALID, and only because too many of its requests failed."""
    return [c.id for c in run.checks if c.verdict is CheckVerdict.INVALID] == ["V15"]


def _missing(sides: Sequence[Sequence[MetricValue]]) -> str:
    said = []
    for name, side in zip(("baseline", "candidate"), sides, strict=True):
        reasons = [r.reason or "not measured" for r in side if r.value is None]
        if reasons:
            said.append(f"{name}: {reasons[0]} (in {len(reasons)} of {len(side)} runs)")
    return "; ".join(said)


def _without_ratio(
    plain: MetricDecision, base: Sequence[float], cand: Sequence[float]
) -> MetricDecision:
    """FAIL when failures left the candidate, and only it, no throughput or no finite latency."""
    worst = 0.0 if find_metric(plain.metric).better is Better.HIGHER else math.inf
    is_base_sound = all(0 < value < math.inf for value in base)
    if is_base_sound and worst in cand:
        said = f"{cand.count(worst)} of {len(cand)} candidate runs failed: {worst:g}"
        return replace(plain, verdict=Verdict.FAIL, said=said)
    at = "candidate" if is_base_sound else "baseline"
    return replace(plain, said=f"a value of the {at} is 0 or infinite, so there is no ratio")


def _weigh_failures(plain: MetricDecision, level: Level) -> MetricDecision:
    """PASS unless the candidate fails more requests, which Fisher's exact test finds out."""
    base, cand = (
        (
            sum(run.manifest.counts.failed for run in side),
            sum(run.manifest.counts.sent for run in side),
        )
        for side in (level.baseline, level.candidate)
    )
    if not base[1] or not cand[1]:
        return replace(plain, said="no request was sent")
    return replace(
        plain,
        verdict=Verdict.PASS,
        baseline=base[0] / base[1],
        candidate=cand[0] / cand[1],
        p_fail=fisher(base, cand),
    )


def _weigh_ratio(
    plain: MetricDecision,
    sides: tuple[Sequence[float], Sequence[float]],
    *,
    is_paired: bool,
    alpha: float,
) -> MetricDecision:
    margin = plain.margin or 0.0
    is_higher_better = find_metric(plain.metric).better is Better.HIGHER
    base, cand = ([math.log(value) for value in side] for side in sides)
    before, after = (cand, base) if is_higher_better else (base, cand)  # so that positive is worse
    if is_paired:
        diffs = [a - b for b, a in zip(before, after, strict=True)]
        found, flipped = noninferiority(diffs, margin, alpha), sign_flip(diffs)
    else:
        found, flipped = welch_noninferiority(before, after, margin, alpha), None
    baseline, candidate = math.exp(fmean(base)), math.exp(fmean(cand))
    growth = -math.expm1(-found.hi) if is_higher_better else math.expm1(min(found.hi, 700.0))
    is_small = plain.min_abs is not None and baseline * growth < plain.min_abs
    is_pass = found.p_noninf < alpha or is_small
    return replace(
        plain,
        verdict=Verdict.PASS if is_pass else Verdict.INCONCLUSIVE,
        baseline=baseline,
        candidate=candidate,
        evidence=found,
        p_fail=found.p_fail,
        sign_flip_p=flipped,
        is_small=is_small and found.p_noninf >= alpha,
    )


def welch_noninferiority(
    before: Sequence[float], after: Sequence[float], margin: float, alpha: float
) -> Noninferiority:
    """What logarithms that were not measured in pairs say about `margin`: Welch's t.

    `sd` is that of the difference of a run of each side, so that as many pairs would be as noisy.
    Raises ValueError for fewer than 2 values on a side.
    """
    parts = [variance(side) / len(side) for side in (before, after)]
    error = math.sqrt(sum(parts))
    spread = sum(p**2 / (len(s) - 1) for p, s in zip(parts, (before, after), strict=True))
    freedom = sum(parts) ** 2 / spread if spread > 0 else 1.0
    d = fmean(after) - fmean(before)
    t = (d - math.log1p(margin)) / error if error > 0 else None
    beyond = math.copysign(math.inf, d - math.log1p(margin)) if t is None else t
    half = float(special.stdtrit(freedom, 1 - alpha)) * error
    fewest, sd = min(len(before), len(after)), math.sqrt(variance(before) + variance(after))
    return Noninferiority(
        d=d,
        sd=sd,
        t=t,
        p_noninf=float(special.stdtr(freedom, beyond)),
        p_fail=float(special.stdtr(freedom, -beyond)),
        lo=d - half,
        hi=d + half,
        resolvable_margin_90=resolvable_margin(sd, fewest, alpha),
        pairs_needed_90=pairs_needed(sd, margin, alpha),
    )
