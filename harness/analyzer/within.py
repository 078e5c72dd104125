"""How well one run bounds a value of its own: what the Summary says beside the value.

Such an interval says where the same run, gone on for ever, would have come to. It says nothing of
how much the next run differs, so no comparison uses it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from harness.analyzer.columns import Floats
from harness.analyzer.early_stopping import mlperf_estimate, needed
from harness.analyzer.estimators import floor_n
from harness.analyzer.frame import RunFrame
from harness.analyzer.intervals import Bounds
from harness.analyzer.order_statistics import percentile_interval
from harness.analyzer.summary import Within

ORDER_STATISTIC = "order statistic on effective sample size"


@dataclass(frozen=True, slots=True)
class Bounded:
    """What one run says of its own value; where a part is None its reason is in `reason`."""

    ci_within: Within | None = None
    mlperf_estimate: float | None = None
    reason: str | None = None


def bounded_percentile(frame: RunFrame, column: str, percent: int) -> Bounded:
    """The 95 % interval of a percentile of a column of the requests, and MLPerf's estimate of it.

    The requests are taken in the order in which they were due, or sent in a closed loop.
    """
    values = _in_order(frame, column)
    found = percentile_interval(values, percent)
    reasons = []
    within = None
    if found.hi is None:
        reasons.append(
            f"not bounded by this run: {len(values)} requests in waves are worth {found.n_eff} "
            f"independent ones ({floor_n(percent)} needed)"
        )
    elif math.isinf(found.hi):
        reasons.append("not bounded by this run: the upper bound lies among failed requests")
    else:
        within = Within(found.lo, found.hi, found.n_eff, ORDER_STATISTIC, found.tau)
    estimate = mlperf_estimate(values, percent)
    if estimate is None:
        least = needed(percent / 100)
        reasons.append(f"{len(values)} requests give no MLPerf estimate ({least} needed)")
    elif math.isinf(estimate):
        reasons.append("the MLPerf estimate lies among failed requests")
        estimate = None
    return Bounded(within, estimate, "; ".join(reasons) or None)


def bounded_share(bounds: Bounds, total: int, method: str) -> Bounded:
    """The interval of a share of `total` requests, each taken for independent of the others."""
    return Bounded(Within(bounds.lo, bounds.hi, total, method))


def _in_order(frame: RunFrame, column: str) -> Floats:
    is_open_loop = frame.manifest.workload.load.is_open_loop
    begun_s = frame.settled["due_s" if is_open_loop else "sent_s"].to_numpy()
    values = frame.settled[column].to_numpy()[np.argsort(begun_s, kind="stable")]
    known: Floats = values[~np.isnan(values)]
    return known
