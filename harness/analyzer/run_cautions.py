"""The doubts that a run carries along, wherever its numbers are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.analyzer.estimators import floor_n, percentile
from harness.analyzer.frame import RunFrame
from harness.analyzer.summary import Check, CheckVerdict
from harness.analyzer.validity import (
    has_token_count,
    is_virtual,
    length_differs,
    stream_differs,
)
from harness.core.cautions import Caution, Code, caution
from harness.core.manifest import RunManifest, RunStatus
from harness.core.record import Outcome, RequestRecord
from harness.core.rundir import RunFolder

COALESCED_SHARE = 0.01


def run_cautions(run: RunFolder, frame: RunFrame, checks: Sequence[Check]) -> tuple[Caution, ...]:
    """Every caution about `run`; first those that were found in reading its folder."""
    return (
        *run.cautions,
        *_about_the_end(run.manifest),
        *_about_requests(run.requests),
        *_about_time(frame, checks),
    )


def _about_the_end(manifest: RunManifest) -> Iterator[Caution]:
    if manifest.status is RunStatus.INTERRUPTED:
        counts = manifest.counts
        yield caution(Code.RUN_INTERRUPTED, sent=counts.sent, planned=counts.planned)
    if manifest.status is RunStatus.RUNNING:
        yield caution(Code.RUN_NOT_CLOSED)


def _about_requests(records: Sequence[RequestRecord]) -> Iterator[Caution]:
    if failed := sum(record.outcome is Outcome.FAILED for record in records):
        yield caution(Code.REQUESTS_FAILED, failed=failed, sent=len(records))
    for percent in (50, 90, 99):
        if 0 < len(records) < floor_n(percent):
            yield caution(
                Code.TOO_FEW_REQUESTS,
                requests=len(records),
                percentile=f"p{percent}",
                needed=floor_n(percent),
            )
    counted = [record for record in records if has_token_count(record)]
    if differ := sum(stream_differs(record) for record in counted):
        yield caution(Code.TOKEN_COUNTS_DIFFER, requests=differ)
    if other := sum(length_differs(record) for record in counted):
        yield caution(Code.OUTPUT_NOT_AS_ASKED, requests=other)
    if (share := coalesced_share(records)) > COALESCED_SHARE:
        yield caution(Code.COALESCED_CHUNKS, share=share)


def coalesced_share(records: Sequence[RequestRecord]) -> float:
    """Share of the reads with tokens that carried more than one; an unknown count is one."""
    reads: Counter[tuple[int, int]] = Counter()
    for record in records:
        for received_ns, tokens in zip(record.events_ns, record.events_tokens, strict=False):
            reads[record.index, received_ns] += 1 if tokens is None else tokens
    return sum(tokens > 1 for tokens in reads.values()) / len(reads) if reads else 0.0


def _about_time(frame: RunFrame, checks: Sequence[Check]) -> Iterator[Caution]:
    late = (CheckVerdict.WARN, CheckVerdict.INVALID)
    if any(check.id == "V06" and check.verdict in late for check in checks):
        lag_s = percentile(frame.requests["send_lag_s"].tolist(), 99)
        yield caution(Code.CLIENT_LAGGED, lag_ms=lag_s * 1e3)
    if frame.steps.empty:
        yield caution(Code.NO_STEP_LOG)
    if is_virtual(frame.manifest):
        yield caution(Code.VIRTUAL_TIME)
