"""Was our own client the bottleneck? Send lag, load of its processes, headroom, and its gaps."""

from __future__ import annotations

import math

import numpy as np

from harness.analyzer.columns import MISSING, RecordColumns
from harness.analyzer.estimators import percentile
from harness.analyzer.flow import mean_in_flight
from harness.analyzer.frame import RunFrame
from harness.analyzer.grading import SHORTEST_WINDOW_S, graded, is_virtual, skipped, worst
from harness.analyzer.measures import Unmeasured, makespan_s
from harness.analyzer.summary import Check, CheckVerdict
from harness.core.engine import Ending
from harness.core.units import NS_PER_S, ns_to_s

LAG_WARN_S = 0.010
LATENESS_WARN, LATENESS_INVALID = 0.01, 0.05
LATENESS_IGNORED_S = 0.001
BLOCKED_WARN, BLOCKED_INVALID = 0.005, 0.02
CPU_WARN, CPU_INVALID = 0.70, 0.90
HEADROOM_WARN, HEADROOM_INVALID = 2.0, 1.25
CLIENT_FAULTS = (Ending.CLIENT_FILES_EXHAUSTED.value, Ending.CLIENT_PORTS_EXHAUSTED.value)
GAP_WARN, GAP_INVALID = 0.02, 0.05
ROUNDS_NEEDED = 10


def check_send_lag(frame: RunFrame) -> Check:
    """V06: the client sent on time, or its lateness did not matter (open loop on a real clock)."""
    title, limit = "client on time", "p99 lag 10 ms; TTFT p50 moved by 5 % and 1 ms"
    is_open_loop = frame.manifest.workload.load.is_open_loop
    if not is_open_loop or is_virtual(frame.manifest) or frame.requests.empty:
        return skipped("V06", title, limit)
    lag_s = percentile(frame.requests["send_lag_s"], 99)
    moved_s, moved_share = _lateness_in_ttft(frame)
    verdict = CheckVerdict.PASS
    if moved_s > LATENESS_IGNORED_S and moved_share > LATENESS_INVALID:
        verdict = CheckVerdict.INVALID
    elif lag_s > LAG_WARN_S or (moved_s > LATENESS_IGNORED_S and moved_share > LATENESS_WARN):
        verdict = CheckVerdict.WARN
    value = f"p99 lag {lag_s * 1e3:.2f} ms; TTFT p50 moved by {moved_s * 1e3:.2f} ms"
    return Check("V06", title, f"{value} ({moved_share:.1%})", limit, verdict)


def _lateness_in_ttft(frame: RunFrame) -> tuple[float, float]:
    """How much the client's lateness added to TTFT p50, in seconds and as a share of it."""
    from_due = frame.requests["ttft_s"].dropna()
    if from_due.empty:
        return 0.0, 0.0
    due_s = percentile(from_due, 50)
    sent_s = percentile(frame.requests["ttft_from_sent_s"].dropna(), 50)
    if math.isinf(due_s) or sent_s <= 0:
        return 0.0, 0.0
    return due_s - sent_s, (due_s - sent_s) / sent_s


def check_client_load(frame: RunFrame) -> Check:
    """V08: the sending processes had time to stamp what came, as it came.

    The time blocked is held against 20 s at least: in a shorter run one hiccup of the machine would
    decide.
    """
    title = "client not busy"
    limit = "loop blocked 0.5 % WARN, 2 % INVALID, of 20 s at least; CPU 70 % WARN, 90 % INVALID"
    client = frame.manifest.client
    if client is None:
        return skipped("V08", title, limit, "the client's load is not known")
    value = (
        f"loop blocked {client.blocked_share_max:.2%} of the time, "
        f"busiest of {client.workers} process(es) at {client.cpu_share_max:.0%} CPU"
    )
    length_s = ns_to_s(int(frame.records.numbers["closed_ns"].max(initial=0)))
    blocked = client.blocked_share_max * min(length_s / SHORTEST_WINDOW_S, 1.0)
    verdict = worst(
        graded(blocked, BLOCKED_WARN, BLOCKED_INVALID),
        graded(client.cpu_share_max, CPU_WARN, CPU_INVALID),
    )
    return Check("V08", title, value, limit, verdict)


def check_headroom(frame: RunFrame) -> Check:
    """V09: this machine's client can take more events a second than the run had.

    The ceiling is what the client took from a server that only streams, on the same machine.
    """
    title, limit = "client headroom", "ceiling 2 times the run's events/s WARN, 1.25 INVALID"
    client, makespan = frame.manifest.client, makespan_s(frame)
    ceiling = client.ceiling_events_s if client else None
    if ceiling is None:
        return skipped("V09", title, limit, "the ceiling is not known: batchmark calibrate")
    if isinstance(makespan, Unmeasured):
        return skipped("V09", title, limit)
    rate = len(frame.records.events_ns) / makespan
    value = f"{rate:,.0f} events/s, {rate / ceiling:.1%} of the client's {ceiling:,.0f}"
    verdict = graded(-ceiling / rate, -HEADROOM_WARN, -HEADROOM_INVALID)
    if client is not None and client.ceiling_is_lower_bound:
        value += " or more"
        if verdict is not CheckVerdict.PASS:  # there may be headroom all the same
            verdict = CheckVerdict.SKIPPED
    return Check("V09", title, value, limit, verdict)


def check_client_faults(records: RecordColumns) -> Check:
    """V10: no request was held up by a limit of the client itself.

    The client caps nothing, so only files and ports can run out: such requests were never sent.
    """
    title, limit = "client without limits", "0 WARN, 1 % INVALID of requests"
    if not len(records):
        return skipped("V10", title, limit)
    faults = sum(error is not None and error.kind in CLIENT_FAULTS for error in records.errors)
    value = f"{faults} of {len(records)} found no file or port"
    return Check("V10", title, value, limit, graded(faults / len(records), 0.0, 0.01))


def check_client_gap(frame: RunFrame) -> Check:
    """V14: in a closed loop, the client filled each slot again at once.

    By Little's law N slots at X requests/s with a residence of R leave Z = N/X - R a request to the
    client; Z over N/X is the share of slot time that was empty. It is taken while there was
    something left to send, so that the drain does not count, and over 10 rounds at least.
    """
    title, limit = "client fills its slots", "empty 2 % WARN, 5 % INVALID of slot time"
    load, sent_ns = frame.manifest.workload.load, frame.records.numbers["sent_ns"]
    slots = load.concurrency
    if load.is_open_loop or is_virtual(frame.manifest) or not slots:
        return skipped("V14", title, limit)
    if not frame.records.is_arrival.all():
        return skipped("V14", title, limit, "slots stay empty until a later turn is due")
    if len(sent_ns) < ROUNDS_NEEDED * slots:
        reason = f"{len(sent_ns)} requests are fewer than {ROUNDS_NEEDED} times {slots} slots"
        return skipped("V14", title, limit, reason)
    closed_ns = frame.records.numbers["closed_ns"]
    first_ns, last_ns = int(sent_ns.min()), int(sent_ns.max())
    if first_ns == last_ns:
        return skipped("V14", title, limit)
    ended_ns = np.where(closed_ns == MISSING, last_ns, closed_ns)
    (busy,) = mean_in_flight(sent_ns, ended_ns, (first_ns, last_ns))
    share = 1 - busy / slots
    gap_s = share * slots * (last_ns - first_ns) / NS_PER_S / (len(sent_ns) - 1)
    value = f"empty {share:.2%} of slot time, {gap_s * 1e3:.2f} ms a request"
    return Check("V14", title, value, limit, graded(share, GAP_WARN, GAP_INVALID))
