"""Is this run fit to be quoted? A row of small named checks, each with what it saw and its limit.

Numbers of checks that a run folder cannot answer (client load, steadiness, ...) are left free.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from harness.analyzer.estimators import percentile
from harness.analyzer.frame import RunFrame
from harness.analyzer.summary import Check, CheckVerdict, Validity
from harness.core.manifest import RunManifest, RunStatus
from harness.core.record import Outcome, RequestRecord, TokenSource
from harness.core.rundir import RunFolder

LAG_WARN_S = 0.010
LATENESS_WARN, LATENESS_INVALID = 0.01, 0.05
LATENESS_IGNORED_S = 0.001


def check_run(run: RunFolder, frame: RunFrame, withheld: Sequence[str]) -> tuple[Check, ...]:
    """All checks of `run`: `frame` is its tables, `withheld` the percentiles it cannot support."""
    return (
        check_accounting(run),
        check_order(run),
        check_plan_reached(run.manifest),
        check_percentile_floors(withheld),
        check_send_lag(frame),
        check_sent_share(run.manifest),
        check_failures(run.requests),
        check_token_counts(run.requests),
        check_warmup(run.manifest),
    )


def overall_validity(checks: Iterable[Check]) -> Validity:
    """The worst that `checks` say."""
    verdicts = {check.verdict for check in checks}
    if CheckVerdict.INVALID in verdicts:
        return Validity.INVALID
    return Validity.WARN if CheckVerdict.WARN in verdicts else Validity.VALID


def check_accounting(run: RunFolder) -> Check:
    """V01: sent = ok + failed + cancelled + unfinished, in the counts and in the records."""
    counts = run.manifest.counts
    outcomes = {outcome.value: getattr(counts, outcome.value) for outcome in Outcome}
    indices = Counter(record.index for record in run.requests)
    faults = [f"request {i} is recorded {n} times" for i, n in indices.items() if n > 1]
    # A run that was killed never wrote its counts, so there is nothing to hold the records against.
    if run.manifest.status is not RunStatus.RUNNING:
        seen = Counter(record.outcome.value for record in run.requests)
        if counts.in_flight != 0:
            faults.append(f"{counts.in_flight} of {counts.sent} sent have no outcome")
        faults += [
            f"{seen[name]} recorded as {name}, {count} counted"
            for name, count in outcomes.items()
            if seen[name] != count
        ]
    parts = " + ".join(f"{count} {name}" for name, count in outcomes.items())
    value = "; ".join(faults) or f"{counts.sent} sent = {parts}"
    return Check("V01", "requests add up", value, "each sent request once", _invalid_if(faults))


def check_order(run: RunFolder) -> Check:
    """V02: due <= sent <= first <= last <= closed in every record."""
    is_open_loop = run.manifest.workload.load.is_open_loop
    wrong = [
        record.index
        for record in run.requests
        if not _is_ordered(record, is_open_loop=is_open_loop)
    ]
    value = f"{len(wrong)} record(s) out of order"
    if wrong:
        value += f", the first is request {wrong[0]}"
    return Check("V02", "instants in order", value, "0 records", _invalid_if(wrong))


def _is_ordered(record: RequestRecord, *, is_open_loop: bool) -> bool:
    due = (record.due_ns,) if is_open_loop else ()
    line = (*due, record.sent_ns, record.first_byte_ns, *record.events_ns, record.closed_ns)
    return all(before <= after for before, after in pairwise(ns for ns in line if ns is not None))


def check_plan_reached(manifest: RunManifest) -> Check:
    """V03: the run ended by itself, with all of its requests sent."""
    counts = manifest.counts
    value = f"{manifest.status.value}, {counts.sent} of {counts.planned} sent"
    if manifest.failure:
        value += f": {manifest.failure}"
    is_short = manifest.status is not RunStatus.COMPLETE or counts.sent != counts.planned
    return Check("V03", "plan reached", value, "complete, all sent", _invalid_if(is_short))


def check_percentile_floors(withheld: Sequence[str]) -> Check:
    """V05: which percentiles are withheld because too few requests support them."""
    verdict = CheckVerdict.WARN if withheld else CheckVerdict.PASS
    value = f"withheld: {', '.join(withheld)}" if withheld else "none withheld"
    return Check("V05", "percentiles supported", value, "p50 6, p90 36, p99 368 values", verdict)


def check_send_lag(frame: RunFrame) -> Check:
    """V06: the client sent on time, or its lateness did not matter (open loop on a real clock)."""
    title, limit = "client on time", "p99 lag 10 ms; TTFT p50 moved by 5 % and 1 ms"
    is_open_loop = frame.manifest.workload.load.is_open_loop
    if not is_open_loop or is_virtual(frame.manifest) or frame.requests.empty:
        return _skipped("V06", title, limit)
    lag_s = percentile(frame.requests["send_lag_s"].tolist(), 99)
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
    from_due = frame.requests["ttft_s"].dropna().tolist()
    if not from_due:
        return 0.0, 0.0
    due_s = percentile(from_due, 50)
    sent_s = percentile(frame.requests["ttft_from_sent_s"].dropna().tolist(), 50)
    if math.isinf(due_s) or sent_s <= 0:
        return 0.0, 0.0
    return due_s - sent_s, (due_s - sent_s) / sent_s


def check_sent_share(manifest: RunManifest) -> Check:
    """V07: as many requests were sent as were planned."""
    title, limit = "sent as planned", "1 % WARN, 2 % INVALID"
    counts = manifest.counts
    if counts.planned == 0:
        return _skipped("V07", title, limit)
    missing = abs(counts.planned - counts.sent) / counts.planned
    value = f"{counts.sent} of {counts.planned} sent"
    return Check("V07", title, value, limit, _graded(missing, 0.01, 0.02))


def check_failures(records: Sequence[RequestRecord]) -> Check:
    """V15: how many requests failed."""
    title, limit = "requests failed", "0 WARN, 1 % INVALID"
    if not records:
        return _skipped("V15", title, limit)
    failed = sum(record.outcome is Outcome.FAILED for record in records)
    value = f"{failed} of {len(records)} ({failed / len(records):.2%})"
    return Check("V15", title, value, limit, _graded(failed / len(records), 0.0, 0.01))


def check_token_counts(records: Sequence[RequestRecord]) -> Check:
    """V16: streamed tokens agree with usage, and answers are as long as was asked."""
    title, limit = "token counts agree", "0.1 % WARN, 1 % INVALID of requests"
    counted = [record for record in records if has_token_count(record)]
    if not counted:
        return _skipped("V16", title, limit)
    differ = sum(stream_differs(record) for record in counted)
    other = sum(length_differs(record) for record in counted)
    share = sum(stream_differs(r) or length_differs(r) for r in counted) / len(counted)
    value = (
        f"of {len(counted)} requests {differ} streamed another count than their usage, "
        f"{other} have not the length asked"
    )
    return Check("V16", title, value, limit, _graded(share, 0.001, 0.01))


def has_token_count(record: RequestRecord) -> bool:
    """True when the request ended well and its tokens, not only its chunks, were counted."""
    is_known = record.output_tokens is not None or not record.events_ns
    return (
        record.outcome is Outcome.OK
        and is_known
        and record.output_tokens_source is not TokenSource.CHUNKS
    )


def stream_differs(record: RequestRecord) -> bool:
    """True when the tokens of the stream were counted and are not as many as the usage says."""
    streamed = [tokens for tokens in record.events_tokens if tokens is not None]
    is_counted = len(streamed) == len(record.events_tokens)
    return is_counted and sum(streamed) != (record.output_tokens or 0)


def length_differs(record: RequestRecord) -> bool:
    """True when the answer is not as long as was asked for."""
    return (record.output_tokens or 0) != record.output_tokens_asked


def check_warmup(manifest: RunManifest) -> Check:
    """V20: the engine was warm when the measured part began."""
    title, limit = "warmed up", "1 request"
    if is_virtual(manifest):
        return _skipped("V20", title, limit)
    verdict = CheckVerdict.PASS if manifest.warmup_requests else CheckVerdict.WARN
    return Check("V20", title, f"{manifest.warmup_requests} request(s)", limit, verdict)


def is_virtual(manifest: RunManifest) -> bool:
    """True when the run was simulated."""
    return manifest.clock == "virtual"


def _invalid_if(fault: object) -> CheckVerdict:
    return CheckVerdict.INVALID if fault else CheckVerdict.PASS


def _graded(share: float, warn: float, invalid: float) -> CheckVerdict:
    if share > invalid:
        return CheckVerdict.INVALID
    return CheckVerdict.WARN if share > warn else CheckVerdict.PASS


def _skipped(check_id: str, title: str, limit: str) -> Check:
    return Check(check_id, title, "does not apply", limit, CheckVerdict.SKIPPED)
