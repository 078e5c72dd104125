"""Is this run fit to be quoted? A row of small named checks, each with what it saw and its limit.

Here are the checks of the run's accounts; those of its answers, prompts, arrivals, client, engine
and machine have files of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from harness.analyzer.answer_checks import check_failures, check_token_counts
from harness.analyzer.arrival_checks import check_arrivals, check_saturation, check_window
from harness.analyzer.client_checks import (
    check_client_faults,
    check_client_gap,
    check_client_load,
    check_headroom,
    check_send_lag,
)
from harness.analyzer.columns import MISSING, Bools, RecordColumns
from harness.analyzer.frame import RunFrame
from harness.analyzer.grading import graded, invalid_if, is_virtual, skipped
from harness.analyzer.machine_checks import check_burn_in, check_gpus
from harness.analyzer.prompt_checks import check_prefix_cache, check_prompts
from harness.analyzer.server_checks import (
    check_e2e_against_engine,
    check_in_flight,
    check_ttft_against_engine,
    prefix_hits,
    token_totals,
    with_finding,
)
from harness.analyzer.steady_checks import check_steady
from harness.analyzer.summary import Check, CheckVerdict, Validity
from harness.core.manifest import RunManifest, RunStatus
from harness.core.record import Outcome


def check_run(frame: RunFrame, withheld: Sequence[str]) -> tuple[Check, ...]:
    """All checks of a run, by number; `withheld` are the percentiles that it cannot support."""
    is_open_loop = frame.manifest.workload.load.is_open_loop
    return (
        check_accounting(frame.manifest, frame.records),
        check_order(frame),
        check_plan_reached(frame.manifest),
        check_window(frame),
        check_percentile_floors(withheld),
        check_send_lag(frame),
        check_sent_share(frame.manifest),
        check_client_load(frame),
        check_headroom(frame),
        check_client_faults(frame.records),
        check_arrivals(frame),
        check_steady(frame),
        check_saturation(frame),
        check_in_flight(frame) if is_open_loop else check_client_gap(frame),
        check_failures(frame.records),
        with_finding(check_token_counts(frame.records), token_totals(frame)),
        check_prompts(frame),
        with_finding(check_prefix_cache(frame), prefix_hits(frame)),
        check_gpus(frame),
        check_warmup(frame.manifest),
        check_burn_in(frame.manifest),
        check_ttft_against_engine(frame),
        check_e2e_against_engine(frame),
    )


def overall_validity(checks: Iterable[Check]) -> Validity:
    """The worst that `checks` say."""
    verdicts = {check.verdict for check in checks}
    if CheckVerdict.INVALID in verdicts:
        return Validity.INVALID
    return Validity.WARN if CheckVerdict.WARN in verdicts else Validity.VALID


def check_accounting(manifest: RunManifest, records: RecordColumns) -> Check:
    """V01: sent = ok + failed + cancelled + unfinished, in the counts and in the records."""
    counts = manifest.counts
    outcomes = {outcome.value: getattr(counts, outcome.value) for outcome in Outcome}
    indices, times = np.unique(records.numbers["index"], return_counts=True)
    several = zip(indices[times > 1], times[times > 1], strict=True)
    faults = [f"request {i} is recorded {n} times" for i, n in several]
    # A run that was killed never wrote its counts, so there is nothing to hold the records against.
    if manifest.status is not RunStatus.RUNNING:
        seen = {outcome.value: int(records.came_out(outcome).sum()) for outcome in Outcome}
        if counts.in_flight != 0:
            faults.append(f"{counts.in_flight} of {counts.sent} sent have no outcome")
        faults += [
            f"{seen[name]} recorded as {name}, {count} counted"
            for name, count in outcomes.items()
            if seen[name] != count
        ]
    parts = " + ".join(f"{count} {name}" for name, count in outcomes.items())
    value = "; ".join(faults) or f"{counts.sent} sent = {parts}"
    return Check("V01", "requests add up", value, "each sent request once", invalid_if(faults))


def check_order(frame: RunFrame) -> Check:
    """V02: due <= sent <= first <= last <= closed in every record."""
    records = frame.records
    is_open_loop = frame.manifest.workload.load.is_open_loop
    wrong = records.numbers["index"][_out_of_order(records, is_open_loop=is_open_loop)]
    value = f"{len(wrong)} record(s) out of order"
    if len(wrong):
        value += f", the first is request {wrong[0]}"
    return Check("V02", "instants in order", value, "0 records", invalid_if(len(wrong)))


def _out_of_order(records: RecordColumns, *, is_open_loop: bool) -> Bools:
    numbers = records.numbers
    wrong: Bools = np.concatenate([_goes_back(piece) for piece in records.pieces()])
    latest_ns = numbers["due_ns" if is_open_loop else "sent_ns"]
    for instants_ns in (
        numbers["sent_ns"],
        numbers["first_byte_ns"],
        records.first_ns,
        records.last_ns,
        numbers["closed_ns"],
    ):
        is_there = instants_ns != MISSING
        wrong |= is_there & (instants_ns < latest_ns)
        latest_ns = np.where(is_there, instants_ns, latest_ns)
    return wrong


def _goes_back(records: RecordColumns) -> Bools:
    """Which requests have an event that came before the one before it."""
    backwards = np.diff(records.events_ns, prepend=0) < 0
    backwards &= ~records.is_first_event
    goes_back: Bools = records.sum_by_request(backwards.astype(np.int64)) > 0
    return goes_back


def check_plan_reached(manifest: RunManifest) -> Check:
    """V03: the run ended by itself, with all of its requests sent."""
    counts = manifest.counts
    value = f"{manifest.status.value}, {counts.sent} of {counts.planned} sent"
    if manifest.failure:
        value += f": {manifest.failure}"
    is_short = manifest.status is not RunStatus.COMPLETE or counts.sent != counts.planned
    return Check("V03", "plan reached", value, "complete, all sent", invalid_if(is_short))


def check_percentile_floors(withheld: Sequence[str]) -> Check:
    """V05: which percentiles are withheld because too few requests support them."""
    verdict = CheckVerdict.WARN if withheld else CheckVerdict.PASS
    value = f"withheld: {', '.join(withheld)}" if withheld else "none withheld"
    return Check("V05", "percentiles supported", value, "p50 6, p90 36, p99 368 values", verdict)


def check_sent_share(manifest: RunManifest) -> Check:
    """V07: as many requests were sent as were planned."""
    title, limit = "sent as planned", "1 % WARN, 2 % INVALID"
    counts = manifest.counts
    if counts.planned == 0:
        return skipped("V07", title, limit)
    missing = abs(counts.planned - counts.sent) / counts.planned
    value = f"{counts.sent} of {counts.planned} sent"
    return Check("V07", title, value, limit, graded(missing, 0.01, 0.02))


def check_warmup(manifest: RunManifest) -> Check:
    """V20: the engine was warm when the measured part began."""
    title, limit = "warmed up", "1 request"
    if is_virtual(manifest):
        return skipped("V20", title, limit)
    verdict = CheckVerdict.PASS if manifest.warmup_requests else CheckVerdict.WARN
    return Check("V20", title, f"{manifest.warmup_requests} request(s)", limit, verdict)
