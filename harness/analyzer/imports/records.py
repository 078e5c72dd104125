"""The requests of another tool's file as records of ours."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from harness.analyzer.imports.fields import LONGEST_S
from harness.analyzer.imports.result import Result, Row, TokenKind
from harness.core.errors import UsageError
from harness.core.record import Outcome, RequestError, RequestRecord, TokenSource
from harness.core.units import s_to_ns

_SOURCES = {TokenKind.SERVER: TokenSource.FINAL_USAGE, TokenKind.CHUNKS: TokenSource.CHUNKS}


def usable_rows(result: Result) -> tuple[Row, ...]:
    """The requests of `result`; none when the file kept only some of those that ended well."""
    well = sum(row.outcome is Outcome.OK for row in result.rows)
    return result.rows if result.completed in (None, well) else ()


def has_starts(rows: Sequence[Row]) -> bool:
    """Whether it is known of every request when it was sent."""
    return bool(rows) and all(row.sent_s is not None for row in rows)


def has_gaps(rows: Sequence[Row]) -> bool:
    """Whether the times between the chunks of every request that ended well are known."""
    ok = [row for row in rows if row.outcome is Outcome.OK]
    return bool(ok) and all(row.gaps_s is not None for row in ok)


def has_due(rows: Sequence[Row]) -> bool:
    """Whether it is known of every request when it was due."""
    return has_starts(rows) and all(row.due_s is not None for row in rows)


def records_of(result: Result, rows: Sequence[Row]) -> tuple[RequestRecord, ...]:
    """`rows` as records, in order of sending where that is known.

    Without the instants of sending all requests stand as sent at once, so that nothing that
    depends on these instants may be computed from the records. Raises UsageError when the instants
    lie further apart than any run.
    """
    sent_s = [row.sent_s or 0.0 for row in rows] if has_starts(rows) else [0.0] * len(rows)
    due_s = [row.due_s or 0.0 for row in rows] if has_due(rows) else sent_s
    zero_s = min((*sent_s, *due_s), default=0.0)
    length_s = max((*sent_s, *due_s), default=0.0) - zero_s
    longest_s = max((end for row in rows for end in _events_s(row)[-1:]), default=0.0)
    if not max(length_s, longest_s) <= LONGEST_S:
        msg = f"its requests came over {length_s:g} s, the longest took {longest_s:g} s: no run"
        raise UsageError(msg)
    order = sorted(range(len(rows)), key=lambda i: due_s[i])
    return tuple(
        _record(result, rows[i], index, s_to_ns(due_s[i] - zero_s), s_to_ns(sent_s[i] - zero_s))
        for index, i in enumerate(order)
    )


def _record(result: Result, row: Row, index: int, due_ns: int, sent_ns: int) -> RequestRecord:
    events_ns = tuple(sent_ns + s_to_ns(second) for second in _events_s(row))
    asked = result.output_tokens_asked or row.output_tokens
    error = RequestError("imported", _safe(row.error)) if row.outcome is Outcome.FAILED else None
    return RequestRecord(
        index=index,
        label="request",
        due_ns=due_ns,
        sent_ns=sent_ns,
        first_byte_ns=None,
        events_ns=events_ns,
        events_tokens=(None,) * len(events_ns),
        closed_ns=events_ns[-1] if events_ns else None,
        prompt_tokens_asked=row.prompt_tokens or 0,
        # Two are asked for where it is not said, so that a failure ranks in TPOT as well.
        output_tokens_asked=2 if asked is None or error is not None else asked,
        prompt_tokens=row.prompt_tokens,
        output_tokens=row.output_tokens,
        output_tokens_source=_SOURCES.get(result.tokens),
        finish_reason=None,
        outcome=row.outcome,
        error=error,
        http_status=None,
        bytes_received=0,
    )


def _safe(text: str) -> str:
    """`text` without lone surrogates, which no file can hold, and not long."""
    return text[:200].encode(errors="replace").decode()


def _events_s(row: Row) -> tuple[float, ...]:
    """When the chunks of a request came, from its sending on: all, or only the first and the last.

    A time of 0 is none: nothing is received at the instant of sending.
    """
    if not row.ttft_s:
        return (row.e2e_s,) if row.e2e_s and row.ttft_s is None else ()
    if row.gaps_s is not None:
        return tuple(accumulate(row.gaps_s, initial=row.ttft_s))
    if row.e2e_s is not None and row.e2e_s > row.ttft_s and (row.output_tokens or 2) > 1:
        return (row.ttft_s, row.e2e_s)
    return (row.ttft_s,)
