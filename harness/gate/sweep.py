"""Latency against throughput: the same mix at one load after another, and which loads to choose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.analyzer.metrics import find_metric
from harness.analyzer.summary import CheckVerdict, MetricValue
from harness.core.cautions import Caution, Code
from harness.core.load_points import Axis
from harness.gate.attempt import Attempt, RunOutcome, cautions_of_runs, cut_alike
from harness.gate.pareto import pareto_set
from harness.gate.probing import KEPT_UP

# History of sweep.json:
#   1  first version
SCHEMA_VERSION = 1
THROUGHPUT = "output_tok_s"
LATENCIES = ("ttft_s", "tpot_s")
TAILS = ("p99", "p90", "p50")
GOODPUT = "goodput_frac"
METRICS = (THROUGHPUT, GOODPUT, *(f"{name}_{p}" for name in LATENCIES for p in TAILS))


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One engine at one load, in one run; `seed` is that of its prompts and due times.

    `is_saturated`: the engine did not keep up, so its latency only says how long the run was.
    `is_choice`: it is in the Pareto set of the points that are neither saturated nor without a
    value that counts for it. Latencies and rates leave out the first `cut_s` of the run.
    """

    engine: str
    level: float
    seed: int
    run: RunOutcome
    is_saturated: bool
    values: tuple[MetricValue, ...]
    is_choice: bool = False
    cut_s: float = 0.0

    def value(self, metric: str) -> float | None:
        """The value of `metric`; None where there is none."""
        return next(value.value for value in self.values if value.metric == metric)


@dataclass(frozen=True, slots=True)
class Sweep:
    """All points, by load and then by engine. `context` names the model, the machine and the mix.

    `tails` are the latencies, one of each kind, that the Pareto set is of beside the throughput.
    """

    axis: Axis
    context: str
    engines: tuple[str, ...]
    tails: tuple[str, ...]
    points: tuple[SweepPoint, ...]
    command: tuple[str, ...]
    tool_version: str
    created_utc: str
    cautions: tuple[Caution, ...]
    schema_version: int = SCHEMA_VERSION

    def of_engine(self, engine: str) -> tuple[SweepPoint, ...]:
        """The points of `engine`, their loads rising."""
        return tuple(point for point in self.points if point.engine == engine)


def point_of(engine: str, level: float, seed: int, attempt: Attempt) -> SweepPoint:
    """The point that the run of `attempt` makes, not yet held against the others."""
    checks = () if attempt.summary is None else attempt.summary.checks
    return SweepPoint(
        engine=engine,
        level=level,
        seed=seed,
        run=attempt.outcome,
        is_saturated=any(c.id == KEPT_UP and c.verdict is CheckVerdict.WARN for c in checks),
        values=tuple(attempt.value(metric) for metric in METRICS),
        cut_s=0.0 if attempt.counted is None else attempt.counted.cut_s,
    )


def with_cuts(runs: Sequence[tuple[float, Attempt]]) -> tuple[Attempt, ...]:
    """The attempts of `runs`, each with its load, with those that count cut alike at each load.

    The engines at one load are held against each other, as they were sent the same. Another load
    fills other queues, and settles when these have.
    """
    under: dict[float, list[Attempt]] = {}
    for level, attempt in runs:
        if attempt.counted is not None:
            under.setdefault(level, []).append(attempt)
    cut = {level: iter(cut_alike(attempts)) for level, attempts in under.items()}
    return tuple(a if a.counted is None else next(cut[level]) for level, a in runs)


def cautions_of(attempts: Iterable[Attempt]) -> tuple[Caution, ...]:
    """What is doubtful about the runs, each doubt once. What a load leaves out is told by it."""
    found = cautions_of_runs(attempts)
    return tuple(doubt for doubt in found if doubt.code != Code.BEGINNING_LEFT_OUT)


def tails_of(points: Sequence[SweepPoint]) -> tuple[str, ...]:
    """Of each latency the highest percentile that all points with a throughput have.

    The median where they have none in common.
    """
    counted = [point for point in points if point.value(THROUGHPUT) is not None]
    return tuple(
        next((n for n in names if all(point.value(n) is not None for point in counted)), names[-1])
        for names in ([f"{latency}_{tail}" for tail in TAILS] for latency in LATENCIES)
    )


def with_choices(points: Sequence[SweepPoint], tails: Sequence[str]) -> tuple[SweepPoint, ...]:
    """`points`, with those marked that no other beats in throughput and all of `tails` together."""
    names = (THROUGHPUT, *tails)
    ranked: dict[int, list[float]] = {}
    for i, point in enumerate(points):
        values = [point.value(name) for name in names]
        known = [value for value in values if value is not None]
        if len(known) == len(names) and not point.is_saturated:
            ranked[i] = known
    chosen = pareto_set(list(ranked.values()), [find_metric(name).better for name in names])
    places = {list(ranked)[i] for i in chosen}
    return tuple(replace(point, is_choice=i in places) for i, point in enumerate(points))
