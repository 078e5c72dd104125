"""How each metric is computed from a run. `metrics.METRICS` gives them names and definitions.

Every function returns a float, or Unmeasured with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import pandas as pd

from harness.analyzer.estimators import floor_n, percentile
from harness.analyzer.frame import RunFrame, cached_share
from harness.analyzer.steps import step_totals
from harness.analyzer.summary import StepTotals
from harness.core.record import Outcome

NO_STEP_LOG = "the engine wrote no step log"


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A run has no value of a metric. `too_few`: it has some, but a percentile needs more."""

    reason: str
    too_few: bool = False


def is_withheld(reading: float | Unmeasured) -> bool:
    """True when there are values, but too few to support the percentile."""
    return isinstance(reading, Unmeasured) and reading.too_few


def supported_percentile(values: pd.Series[float], percent: int, noun: str) -> float | Unmeasured:
    """The percentile of `values`, where +inf is a failure, if there are enough to support it.

    `noun` says what there is one value of each, for the reason.
    """
    known = values.dropna().to_numpy()
    if not len(known):
        return Unmeasured(f"n/a (0 samples): no {noun} has such a value")
    if len(known) < floor_n(percent):
        needed = floor_n(percent)
        reason = f"{len(known)} {noun}s cannot support p{percent} ({needed} needed)"
        return Unmeasured(reason, too_few=True)
    value = percentile(known, percent)
    if math.isinf(value):
        return Unmeasured(f"more than {100 - percent} % of the requests failed")
    return value


def request_percentile(frame: RunFrame, column: str, percent: int) -> float | Unmeasured:
    """A percentile of a column of the requests."""
    return supported_percentile(frame.requests[column], percent, "request")


def request_mean(frame: RunFrame, column: str) -> float | Unmeasured:
    """The mean of a column of the requests, failed ones left out."""
    return _of_finite(frame, column, fmean)


def request_max(frame: RunFrame, column: str) -> float | Unmeasured:
    """The maximum of a column of the requests, failed ones left out."""
    return _of_finite(frame, column, max)


def _of_finite(
    frame: RunFrame, column: str, statistic: Callable[[Sequence[float]], float]
) -> float | Unmeasured:
    finite = [value for value in frame.requests[column].tolist() if math.isfinite(value)]
    if not finite:
        return Unmeasured("n/a (0 samples): no request ended well with such a value")
    return statistic(finite)


def where_known(
    measure: Callable[[RunFrame], float | Unmeasured], frame: RunFrame, column: str, unknown: str
) -> float | Unmeasured:
    """`measure` of a column that not every engine fills; `unknown` is why when it has no value."""
    if not np.isfinite(frame.requests[column]).any():
        return Unmeasured(f"n/a (0 samples): {unknown}")
    return measure(frame)


def send_lag(
    frame: RunFrame, function: Callable[..., float | Unmeasured], **options: int
) -> float | Unmeasured:
    """`function` of how late requests were sent."""
    if not frame.manifest.workload.load.is_open_loop:
        return Unmeasured("in a closed loop no request is due, so none is late")
    return function(frame, column="send_lag_s", **options)


def gap_percentile(frame: RunFrame, percent: int) -> float | Unmeasured:
    """A percentile of the gaps between chunks, pooled over requests."""
    return supported_percentile(frame.gaps["gap_s"], percent, "gap")


def makespan_s(frame: RunFrame) -> float | Unmeasured:
    """Seconds from the first request due, or sent in a closed loop, to the last token of any."""
    last_s = frame.requests["last_token_s"]
    if last_s.isna().all():
        return Unmeasured("no request received a token")
    is_open_loop = frame.manifest.workload.load.is_open_loop
    started_s = frame.requests["due_s" if is_open_loop else "sent_s"].min()
    seconds = float(last_s.max() - started_s)
    return seconds if seconds > 0 else Unmeasured("all tokens came at the instant of sending")


def output_tok_s(frame: RunFrame) -> float | Unmeasured:
    """Output tokens a second: over the makespan, or over the window of arrivals."""
    if not frame.manifest.workload.load.is_timed:
        return _per_makespan(frame, token_sum(frame, "output_tokens"))
    window = _arrival_window(frame)
    if isinstance(window, Unmeasured):
        return window
    events = frame.events
    is_counted = (events["outcome"] != Outcome.FAILED.value) & window.holds(events["received_s"])
    tokens = events["tokens"][is_counted]
    if tokens.isna().any():
        return Unmeasured("the engine does not say how many tokens it sent")
    return float(tokens.sum()) / window.length_s


def request_s(frame: RunFrame) -> float | Unmeasured:
    """Requests that ended well a second: over the makespan, or over the window of arrivals."""
    ended_s = frame.requests[frame.requests["outcome"] == Outcome.OK.value]["last_token_s"]
    if not frame.manifest.workload.load.is_timed:
        return _per_makespan(frame, float(ended_s.notna().sum()))
    window = _arrival_window(frame)
    if isinstance(window, Unmeasured):
        return window
    return float(window.holds(ended_s).sum()) / window.length_s


def _per_makespan(frame: RunFrame, amount: float | Unmeasured) -> float | Unmeasured:
    seconds = makespan_s(frame)
    if isinstance(seconds, Unmeasured) or isinstance(amount, Unmeasured):
        return seconds if isinstance(seconds, Unmeasured) else amount
    return amount / seconds


@dataclass(frozen=True, slots=True)
class _Window:
    """The part of a run, end not included, over which rates are taken."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s

    def holds(self, instants_s: pd.Series[float]) -> pd.Series[bool]:
        return (instants_s >= self.start_s) & (instants_s < self.end_s)


def _arrival_window(frame: RunFrame) -> _Window | Unmeasured:
    """From the first due instant to the last: after it the load falls, and the rate with it."""
    due_s = frame.requests["due_s"]
    if len(due_s) < 2 or due_s.min() == due_s.max():
        return Unmeasured(f"{len(due_s)} request(s) span no window of arrivals (2 needed)")
    return _Window(float(due_s.min()), float(due_s.max()))


def failure_rate(frame: RunFrame) -> float | Unmeasured:
    """Failed requests over requests sent."""
    if frame.requests.empty:
        return Unmeasured("no request was sent")
    return float((frame.requests["outcome"] == Outcome.FAILED.value).mean())


def token_sum(frame: RunFrame, column: str) -> float | Unmeasured:
    """The sum of a column of token counts, over the requests that did not fail."""
    counted = frame.requests[frame.requests["outcome"] != Outcome.FAILED.value][column]
    if counted.empty:
        return Unmeasured("all requests failed" if len(frame.requests) else "no request was sent")
    if unknown := int(counted.isna().sum()):
        return Unmeasured(f"the engine does not say how many tokens {unknown} request(s) had")
    return float(counted.sum())


def cached_prompt_share(frame: RunFrame) -> float | Unmeasured:
    """Prompt tokens that the engine had cached, over those that it counts."""
    share = cached_share(frame.records)
    if share is None:
        return Unmeasured("the engine does not say how many prompt tokens it had cached")
    return share


def from_steps(
    frame: RunFrame, function: Callable[[StepTotals], float | Unmeasured]
) -> float | Unmeasured:
    """`function` of the totals of the step log."""
    totals = step_totals(frame.steps)
    return function(totals) if totals else Unmeasured(NO_STEP_LOG)


def decode_output_tok_s(totals: StepTotals) -> float | Unmeasured:
    """Tokens produced by decoding over the time spent on it."""
    if totals.decode_s <= 0:
        return Unmeasured("the step log holds no time spent on decoding")
    return totals.decode_tokens / totals.decode_s
