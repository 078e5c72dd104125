"""Did the load come as it was meant to, for long enough, and did the engine keep up with it?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.analyzer.columns import MISSING, Floats, Ints, RecordColumns
from harness.analyzer.estimators import CONFIDENCE, percentile, t_quantile
from harness.analyzer.flow import (
    anderson_darling_exponential,
    exponential_limit,
    mean_in_flight,
    variation,
)
from harness.analyzer.frame import RunFrame
from harness.analyzer.grading import SHORTEST_WINDOW_S, graded, is_virtual, skipped
from harness.analyzer.measures import Unmeasured, makespan_s
from harness.analyzer.summary import Check, CheckVerdict
from harness.core.units import NS_PER_S
from harness.core.workload import LoadKind

LATENCIES_WARN, LATENCIES_INVALID = 20, 5
GAPS_NEEDED = 10
# With more gaps than this the test finds departures that are too small to matter.
GAPS_TESTED = 1_000
MOVED_WARN, MOVED_INVALID = 0.05, 0.20
MOVED_IGNORED_S = 0.001
COMPLETED_ENOUGH = 0.98
RISE = 1.25
SPANS = 20


def check_window(frame: RunFrame) -> Check:
    """V04: the run was long enough to show more than its own beginning and end.

    A run that is only short (20 s are the least) warns, so that a demonstration stays usable. Only
    where requests are due over time can it be INVALID: with a window of arrivals shorter than 5
    typical latencies the engine never reaches the state that the rate would bring about.
    """
    title, limit = "long enough", "20 s; arrivals: 20 E2E p50 WARN, 5 INVALID"
    if is_virtual(frame.manifest):
        return skipped("V04", title, limit)
    if not frame.manifest.workload.load.is_timed:
        makespan = makespan_s(frame)
        if isinstance(makespan, Unmeasured):
            return skipped("V04", title, limit)
        return Check("V04", title, f"{makespan:.1f} s", limit, _short_if(makespan))
    due_s, e2e_s = frame.requests["due_s"][frame.records.is_arrival], frame.requests["e2e_s"]
    known_s = e2e_s[np.isfinite(e2e_s)]
    if known_s.empty:
        return skipped("V04", title, limit)
    window_s, middle_s = float(due_s.max() - due_s.min()), percentile(known_s, 50)
    latencies = window_s / middle_s if middle_s > 0 else np.inf
    verdict = graded(-latencies, -LATENCIES_WARN, -LATENCIES_INVALID)
    if verdict is CheckVerdict.PASS:
        verdict = _short_if(window_s)
    return Check("V04", title, f"{window_s:.1f} s, {latencies:.1f} E2E p50", limit, verdict)


def _short_if(length_s: float) -> CheckVerdict:
    return CheckVerdict.WARN if length_s < SHORTEST_WINDOW_S else CheckVerdict.PASS


def check_arrivals(frame: RunFrame) -> Check:
    """V11: the requests were sent as the load says, by the instants at which they were sent.

    Poisson: Anderson and Darling's test for exponential gaps, against its 1 % critical value and
    twice that. Other loads with due times: how far the gaps between requests are from those due.
    Later turns of sessions follow their answers, not the load, and are left out.
    """
    title = "arrivals as meant"
    limit = (
        "Poisson: 1 % critical value WARN, twice INVALID; else gaps moved 5 % WARN, 20 % INVALID"
    )
    if not frame.manifest.workload.load.is_timed or is_virtual(frame.manifest):
        return skipped("V11", title, limit)
    numbers, is_arrival = frame.records.numbers, frame.records.is_arrival
    due_ns, sent_ns = numbers["due_ns"][is_arrival], numbers["sent_ns"][is_arrival]
    if len(sent_ns) <= GAPS_NEEDED:
        reason = f"{len(sent_ns)} requests are too few ({GAPS_NEEDED + 1} needed)"
        return skipped("V11", title, limit, reason)
    is_poisson = frame.manifest.workload.load.kind is LoadKind.POISSON
    value, verdict = _poisson(sent_ns) if is_poisson else _as_due(due_ns, sent_ns)
    return Check("V11", title, value, limit, verdict)


def _poisson(sent_ns: Ints) -> tuple[str, CheckVerdict]:
    gaps = np.maximum(np.diff(np.sort(sent_ns)), 1)[:GAPS_TESTED].astype(np.float64)
    found, most = anderson_darling_exponential(gaps), exponential_limit(len(gaps))
    value = f"A2 {found:.2f} of {most:.2f}, CV {variation(gaps):.2f}"
    return value, graded(found, most, 2 * most)


def _as_due(due_ns: Ints, sent_ns: Ints) -> tuple[str, CheckVerdict]:
    order = np.argsort(due_ns, kind="stable")
    moved_s = float(np.abs(np.diff((sent_ns - due_ns)[order])).mean()) / NS_PER_S
    gap_s = float(due_ns.max() - due_ns.min()) / NS_PER_S / (len(due_ns) - 1)
    share = moved_s / gap_s if gap_s > 0 else 0.0
    value = f"gaps moved by {moved_s * 1e3:.2f} ms ({share:.1%})"
    if moved_s < MOVED_IGNORED_S:
        return value, CheckVerdict.PASS
    return value, graded(share, MOVED_WARN, MOVED_INVALID)


def check_saturation(frame: RunFrame) -> Check:
    """V13: the engine kept up with the arrivals; otherwise latency only says how long the run was.

    It did not when, while requests arrived, fewer than 98 % as many ended as came, and the number
    in flight rose to the end: by more than its noise, and by a quarter from the middle third.
    """
    title, limit = "engine kept up", "98 % completed, or in flight not rising"
    window = _window(frame.records) if frame.manifest.workload.load.is_timed else None
    if window is None:
        return skipped("V13", title, limit)
    due_ns, ended_ns, edges = window
    completed = float((ended_ns < edges[-1]).sum()) / max(float((due_ns < edges[-1]).sum()), 1.0)
    thirds = np.linspace(edges[0], edges[-1], 4).astype(np.int64)
    _, middle, last = mean_in_flight(due_ns, ended_ns, thirds.tolist())
    in_flight = mean_in_flight(due_ns, ended_ns, edges)
    value = f"{completed:.1%} completed, {middle:.1f} then {last:.1f} in flight"
    is_rising = last > RISE * middle and _rises(in_flight)
    if completed >= COMPLETED_ENOUGH or not is_rising:
        return Check("V13", title, value, limit, CheckVerdict.PASS)
    value += ": saturated, the latency is that of an overloaded system"
    return Check("V13", title, value, limit, CheckVerdict.WARN)


def _window(records: RecordColumns) -> tuple[Ints, Ints, Sequence[int]] | None:
    """Due and end of each request, and the edges of equal spans while requests arrive.

    They go from the first due instant to the last, later turns of sessions left out.
    """
    due_ns, closed_ns = records.numbers["due_ns"], records.numbers["closed_ns"]
    own_ns = due_ns[records.is_arrival]
    if len(own_ns) < SPANS or own_ns.max() - own_ns.min() < SPANS:
        return None
    never_ns = np.iinfo(np.int64).max
    ended_ns = np.where(closed_ns == MISSING, never_ns, np.maximum(closed_ns, due_ns))
    edges = np.linspace(own_ns.min(), own_ns.max(), SPANS + 1).astype(np.int64)
    return due_ns, ended_ns, edges.tolist()


def _rises(values: Floats) -> bool:
    """True when the slope of `values` over their place is above 0 at 95 % confidence."""
    places = np.arange(len(values)) - (len(values) - 1) / 2
    spread = float((places**2).sum())
    slope = float((places * values).sum()) / spread
    rest = values - values.mean() - slope * places
    error = float(np.sqrt((rest**2).sum() / (len(values) - 2) / spread))
    return slope > t_quantile((1 + CONFIDENCE) / 2, len(values) - 2) * error
