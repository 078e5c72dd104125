"""The doubts that a run carries along, wherever its numbers are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analyzer.answer_checks import (
    buffered_share,
    coalesced_share,
    first_event_assumed,
    first_event_bundled,
    length_differs,
    stream_differs,
)
from harness.analyzer.columns import RecordColumns
from harness.analyzer.estimators import floor_n, percentile
from harness.analyzer.frame import RunFrame, cached_share
from harness.analyzer.grading import is_virtual
from harness.analyzer.prompt_checks import CACHED_WARN, is_cache_known_off
from harness.analyzer.summary import Check, CheckVerdict
from harness.core.cautions import Caution, Code, caution
from harness.core.manifest import RunManifest, RunStatus
from harness.core.record import Outcome
from harness.core.rundir import RunFolder

COALESCED_SHARE = 0.01
BUFFERED_SHARE = 0.5


def run_cautions(run: RunFolder, frame: RunFrame, checks: Sequence[Check]) -> tuple[Caution, ...]:
    """Every caution about `run`; first those that were found in reading its folder."""
    return (
        *run.cautions,
        *_about_the_end(run.manifest),
        *_about_the_engine(run.manifest),
        *_about_requests(frame.records),
        *_about_streams(frame.records),
        *_about_prompts(frame),
        *_about_time(frame, checks),
    )


def _about_the_end(manifest: RunManifest) -> Iterator[Caution]:
    if manifest.status is RunStatus.INTERRUPTED:
        counts = manifest.counts
        yield caution(Code.RUN_INTERRUPTED, sent=counts.sent, planned=counts.planned)
    if manifest.status is RunStatus.RUNNING:
        yield caution(Code.RUN_NOT_CLOSED)


def _about_the_engine(manifest: RunManifest) -> Iterator[Caution]:
    # Adapters note this only when the engine has a version that they were not written for.
    written_for = manifest.facts.settings.get("adapter_written_for")
    if written_for is not None:
        yield caution(
            Code.ENGINE_VERSION_UNTRIED,
            engine=manifest.engine.name,
            version=manifest.facts.version,
            written_for=written_for,
        )


def _about_requests(records: RecordColumns) -> Iterator[Caution]:
    if failed := int(records.came_out(Outcome.FAILED).sum()):
        yield caution(Code.REQUESTS_FAILED, failed=failed, sent=len(records))
    for percent in (50, 90, 99):
        if 0 < len(records) < floor_n(percent):
            yield caution(
                Code.TOO_FEW_REQUESTS,
                requests=len(records),
                percentile=f"p{percent}",
                needed=floor_n(percent),
            )
    if again := int((records.numbers["retries"] > 0).sum()):
        yield caution(Code.REQUESTS_RETRIED, requests=again)


def _about_streams(records: RecordColumns) -> Iterator[Caution]:
    if differ := int(stream_differs(records).sum()):
        yield caution(Code.TOKEN_COUNTS_DIFFER, requests=differ)
    if other := int(length_differs(records).sum()):
        yield caution(Code.OUTPUT_NOT_AS_ASKED, requests=other)
    if (share := coalesced_share(records)) > COALESCED_SHARE:
        yield caution(Code.COALESCED_CHUNKS, share=share)
    if bundled := int(first_event_bundled(records).sum()):
        yield caution(Code.FIRST_EVENT_BUNDLED, requests=bundled)
    if assumed := int(first_event_assumed(records).sum()):
        yield caution(Code.FIRST_EVENT_ASSUMED, requests=assumed)
    if (share := buffered_share(records)) > BUFFERED_SHARE:
        yield caution(Code.STREAM_LOOKS_BUFFERED, share=share)


def _about_prompts(frame: RunFrame) -> Iterator[Caution]:
    share, work = cached_share(frame.records), frame.manifest.workload
    if share is not None and share >= CACHED_WARN and not frame.manifest.engine.prefix_cache:
        yield caution(Code.PREFIX_CACHE_HIT, share=share)
    distinct = work.distinct_prompts
    is_repeated = distinct is not None and distinct < work.requests
    if is_repeated and not is_cache_known_off(frame.manifest, share):
        yield caution(Code.REPEATED_PROMPTS, requests=work.requests, distinct=distinct)


def _about_time(frame: RunFrame, checks: Sequence[Check]) -> Iterator[Caution]:
    late = (CheckVerdict.WARN, CheckVerdict.INVALID)
    if any(check.id == "V06" and check.verdict in late for check in checks):
        lag_s = percentile(frame.requests["send_lag_s"], 99)
        yield caution(Code.CLIENT_LAGGED, lag_ms=lag_s * 1e3)
    if frame.cut_s > 0:
        yield caution(
            Code.BEGINNING_LEFT_OUT,
            cut_s=frame.cut_s,
            left_out=int((~frame.is_settled).sum()),
            requests=len(frame.requests),
        )
    if frame.steps.empty:
        yield caution(Code.NO_STEP_LOG)
    if is_virtual(frame.manifest):
        yield caution(Code.VIRTUAL_TIME)
