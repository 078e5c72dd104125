"""A run folder as tables: one row per request, and per step.

Instants and durations are float seconds, instants from the start of the run. NaN is "there is no
such value"; +inf is the latency of a request that failed, so that it ranks last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from harness.analyzer.columns import (
    MISSING,
    Bools,
    Floats,
    Ints,
    RecordColumns,
    columns_of,
    seconds,
)
from harness.core.engine import EngineSample
from harness.core.manifest import RunManifest
from harness.core.record import Outcome, StepRecord
from harness.core.rundir import RunFolder
from harness.core.units import NS_PER_S

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
    "normalized_latency_s",
    "time_to_first_event_s",
    "time_to_first_answer_s",
    "tpot_after_first_event_s",
)
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
    "prefill_context_tokens",
    "decode_context_tokens",
    "outside_s",
    "kv_tokens_stored",
    "kv_tokens_unfilled",
    "kv_tokens_over_reserved",
    "kv_blocks_stranded",
    "preempted",
    "prefix_hit_tokens",
    "read_bytes",
    "flops",
)
_OUTCOME_NAMES = {outcome: outcome.value for outcome in Outcome}
_COUNTS = tuple(name for name in STEP_COLUMNS if not name.endswith("_s"))


@dataclass(frozen=True, eq=False)
class RunFrame:
    """One run as tables, with the columns REQUEST_COLUMNS and STEP_COLUMNS.

    `records` is what the tables are made of: the same requests, in the same order, in nanoseconds.
    `steps` are those of the measured part: steps of the warm-up started before it. `samples` are
    what the engine said of itself, in order; `server_samples` reads them. Before `cut_s` the run
    had not settled: latencies are of the requests due since, and rates begin there. The tables hold
    all of it.
    """

    manifest: RunManifest
    records: RecordColumns
    requests: pd.DataFrame
    steps: pd.DataFrame
    samples: Sequence[EngineSample] = ()
    cut_s: float = 0.0

    @cached_property
    def is_settled(self) -> Bools:
        """Which requests were due since the cut; all where there is none."""
        due_s = self.requests["due_s"].to_numpy()
        return due_s >= self.cut_s if self.cut_s > 0 else np.ones(len(due_s), dtype=bool)

    @cached_property
    def settled(self) -> pd.DataFrame:
        """Those of the requests."""
        return self.requests[self.is_settled] if self.cut_s > 0 else self.requests

    @cached_property
    def gaps_s(self) -> Floats:
        """The gaps between the chunks of settled requests that ended well, in ascending order."""
        is_meant = self.is_settled & self.records.came_out(Outcome.OK)
        counts = self.records.event_counts
        gaps_s = np.empty(int(np.maximum(counts - 1, 0)[is_meant].sum()))
        begun, filled = 0, 0
        for piece in self.records.pieces():
            is_gap = np.repeat(is_meant[begun : begun + len(piece)], piece.event_counts)
            is_gap &= ~piece.is_first_event
            found = np.diff(piece.events_ns, prepend=0)[is_gap]
            gaps_s[filled : filled + len(found)] = found / NS_PER_S
            begun, filled = begun + len(piece), filled + len(found)
        gaps_s.sort()
        return gaps_s


def frame_of(run: RunFolder, cut_s: float = 0.0) -> RunFrame:
    """The tables of `run`, requests in the order of their index."""
    records = columns_of(run.requests)
    is_open_loop = run.manifest.workload.load.is_open_loop
    return RunFrame(
        manifest=run.manifest,
        records=records,
        requests=_request_table(records, is_open_loop=is_open_loop),
        steps=_step_table(run.steps, run.manifest.start_ns),
        samples=run.samples,
        cut_s=cut_s,
    )


def output_tokens(records: RecordColumns) -> Ints:
    """How many tokens came: the record's count, else that of its events, else MISSING."""
    counted = records.numbers["output_tokens"]
    return np.where(counted == MISSING, records.streamed_tokens, counted)


def cached_share(records: RecordColumns) -> float | None:
    """Which share of the prompt tokens the engine had cached, of those requests where it says so.

    None when it says so of no request that ended well.
    """
    cached, prompt = records.numbers["cached_tokens"], records.numbers["prompt_tokens"]
    is_said = records.came_out(Outcome.OK) & (cached != MISSING) & (prompt != MISSING)
    tokens = int(prompt[is_said].sum())
    return float(cached[is_said].sum()) / tokens if tokens > 0 else None


def event_tokens(records: RecordColumns) -> Floats:
    """How many tokens each event carried; when not said, an even share of the record's count.

    NaN for each event of a record that has no count either.
    """
    counts = records.event_counts
    is_said = np.repeat(records.streamed_tokens != MISSING, counts)
    if is_said.all():
        return records.events_tokens.astype(np.float64)
    share = _numbers(records.numbers["output_tokens"]) / np.maximum(counts, 1)
    return np.where(is_said, records.events_tokens, np.repeat(share, counts))


def _request_table(records: RecordColumns, *, is_open_loop: bool) -> pd.DataFrame:
    numbers, first_ns, last_ns = records.numbers, records.first_ns, records.last_ns
    due_ns, sent_ns = numbers["due_ns"], numbers["sent_ns"]
    zero_ns = due_ns if is_open_loop else sent_ns
    errors = (error.kind if error else "" for error in records.errors)
    table = {
        "index": numbers["index"],
        "label": list(records.words["label"]),
        "outcome": list(map(_OUTCOME_NAMES.__getitem__, records.words["outcome"])),
        "error_kind": list(errors),
        "due_s": seconds(due_ns),
        "sent_s": seconds(sent_ns),
        "send_lag_s": seconds(sent_ns - due_ns) if is_open_loop else np.full(len(records), np.nan),
        "first_token_s": seconds(first_ns),
        "last_token_s": seconds(last_ns),
        "closed_s": seconds(numbers["closed_ns"]),
        "events": records.event_counts,
        "prompt_tokens": _numbers(numbers["prompt_tokens"]),
        "output_tokens_asked": numbers["output_tokens_asked"],
        "output_tokens": _numbers(output_tokens(records)),
        "ttft_s": _latency(records, _since(first_ns, zero_ns)),
        "ttft_from_sent_s": _latency(records, _since(first_ns, sent_ns)),
        "e2e_s": _latency(records, _since(last_ns, zero_ns)),
        "tpot_s": _tpot(records, _since(last_ns, first_ns)),
        "normalized_latency_s": _normalized(records, _since(last_ns, zero_ns)),
        "time_to_first_event_s": _latency(records, _since(numbers["first_event_ns"], zero_ns)),
        "time_to_first_answer_s": _latency(records, _since(numbers["first_answer_ns"], zero_ns)),
        "tpot_after_first_event_s": _tpot_after_first_event(records, _since(last_ns, first_ns)),
    }
    return pd.DataFrame(table, columns=list(REQUEST_COLUMNS))


def _latency(records: RecordColumns, measured_s: Floats) -> Floats:
    """`measured_s` of requests that ended well, +inf of failed ones, NaN of all others."""
    unless_ok = np.where(records.came_out(Outcome.FAILED), np.inf, np.nan)
    return np.where(records.came_out(Outcome.OK), measured_s, unless_ok)


def _tpot(records: RecordColumns, first_to_last_s: Floats) -> Floats:
    tokens = output_tokens(records)
    # One event that holds the whole answer says nothing about the time between its tokens.
    has_two = (tokens >= 2) & (records.event_counts >= 2)
    return _per_token(records, first_to_last_s, np.where(has_two, tokens - 1, 0))


def _normalized(records: RecordColumns, e2e_s: Floats) -> Floats:
    """The whole latency over the tokens it brought."""
    tokens = np.maximum(output_tokens(records), 0)  # MISSING is far below 0
    return _latency(records, np.where(tokens > 0, e2e_s / np.maximum(tokens, 1), np.nan))


def _tpot_after_first_event(records: RecordColumns, first_to_last_s: Floats) -> Floats:
    """As `_tpot`, over the tokens that came after the first event, where events count them."""
    streamed = records.streamed_tokens
    is_known = (streamed != MISSING) & (records.event_counts > 0)
    after = np.where(is_known, streamed - records.first_tokens, 0)
    return _per_token(records, first_to_last_s, after)


def _per_token(records: RecordColumns, first_to_last_s: Floats, tokens: Ints) -> Floats:
    """Seconds over `tokens`, as a latency, where there are any."""
    measured_s = np.full(len(records), np.nan)
    has_tokens = tokens > 0
    measured_s[has_tokens] = first_to_last_s[has_tokens] / tokens[has_tokens]
    ranked = _latency(records, measured_s)
    ranked[np.isinf(ranked) & (records.numbers["output_tokens_asked"] < 2)] = np.nan
    return ranked


def _step_table(steps: Sequence[StepRecord], start_ns: int) -> pd.DataFrame:
    measured = [step for step in steps if step.started_ns >= start_ns]
    table: dict[str, Ints | Floats] = {name: _step_numbers(measured, name) for name in _COUNTS}
    for name in ("started", "duration", "prefill", "decode", "outside"):
        zero_ns = start_ns if name == "started" else 0
        table[f"{name}_s"] = (_step_numbers(measured, f"{name}_ns") - zero_ns) / NS_PER_S
    return pd.DataFrame(table, columns=list(STEP_COLUMNS))


def _step_numbers(steps: Sequence[StepRecord], name: str) -> Ints | Floats:
    """What the steps hold as `name`, NaN where an engine does not say."""
    values = [getattr(step, name) for step in steps]
    if None in values:
        return np.array([np.nan if value is None else value for value in values])
    return np.array(values, dtype=np.int64)


def _since(instants_ns: Ints, zero_ns: Ints) -> Floats:
    """Seconds from `zero_ns` to `instants_ns`, NaN where one of them is MISSING."""
    is_missing = (instants_ns == MISSING) | (zero_ns == MISSING)
    return np.where(is_missing, np.nan, (instants_ns - zero_ns) / NS_PER_S)


def _numbers(counts: Ints) -> Floats:
    return np.where(counts == MISSING, np.nan, counts.astype(np.float64))
