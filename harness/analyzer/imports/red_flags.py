"""What is doubtful about a result, beyond what its own format raises. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.analyzer.imports.consistency import counted_failures, doubtful_units
from harness.analyzer.imports.fields import Notes
from harness.analyzer.imports.flags import Flag, raised
from harness.analyzer.imports.result import Format, Result, Row, TokenKind
from harness.core.cautions import Caution
from harness.core.record import Outcome
from harness.core.workload import LoadKind

SHORT_OF_ASKED = 0.02
CHUNKS_TO_TPOT = 1.2


def red_flags(form: Format, result: Result, notes: Notes, faults: Sequence[str]) -> list[Caution]:
    """Every caution about `result`, whose faults are `faults`."""
    return [
        *(raised(Flag.FILE_CONTRADICTS_ITSELF, fault=fault) for fault in faults),
        *(raised(Flag.UNITS_DOUBTFUL, what=what) for what in doubtful_units(result)),
        *_failures(form, result),
        *_zeros(result),
        *_duplicates(result.rows),
        *_tokens(result),
        *_load(result),
        *result.cautions,
        *_texts(notes),
    ]


def _failures(form: Format, result: Result) -> Iterator[Caution]:
    failed = failures(result)
    if failed is None:
        yield raised(Flag.FAILURES_NOT_SAID)
    elif failed and result.failed is None:
        yield raised(Flag.FAILURES_BY_DIFFERENCE, failed=failed, planned=result.planned)
    elif failed:
        sent = failed + (result.completed or 0) + result.cancelled
        yield raised(Flag.FAILURES_LEFT_OUT, failed=failed, sent=sent, tool=form.tool)
    if (counted := counted_failures(result)) is not None and result.duration_s:
        yield raised(
            Flag.FAILURES_IN_RATES,
            failed=counted,
            claimed=result.value("request_s"),
            right=(result.completed or 0) / result.duration_s,
        )
    if result.cancelled:
        yield raised(Flag.REQUESTS_CANCELLED, cancelled=result.cancelled)


def failures(result: Result) -> int | None:
    """How many requests failed: as the file says, or those planned that did not end well."""
    if result.failed is not None or result.completed is None or result.planned is None:
        return result.failed
    return max(result.planned - result.completed - result.cancelled, 0)


def _zeros(result: Result) -> Iterator[Caution]:
    ok = [row for row in result.rows if row.outcome is Outcome.OK]
    empty = sum(row.output_tokens == 0 for row in ok)
    if empty:
        yield raised(Flag.EMPTY_ANSWERS, requests=empty)
    at_once = sum(row.ttft_s == 0 and row.output_tokens != 0 for row in ok)
    if at_once:
        yield raised(Flag.ZERO_LATENCIES, what=f"TTFT of {at_once} request(s)")
    for claim in result.claims:
        is_telling = claim.statistic in ("mean", "p50", "p99", "max")
        if is_telling and claim.value == 0 and claim.quantity in ("ttft_s", "tpot_s", "e2e_s"):
            yield raised(Flag.ZERO_LATENCIES, what=claim.key)
    if result.completed == 0:
        yield raised(Flag.NO_REQUEST_ENDED_WELL)


def _duplicates(rows: Sequence[Row]) -> Iterator[Caution]:
    """Clocks count nanoseconds: two requests with the same times to the last digit are one."""
    seen = Counter(
        row.id if row.id is not None else (row.sent_s, row.ttft_s, row.e2e_s, row.gaps_s)
        for row in rows
        if row.id is not None or row.ttft_s or row.e2e_s
    )
    if again := sum(number - 1 for number in seen.values()):
        yield raised(Flag.DUPLICATED_REQUESTS, requests=again)


def _tokens(result: Result) -> Iterator[Caution]:
    if result.tokens is not TokenKind.SERVER:
        yield raised(Flag.TOKEN_COUNTS_UNSURE, tokens=result.tokens.value)
    asked = result.output_tokens_asked
    if asked and result.completed and result.output_tokens is not None:
        mean = result.output_tokens / result.completed
        if mean < (1 - SHORT_OF_ASKED) * asked:
            yield raised(Flag.OUTPUT_SHORTER_THAN_ASKED, mean=mean, asked=asked)
    gap, each = result.value("inter_chunk_s", "mean"), result.value("tpot_s", "mean")
    if gap and each and gap > CHUNKS_TO_TPOT * each:
        yield raised(Flag.CHUNKS_ARE_NOT_TOKENS, ratio=gap / each)


def _load(result: Result) -> Iterator[Caution]:
    load = result.load
    if load is None or not load.is_timed:
        return
    if result.concurrency and load.rate_rps and load.kind is not LoadKind.REPLAY:
        yield raised(Flag.QUEUE_IN_CLIENT, rate=load.rate_rps, concurrency=result.concurrency)
    if not all(row.due_s is not None for row in result.rows) or not result.rows:
        yield raised(Flag.TIMES_NOT_OF_DUE)


def _texts(notes: Notes) -> Iterator[Caution]:
    if notes.texts:
        yield raised(Flag.NUMBERS_AS_TEXT, count=len(notes.texts), key=notes.texts[0])
