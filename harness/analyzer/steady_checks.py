"""Had the run settled, so that its middle says what a longer run would say?"""

from __future__ import annotations

import numpy as np

from harness.analyzer.arrival_checks import check_saturation
from harness.analyzer.columns import MISSING, Floats, seconds
from harness.analyzer.flow import in_flight_at
from harness.analyzer.frame import RunFrame
from harness.analyzer.grading import is_virtual, skipped
from harness.analyzer.steady import drift, mser5
from harness.analyzer.summary import Check, CheckVerdict
from harness.core.imported import DEFINITIONS
from harness.core.manifest import RunManifest
from harness.core.workload import LoadKind

STEADY_LOADS = (LoadKind.POISSON, LoadKind.CONSTANT, LoadKind.GAMMA)
REQUESTS_NEEDED = 100
DRIFT_WARN, DRIFT_INVALID = 0.05, 0.10


def check_steady(frame: RunFrame) -> Check:
    """V12: end-to-end latency had settled, and did not drift, while requests arrived.

    MSER-5 is applied to latencies and to the number in flight; the larger cut is left out of the
    drift, and nothing where one of them is at its limit. Latencies in a queue come in waves: of
    simulated M/M/1 queues that were steady, at 30 to 80 % load, 9 in 10 drift by more than 10 %, up
    to 3 in 10 beyond the plain interval, and MSER-5 is at its limit in up to 15 %. So these warn. A
    run is INVALID when the wide interval lies beyond 10 %: of such queues up to 7 % at 100
    requests, 4 % at 500 and 2 % at 2,000.
    """
    title = "steady"
    limit = "MSER-5 at its limit or drift 5 % WARN; drift beyond 10 % with its interval INVALID"
    if reason := _why_not(frame):
        return skipped("V12", title, limit, reason)
    _, e2e_s, in_flight = _series(frame)
    cut = _cut(e2e_s, in_flight)
    is_unsettled = cut is None
    found = drift(e2e_s[cut or 0 :])
    settled = "not settled in" if is_unsettled else f"settled after {cut} of"
    value = (
        f"{settled} {len(e2e_s)} requests, E2E drifts {found.share:+.1%} "
        f"({found.wide_lo:+.1%} to {found.wide_hi:+.1%})"
    )
    is_drifting = abs(found.share) > DRIFT_WARN and (found.lo > 0 or found.hi < 0)
    verdict = CheckVerdict.WARN if is_unsettled or is_drifting else CheckVerdict.PASS
    if found.wide_lo > DRIFT_INVALID or found.wide_hi < -DRIFT_INVALID:
        verdict = CheckVerdict.INVALID
    return Check("V12", title, value, limit, verdict)


def can_be_cut(manifest: RunManifest) -> bool:
    """Whether the beginning of a run may be left out: requests come at one rate, by our clock."""
    is_steady = manifest.workload.load.kind in STEADY_LOADS
    return is_steady and DEFINITIONS not in manifest.labels


def settled_s(frame: RunFrame) -> float:
    """The instant of the run at which V12 finds that it had settled: when a request was due.

    0 where it had from the beginning, where it never did, and where V12 does not ask.
    """
    if not can_be_cut(frame.manifest) or _why_not(frame):
        return 0.0
    due_s, e2e_s, in_flight = _series(frame)
    cut = _cut(e2e_s, in_flight)
    return float(due_s[cut]) if cut else 0.0


def _cut(e2e_s: Floats, in_flight: Floats) -> int | None:
    """How many requests MSER-5 leaves out at the beginning; None where it is at its limit."""
    cuts = (mser5(e2e_s), mser5(in_flight))
    return None if any(one.is_at_limit for one in cuts) else max(one.values for one in cuts)


def _why_not(frame: RunFrame) -> str | None:
    """Why the question does not arise; None when it does."""
    if is_virtual(frame.manifest):
        return "time is virtual"
    if frame.manifest.workload.load.kind not in STEADY_LOADS:
        return "only arrivals at one rate have a steady state"
    ended_well = int(np.isfinite(frame.requests["e2e_s"]).sum())
    if ended_well < REQUESTS_NEEDED:
        return f"{ended_well} requests that ended well are too few ({REQUESTS_NEEDED} needed)"
    if check_saturation(frame).verdict is CheckVerdict.WARN:
        return "the engine did not keep up (V13), so nothing settles"
    return None


def _series(frame: RunFrame) -> tuple[Floats, Floats, Floats]:
    """When each request that ended well was due, its latency, and how many were in flight then.

    In the order of due.
    """
    due_ns = frame.records.numbers["due_ns"]
    closed_ns = frame.records.numbers["closed_ns"]
    ended_ns = np.where(closed_ns == MISSING, np.iinfo(np.int64).max, closed_ns)
    e2e_s = frame.requests["e2e_s"].to_numpy()
    order = np.argsort(due_ns, kind="stable")
    order = order[np.isfinite(e2e_s[order])]
    in_flight = in_flight_at(due_ns, ended_ns, due_ns[order])
    return seconds(due_ns[order]), e2e_s[order], in_flight.astype(np.float64)
