"""Two engines in turn, pair by pair: the stored result, and what each metric's pairs add up to.

The runs of a pair were made one after the other on the same bytes, so what a pair has in common,
its prompts and the machine's mood, cancels out of its ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, geometric_mean

from harness.analyzer.estimators import paired_ratio, ratio_of_means
from harness.analyzer.metrics import METRICS
from harness.analyzer.summary import MetricValue
from harness.core.cautions import Caution
from harness.core.duel_plan import is_baseline_first
from harness.core.engine import EngineSpec
from harness.gate.agreement import Agreement
from harness.gate.attempt import RunOutcome
from harness.gate.comparison import INTERVAL_RUNS
from harness.gate.decision import Decision, Pair
from harness.gate.lengths import UNLIKE_WORK, is_bound_to_length

# History of duel.json:
#   1  first version
SCHEMA_VERSION = 1
# So many pairs may be made again because a run of theirs was INVALID.
EXTRA_PAIRS = 2


@dataclass(frozen=True, slots=True)
class DuelSide:
    """One side: what it is called in the duel, and the engine as it was asked for."""

    name: str
    engine: EngineSpec


@dataclass(frozen=True, slots=True)
class DuelPair:
    """Two runs on the same bytes. A pair of which a run is INVALID is made again.

    `number` is its place, from 1, and `attempt` how often that pair had been begun with this one.
    A run is named like its folder. `counts`: its numbers are used, also where a run is INVALID only
    because too many of its requests failed, which is what the gate has to judge. `digest` is that
    of all that both runs were to send, and when; None where they do not have one in common.
    """

    number: int
    attempt: int
    seed: int
    baseline_first: bool
    baseline: RunOutcome
    candidate: RunOutcome
    counts: bool
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class DuelMetric:
    """One metric over the pairs that count.

    `values` are (baseline, candidate), a pair each. `baseline` and `candidate` are their geometric
    means, and `ratio` is that of these, candidate / baseline. `lo` and `hi` bound it with 95 %
    confidence, and `p` is how likely so clear a difference, either way, is where there is none:
    Student's t on the pairs' log ratios; None below INTERVAL_RUNS pairs. Where a number is None,
    `reason` says why.
    """

    metric: str
    baseline: float | None
    candidate: float | None
    ratio: float | None
    lo: float | None
    hi: float | None
    p: float | None
    values: tuple[tuple[float | None, float | None], ...]
    reason: str | None = None

    @property
    def is_clear(self) -> bool:
        """True when there is an interval, and it does not hold 1."""
        return self.lo is not None and self.hi is not None and not self.lo <= 1 <= self.hi


@dataclass(frozen=True, slots=True)
class Duel:
    """The whole duel, and the words said with it; also of one that is not at its end.

    `looks` are after how many pairs the sides are judged. `pairs` are in the order of running,
    those made again included. `factors` is what differs between the sides, and `allowed` what may
    besides, because the user says so. `decision` is that of the last look, None before the first,
    and where `looks` end below FEWEST_PAIRS; `stopped` says why the duel ended before its last
    look, if it did. `agreement` says whether both sides did the same work. `command` repeats the
    measurement.
    """

    baseline: DuelSide
    candidate: DuelSide
    context: str
    factors: tuple[str, ...]
    allowed: tuple[str, ...]
    command: tuple[str, ...]
    tool_version: str
    created_utc: str
    looks: tuple[int, ...]
    pairs: tuple[DuelPair, ...]
    metrics: tuple[DuelMetric, ...]
    decision: Decision | None
    stopped: str | None
    agreement: Agreement | None
    cautions: tuple[Caution, ...]
    schema_version: int = SCHEMA_VERSION

    @property
    def counted(self) -> tuple[DuelPair, ...]:
        """The pairs that count."""
        return tuple(pair for pair in self.pairs if pair.counts)

    @property
    def baseline_name(self) -> str:
        """What the baseline is called."""
        return self.baseline.name

    @property
    def candidate_name(self) -> str:
        """What the candidate is called."""
        return self.candidate.name

    def metric(self, name: str) -> DuelMetric:
        """The metric called `name`. Raises KeyError when there is none."""
        return {metric.metric: metric for metric in self.metrics}[name]


@dataclass(frozen=True, slots=True)
class Place:
    """Which pair is to be run: its number, and how often it will then have been begun."""

    number: int
    attempt: int

    @property
    def baseline_first(self) -> bool:
        """The order of the pair; made again, it keeps its order, as it keeps its seed."""
        return is_baseline_first(self.number)


def next_place(done: Sequence[DuelPair], wanted: int) -> Place | None:
    """The pair to run after `done`; None when `wanted` of them count, or too many were in vain."""
    counted = sum(pair.counts for pair in done)
    if counted >= wanted or in_vain(done) > EXTRA_PAIRS:
        return None
    number = counted + 1
    return Place(number, 1 + sum(pair.number == number for pair in done))


def in_vain(done: Sequence[DuelPair]) -> int:
    """How many of the pairs `done` do not count."""
    return sum(not pair.counts for pair in done)


def metrics_of(pairs: Sequence[Pair], *, is_like_work: bool = True) -> tuple[DuelMetric, ...]:
    """Every metric over `pairs`; none when there is no pair.

    Unless it `is_like_work`, what follows the length of an answer has no ratio.
    """
    if not pairs:
        return ()
    sides = [[pair.baseline for pair in pairs], [pair.candidate for pair in pairs]]
    by_name = [[{v.metric: v for v in run.values} for run in side] for side in sides]
    base, cand = by_name
    found = (
        judge_metric([run[m.name] for run in base], [run[m.name] for run in cand]) for m in METRICS
    )
    return tuple(m if is_like_work else _of_unlike_work(m) for m in found)


def _of_unlike_work(metric: DuelMetric) -> DuelMetric:
    if metric.ratio is None or not is_bound_to_length(metric.metric):
        return metric
    return replace(metric, ratio=None, lo=None, hi=None, p=None, reason=UNLIKE_WORK)


def judge_metric(base: Sequence[MetricValue], cand: Sequence[MetricValue]) -> DuelMetric:
    """One metric, whose values are in the order of the pairs.

    A value that is missing in one run is missing in the whole: what is left would be chosen.
    """
    values = tuple((b.value, c.value) for b, c in zip(base, cand, strict=True))
    means = (_mean(base), _mean(cand))
    if None in means:
        said = _why_missing(_missing(base), _missing(cand))
        return DuelMetric(base[0].metric, *means, None, None, None, None, values, said)
    before, after = ([float(pair[i] or 0) for pair in values] for i in (0, 1))
    if not all(0 < value < math.inf for value in (*before, *after)):
        why = "a value is 0, so there is no ratio"
        return DuelMetric(base[0].metric, *means, None, None, None, None, values, why)
    ratio = ratio_of_means(before, after)
    if len(values) < INTERVAL_RUNS:
        why = f"{len(values)} pair(s) give no interval (--pairs {INTERVAL_RUNS} does)"
        return DuelMetric(base[0].metric, *means, ratio, None, None, None, values, why)
    found = paired_ratio(before, after)
    return DuelMetric(base[0].metric, *means, ratio, found.lo, found.hi, found.p, values)


def _mean(values: Sequence[MetricValue]) -> float | None:
    """The geometric mean, or the plain one when a value is 0; None when one is missing."""
    known = [value.value for value in values if value.value is not None]
    if len(known) < len(values):
        return None
    return geometric_mean(known) if min(known) > 0 else fmean(known)


def _why_missing(baseline: str | None, candidate: str | None) -> str | None:
    if baseline == candidate:
        return baseline
    sides = (("baseline", baseline), ("candidate", candidate))
    return "; ".join(f"{side}: {why}" for side, why in sides if why)


def _missing(values: Sequence[MetricValue]) -> str | None:
    """Why values are missing, each reason once, and in how many of the runs."""
    reasons = [value.reason or "not measured" for value in values if value.value is None]
    if not reasons:
        return None
    of_runs = f" (in {len(reasons)} of {len(values)} runs)" if len(values) > 1 else ""
    return ", ".join(dict.fromkeys(reasons)) + of_runs
