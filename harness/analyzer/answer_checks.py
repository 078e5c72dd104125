"""Are the answers what they should be? Failures, token counts, and how the streams came in."""

from __future__ import annotations

import numpy as np

from harness.analyzer.columns import MISSING, Bools, Ints, RecordColumns
from harness.analyzer.frame import output_tokens
from harness.analyzer.grading import graded, skipped
from harness.analyzer.summary import Check
from harness.core.record import Outcome, TokenSource
from harness.core.units import NS_PER_MS

# A stream was held back and let go at once if its first token came so late in it, and its gaps are
# mostly shorter than any decode step. An answer with fewer tokens does not show it.
BUFFERED_AFTER = 0.9
BUFFERED_GAP_NS = NS_PER_MS
BUFFERED_TOKENS = 16


def check_failures(records: RecordColumns) -> Check:
    """V15: how many requests failed."""
    title, limit = "requests failed", "0 WARN, 1 % INVALID"
    if not len(records):
        return skipped("V15", title, limit)
    failed = int(records.came_out(Outcome.FAILED).sum())
    value = f"{failed} of {len(records)} ({failed / len(records):.2%})"
    return Check("V15", title, value, limit, graded(failed / len(records), 0.0, 0.01))


def check_token_counts(records: RecordColumns) -> Check:
    """V16: streamed tokens agree with usage, and answers are as long as was asked."""
    title, limit = "token counts agree", "0.1 % WARN, 1 % INVALID of requests"
    counted = int(_has_token_count(records).sum())
    if not counted:
        return skipped("V16", title, limit)
    differs, is_other = stream_differs(records), length_differs(records)
    value = (
        f"of {counted} requests {differs.sum()} streamed another count than their usage, "
        f"{is_other.sum()} have not the length asked"
    )
    share = float((differs | is_other).sum()) / counted
    return Check("V16", title, value, limit, graded(share, 0.001, 0.01))


def stream_differs(records: RecordColumns) -> Bools:
    """Which streams carried another number of tokens than a usage says, where both count."""
    streamed, last_usage = records.streamed_tokens, records.numbers["usage_tokens"]
    differs: Bools = (streamed != MISSING) & (streamed != _usage(records))
    differs |= (last_usage != MISSING) & (last_usage != _usage(records))
    return differs & _has_token_count(records)


def first_event_bundled(records: RecordColumns) -> Bools:
    """Which answers had several tokens in their first event, and an event after it."""
    bundled: Bools = records.first_tokens > 1
    return bundled & _has_tpot(records)


def first_event_assumed(records: RecordColumns) -> Bools:
    """Which answers are taken to have had one token in their first event, and may have had more.

    As many events as tokens, where tokens were counted, carried one each.
    """
    is_one_each = records.event_counts == records.numbers["output_tokens"]
    is_one_each &= _has_token_count(records)
    assumed: Bools = (records.first_tokens == MISSING) & ~is_one_each
    return assumed & _has_tpot(records)


def _has_tpot(records: RecordColumns) -> Bools:
    """Which requests ended well with a time per output token."""
    has: Bools = (output_tokens(records) >= 2) & (records.event_counts >= 2)
    return has & records.came_out(Outcome.OK)


def length_differs(records: RecordColumns) -> Bools:
    """Which answers are not as long as was asked for."""
    is_other: Bools = _usage(records) != records.numbers["output_tokens_asked"]
    return is_other & _has_token_count(records)


def _has_token_count(records: RecordColumns) -> Bools:
    """Which requests ended well and had their tokens, not only their chunks, counted."""
    sources = records.words["output_tokens_source"]
    is_of_tokens: Bools = np.array(
        [source is not TokenSource.CHUNKS for source in sources], dtype=bool
    )
    is_known: Bools = (records.numbers["output_tokens"] != MISSING) | (records.event_counts == 0)
    is_known &= is_of_tokens & records.came_out(Outcome.OK)
    return is_known


def _usage(records: RecordColumns) -> Ints:
    counted = records.numbers["output_tokens"]
    return np.where(counted == MISSING, 0, counted)


def coalesced_share(records: RecordColumns) -> float:
    """Share of the reads with tokens that carried more than one; an unknown count is one."""
    counted = [_coalesced(piece) for piece in records.pieces()]
    coalesced, reads = (sum(column) for column in zip(*counted, strict=True))
    return coalesced / reads if reads else 0.0


def _coalesced(records: RecordColumns) -> tuple[int, int]:
    """How many reads with tokens carried more than one, and how many there were."""
    if not len(records.events_ns):
        return 0, 0
    begins_read = records.is_first_event | (np.diff(records.events_ns, prepend=0) != 0)
    tokens = np.where(records.events_tokens == MISSING, 1, records.events_tokens)
    by_read = np.add.reduceat(tokens, np.flatnonzero(begins_read))
    return int((by_read > 1).sum()), len(by_read)


def buffered_share(records: RecordColumns) -> float:
    """Share of the long answers that came in at the end of their request, all at once.

    Something between engine and client then holds streams back, or the engine does not stream.
    """
    first_ns, last_ns = records.first_ns, records.last_ns
    sent_ns = records.numbers["sent_ns"]
    is_long = records.came_out(Outcome.OK) & (output_tokens(records) >= BUFFERED_TOKENS)
    is_long &= records.event_counts > 0
    if not is_long.any():
        return 0.0
    wide_gaps = np.concatenate([_wide_gaps(piece) for piece in records.pieces()])
    is_late = (first_ns - sent_ns) > BUFFERED_AFTER * (last_ns - sent_ns)
    return float((is_late & (2 * wide_gaps < records.event_counts))[is_long].mean())


def _wide_gaps(records: RecordColumns) -> Ints:
    is_wide = np.diff(records.events_ns, prepend=0) >= BUFFERED_GAP_NS
    is_wide &= ~records.is_first_event
    return records.sum_by_request(is_wide.astype(np.int64))
