"""A run folder as tables: one row per request, per token event, and per step.

Instants and durations are float seconds, instants from the start of the run. NaN is "there is no
such value"; +inf is the latency of a request that failed, so that it ranks last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd

from harness.core.manifest import RunManifest
from harness.core.record import Outcome, RequestRecord, StepRecord
from harness.core.rundir import RunFolder
from harness.core.units import ns_to_s

REQUEST_COLUMNS = (
    "index",
    "label",
    "outcome",
    "error_kind",
    "due_s",
    "sent_s",
    "send_lag_s",
    "first_token_s",
    "last_token_s",
    "closed_s",
    "events",
    "prompt_tokens",
    "output_tokens_asked",
    "output_tokens",
    "ttft_s",
    "ttft_from_sent_s",
    "e2e_s",
    "tpot_s",
)
EVENT_COLUMNS = ("index", "outcome", "received_s", "tokens", "gap_s")
STEP_COLUMNS = (
    "started_s",
    "duration_s",
    "slots",
    "running",
    "padded",
    "waiting",
    "kv_blocks_used",
    "kv_blocks_total",
    "prefill_sequences",
    "prefill_tokens",
    "prefill_padding_tokens",
    "decode_tokens",
    "prefill_s",
    "decode_s",
)


@dataclass(frozen=True, slots=True, eq=False)
class RunFrame:
    """One run as tables, with the columns REQUEST_COLUMNS, EVENT_COLUMNS and STEP_COLUMNS.

    `events` holds the token events of all requests; `tokens` is how many each carried, and `gap_s`
    the time since the event before it, NaN for the first of a request. `steps` are those of the
    measured part: steps of the warm-up started before it.
    """

    manifest: RunManifest
    requests: pd.DataFrame
    events: pd.DataFrame
    steps: pd.DataFrame

    @property
    def gaps(self) -> pd.DataFrame:
        """The gaps between the chunks of requests that ended well, a row each."""
        is_gap = (self.events["outcome"] == Outcome.OK.value) & self.events["gap_s"].notna()
        return self.events[is_gap]


def frame_of(run: RunFolder) -> RunFrame:
    """The tables of `run`, requests in the order of their index."""
    records = sorted(run.requests, key=lambda record: record.index)
    is_open_loop = run.manifest.workload.load.is_open_loop
    start_ns = run.manifest.start_ns
    measured = (step for step in run.steps if step.started_ns >= start_ns)
    return RunFrame(
        manifest=run.manifest,
        requests=_table(
            (_request_row(r, is_open_loop=is_open_loop) for r in records), REQUEST_COLUMNS
        ),
        events=_table((row for r in records for row in _event_rows(r)), EVENT_COLUMNS),
        steps=_table((_step_row(step, start_ns) for step in measured), STEP_COLUMNS),
    )


def output_tokens(record: RequestRecord) -> int | None:
    """How many tokens came: the record's count, else that of its events, else None."""
    if record.output_tokens is not None:
        return record.output_tokens
    known = [tokens for tokens in record.events_tokens if tokens is not None]
    return sum(known) if len(known) == len(record.events_tokens) else None


def event_tokens(record: RequestRecord) -> tuple[float, ...]:
    """How many tokens each event carried; when not said, an even share of the record's count.

    NaN for each when the record has no count either.
    """
    known = [float(tokens) for tokens in record.events_tokens if tokens is not None]
    if len(known) == len(record.events_tokens):
        return tuple(known)
    events = len(record.events_tokens)
    share = math.nan if record.output_tokens is None else record.output_tokens / events
    return (share,) * events


def _request_row(record: RequestRecord, *, is_open_loop: bool) -> Sequence[object]:
    first_ns = record.events_ns[0] if record.events_ns else None
    last_ns = record.events_ns[-1] if record.events_ns else None
    zero_ns = record.due_ns if is_open_loop else record.sent_ns
    row = {
        "index": record.index,
        "label": record.label,
        "outcome": record.outcome.value,
        "error_kind": record.error.kind if record.error else "",
        "due_s": ns_to_s(record.due_ns),
        "sent_s": ns_to_s(record.sent_ns),
        "send_lag_s": ns_to_s(record.sent_ns - record.due_ns) if is_open_loop else math.nan,
        "first_token_s": _seconds(first_ns),
        "last_token_s": _seconds(last_ns),
        "closed_s": _seconds(record.closed_ns),
        "events": len(record.events_ns),
        "prompt_tokens": _number(record.prompt_tokens),
        "output_tokens_asked": record.output_tokens_asked,
        "output_tokens": _number(output_tokens(record)),
        "ttft_s": _latency(record, _seconds(first_ns, zero_ns)),
        "ttft_from_sent_s": _latency(record, _seconds(first_ns, record.sent_ns)),
        "e2e_s": _latency(record, _seconds(last_ns, zero_ns)),
        "tpot_s": _tpot(record),
    }
    return [row[column] for column in REQUEST_COLUMNS]


def _latency(record: RequestRecord, seconds: float) -> float:
    if record.outcome is Outcome.FAILED:
        return math.inf
    return seconds if record.outcome is Outcome.OK else math.nan


def _tpot(record: RequestRecord) -> float:
    if record.outcome is Outcome.FAILED:
        return math.inf if record.output_tokens_asked >= 2 else math.nan
    if record.outcome is not Outcome.OK:
        return math.nan
    tokens = output_tokens(record) or 0
    # One event that holds the whole answer says nothing about the time between its tokens.
    if min(tokens, len(record.events_ns)) < 2:
        return math.nan
    return ns_to_s(record.events_ns[-1] - record.events_ns[0]) / (tokens - 1)


def _event_rows(record: RequestRecord) -> Iterable[Sequence[object]]:
    gaps_s = (math.nan, *(ns_to_s(after - before) for before, after in pairwise(record.events_ns)))
    for received_ns, tokens, gap_s in zip(
        record.events_ns, event_tokens(record), gaps_s, strict=False
    ):
        yield record.index, record.outcome.value, ns_to_s(received_ns), tokens, gap_s


def _step_row(step: StepRecord, start_ns: int) -> Sequence[object]:
    seconds = {
        "started_s": ns_to_s(step.started_ns - start_ns),
        "duration_s": ns_to_s(step.duration_ns),
        "prefill_s": ns_to_s(step.prefill_ns),
        "decode_s": ns_to_s(step.decode_ns),
    }
    return [seconds[c] if c in seconds else getattr(step, c) for c in STEP_COLUMNS]


def _table(rows: Iterable[Sequence[object]], columns: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(columns))


def _seconds(instant_ns: int | None, zero_ns: int = 0) -> float:
    return math.nan if instant_ns is None else ns_to_s(instant_ns - zero_ns)


def _number(count: int | None) -> float:
    return math.nan if count is None else float(count)
