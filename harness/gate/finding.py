"""What one run shows of an objective: the share of requests that met it, and its interval.

The interval is Wilson's, for as many independent requests as the run's are worth: in a queue one
late request is seldom alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from harness.analyzer.frame import RunFrame
from harness.analyzer.intervals import wilson
from harness.analyzer.order_statistics import autocorrelation_time
from harness.analyzer.rates import keeps_to
from harness.core.objectives import Objective
from harness.core.record import Outcome
from harness.core.slo import SLO_COLUMNS
from harness.gate.capacity import Answer


@dataclass(frozen=True, slots=True)
class Finding:
    """One objective in one run: how many of the `due` requests met it, and what that shows.

    `lo` and `hi` bound the share with 95 % confidence. They are wider than `met` of `due` alone
    gives where `tau` requests are worth one independent one, or where a run that was cut short
    leaves open whether requests would have met it. `reached_s` is the latency that the needed share
    of the requests kept to; None with several limits, and where so many did not end well.
    """

    objective: str
    needed: float
    met: int
    due: int
    lo: float
    hi: float
    tau: float
    reached_s: float | None

    @property
    def answer(self) -> Answer:
        """What that says of the objective; UNRESOLVED where the interval holds the needed share."""
        if self.lo >= self.needed:
            return Answer.MET
        return Answer.NOT_MET if self.hi < self.needed else Answer.UNRESOLVED


def find(objective: Objective, frame: RunFrame) -> Finding:
    """What the run of `frame` shows of `objective`, over all requests that were due.

    One that failed did not meet it. One that neither ended nor failed, or was never sent, may have.
    """
    begun = "due_s" if frame.manifest.workload.load.is_open_loop else "sent_s"
    order = np.argsort(frame.requests[begun].to_numpy(), kind="stable")
    outcome = frame.requests["outcome"].to_numpy()[order]
    met = np.asarray(keeps_to(frame.requests, objective.slos), dtype=bool)[order]
    is_known = np.isin(outcome, (Outcome.OK.value, Outcome.FAILED.value))
    missed = int((is_known & ~met).sum())
    due = max(frame.manifest.counts.planned, len(order), 1)
    tau = autocorrelation_time(met[is_known].astype(np.float64)) if is_known.any() else 1.0
    lo, hi = _bounds(int(met.sum()), missed, due, tau)
    reached_s = _reached(objective, frame)
    return Finding(objective.title, objective.share, int(met.sum()), due, lo, hi, tau, reached_s)


def _bounds(met: int, missed: int, due: int, tau: float) -> tuple[float, float]:
    """At worst only what is known to have met did; at best only what is known to have missed."""
    worth = max(math.floor(due / tau), 1)
    at_worst, at_best = met * worth // due, worth - missed * worth // due
    return wilson(at_worst, worth).lo, wilson(at_best, worth).hi


def _reached(objective: Objective, frame: RunFrame) -> float | None:
    """The latency that the needed share of the requests with one kept to; failed ones rank last."""
    if len(objective.slos) != 1:
        return None
    values_s = frame.requests[SLO_COLUMNS[objective.slos[0].latency]].to_numpy()
    known_s = np.sort(values_s[~np.isnan(values_s)])
    if not len(known_s):
        return None
    value_s = float(known_s[max(math.ceil(round(objective.share * len(known_s), 6)), 1) - 1])
    return value_s if math.isfinite(value_s) else None
