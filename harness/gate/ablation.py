"""What each rung of a ladder of settings is worth: to the rung before it, and to the first.

The levels of one round were measured one after the other on the same bytes, so rounds are pairs: a
round that was slow for all levels cancels out of every ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import geometric_mean

from harness.analyzer.estimators import paired_ratio, ratio_of_means
from harness.analyzer.summary import MetricValue
from harness.core.cautions import Caution
from harness.gate.attempt import RunOutcome
from harness.gate.comparison import INTERVAL_RUNS

# History of ablation.json:
#   1  first version
SCHEMA_VERSION = 1
# The longest stands in for a p99 that no level has requests enough for.
STAND_INS = {"ttft_s_p99": "ttft_s_max", "tpot_s_p99": "tpot_s_max"}
METRICS = ("output_tok_s", "ttft_s_p50", *chain.from_iterable(STAND_INS.items()))


@dataclass(frozen=True, slots=True)
class Worth:
    """A level over another one in one metric, as the metric is, whichever direction is better.

    `ratio` is of the geometric means over those `rounds` in which both were measured. `lo` and `hi`
    bound it with 95 % confidence, by Student's t on the rounds' log ratios; None below
    INTERVAL_RUNS rounds. Where a number is None, `reason` says why.
    """

    ratio: float | None
    lo: float | None
    hi: float | None
    rounds: int
    reason: str | None = None

    @property
    def is_clear(self) -> bool:
        """True when there is an interval, and it does not hold 1."""
        return self.lo is not None and self.hi is not None and not self.lo <= 1 <= self.hi


@dataclass(frozen=True, slots=True)
class LevelValue:
    """One metric of a level: each round's value, their geometric mean, and what that is worth.

    Geometric, so that the ratios of the steps multiply up to that of the whole. The first level has
    nothing to be compared to. Where `value` is None, `reason` says why.
    """

    metric: str
    rounds: tuple[float | None, ...]
    value: float | None
    to_before: Worth | None
    to_first: Worth | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AblationLevel:
    """One level as measured. `adds` are the factors that it has more than the level before it.

    `remarks` name those of its factors that were not at work. `runs` has one for each round.
    """

    key: str
    name: str
    adds: tuple[str, ...]
    runs: tuple[RunOutcome, ...]
    values: tuple[LevelValue, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ablation:
    """The whole ladder, and the words said with it.

    `baseline` is the first level; `context` names the model, the machine and the workload. `seeds`
    has one for each round. `command` repeats the measurement.
    """

    baseline: str
    context: str
    command: tuple[str, ...]
    tool_version: str
    created_utc: str
    seeds: tuple[int, ...]
    levels: tuple[AblationLevel, ...]
    cautions: tuple[Caution, ...]
    schema_version: int = SCHEMA_VERSION

    def values_of(self, metric: str) -> tuple[LevelValue, ...]:
        """`metric` of each level."""
        return tuple(v for level in self.levels for v in level.values if v.metric == metric)

    def has(self, metric: str) -> bool:
        """True when one level at least has a value of `metric`."""
        return any(v.value is not None for v in self.values_of(metric))

    @property
    def shown(self) -> tuple[str, ...]:
        """The metrics that a table or a picture shows: a p99, or what stands in for it."""
        hidden = {p99 if self.has(m) and not self.has(p99) else m for p99, m in STAND_INS.items()}
        return tuple(name for name in METRICS if name not in hidden)


def climb(levels: Sequence[Sequence[MetricValue]]) -> tuple[LevelValue, ...]:
    """What each level is worth in one metric: `levels` holds its values by level, then by round.

    A value is None, with its reason, in a round that does not count for its level.
    """
    return tuple(
        LevelValue(
            metric=rounds[0].metric,
            rounds=tuple(value.value for value in rounds),
            value=_mean(rounds),
            to_before=worth(levels[i - 1], rounds) if i else None,
            to_first=worth(levels[0], rounds) if i else None,
            reason=_reason(rounds),
        )
        for i, rounds in enumerate(levels)
    )


def worth(base: Sequence[MetricValue], other: Sequence[MetricValue]) -> Worth:
    """`other` over `base`, whose values are in the order of the rounds."""
    pairs = [
        (b.value, o.value)
        for b, o in zip(base, other, strict=True)
        if b.value is not None and o.value is not None
    ]
    if not pairs:
        below, here = _missing(base), _missing(other)
        said = (here, f"the level compared to: {below}" if below else None)
        return Worth(None, None, None, 0, "; ".join(why for why in said if why))
    before, after = ([float(pair[i]) for pair in pairs] for i in (0, 1))
    if not all(0 < value < math.inf for value in (*before, *after)):
        return Worth(None, None, None, len(pairs), "a value is 0, so there is no ratio")
    if len(pairs) < INTERVAL_RUNS:
        reason = f"{len(pairs)} round(s) give no interval (--rounds {INTERVAL_RUNS} does)"
        return Worth(ratio_of_means(before, after), None, None, len(pairs), reason)
    found = paired_ratio(before, after)
    return Worth(found.ratio, found.lo, found.hi, len(pairs))


def _mean(rounds: Sequence[MetricValue]) -> float | None:
    """The geometric mean of the rounds that count; the plain 0 when one of them is 0."""
    known = [value.value for value in rounds if value.value is not None]
    if not known:
        return None
    return geometric_mean(known) if min(known) > 0 else 0.0


def _reason(rounds: Sequence[MetricValue]) -> str | None:
    return _missing(rounds) if all(value.value is None for value in rounds) else None


def _missing(rounds: Sequence[MetricValue]) -> str | None:
    """Why values are missing, each reason once; None when all are there."""
    reasons = [value.reason or "not measured" for value in rounds if value.value is None]
    return ", ".join(dict.fromkeys(reasons)) or None
