"""One run in numbers: the metrics, what the steps say, the validity checks and the cautions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.core.cautions import Caution
from harness.core.manifest import RunManifest


class CheckVerdict(StrEnum):
    """What one validity check says. SKIPPED: the run holds nothing to check."""

    PASS = "pass"
    WARN = "warn"
    INVALID = "invalid"
    SKIPPED = "skipped"


class Validity(StrEnum):
    """The worst that the checks of a run say."""

    VALID = "VALID"
    WARN = "WARN"
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Check:
    """One validity check: its id (V01 ...), what was seen, what was allowed, and the verdict."""

    id: str
    title: str
    value: str
    limit: str
    verdict: CheckVerdict


@dataclass(frozen=True, slots=True)
class Within:
    """A 95 % interval of a value by its own run, which says nothing of how much runs differ.

    `n_eff` is how many independent requests those of the run are worth, and `tau` how many of them
    are worth one; None where they are taken for independent.
    """

    lo: float
    hi: float
    n_eff: int
    method: str
    tau: float | None = None


@dataclass(frozen=True, slots=True)
class MetricValue:
    """The value of one metric of `metrics.METRICS`, or None with the reason.

    Of a percentile or a share, `ci_within` is how well the run bounds it, and `mlperf_estimate`
    what MLPerf's early stopping would report in its place (99 %, and it takes requests for
    independent); where one of them is None, `unbounded` says why.
    """

    metric: str
    value: float | None
    reason: str | None = None
    ci_within: Within | None = None
    mlperf_estimate: float | None = None
    unbounded: str | None = None


@dataclass(frozen=True, slots=True)
class StepTotals:
    """What the step log adds up to, over the steps of the measured part of a run.

    Shares are of slot-steps, that is of slots times steps: `busy` + `padding` + `empty` = 1.
    Seconds are time inside the engine's steps, split as the engine timed them; `other_s` is the
    rest of the steps. Tokens: `prefill_tokens` and `decode_tokens` are useful ones.
    """

    steps: int
    slots: int
    busy_share: float
    padding_share: float
    empty_share: float
    prefill_s: float
    decode_s: float
    other_s: float
    prefill_tokens: int
    prefill_padding_tokens: int
    decode_tokens: int


@dataclass(frozen=True, slots=True)
class TurnValues:
    """The requests that were one turn of their sessions: how many, and what metrics say of them.

    `turn` counts from 0.
    """

    turn: int
    requests: int
    values: tuple[MetricValue, ...]


@dataclass(frozen=True, slots=True)
class SessionTotals:
    """Conversations as wholes, and turn by turn.

    `durations` are percentiles of the time from the instant that a session's first turn was due, or
    sent in a closed loop, to its last token; delays between turns are in it.
    """

    sessions: int
    turns: tuple[TurnValues, ...]
    durations: tuple[MetricValue, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """One run in numbers. `sessions` is None where every request stands alone.

    By MSER-5 the run had settled at the instant `settled_s`, 0 where it shows no beginning. `cut_s`
    is what was left out: latencies are of requests due since, without the `left_out` ones before,
    and rates begin there. It is 0 unless somebody says, as `experiment` does for runs that are held
    against each other.
    """

    manifest: RunManifest
    validity: Validity
    checks: tuple[Check, ...]
    values: tuple[MetricValue, ...]
    steps: StepTotals | None
    cautions: tuple[Caution, ...]
    sessions: SessionTotals | None = None
    settled_s: float = 0.0
    cut_s: float = 0.0
    left_out: int = 0

    def value(self, metric: str) -> float | None:
        """The value of `metric`, None when it was not measured. Raises KeyError when unknown."""
        return {v.metric: v.value for v in self.values}[metric]
