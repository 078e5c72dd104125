"""How each metric is computed from a run. `metrics.METRICS` gives them names and definitions.

Every function returns a float, or Unmeasured with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import pandas as pd

from harness.analyzer.estimators import floor_n, percentile, place_of
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
    if unsupported := _unsupported(len(known), percent, noun):
        return unsupported
    value = percentile(known, percent)
    if math.isinf(value):
        return Unmeasured(f"more than {100 - percent} % of the {noun}s failed")
    return value


def _unsupported(values: int, percent: int, noun: str) -> Unmeasured | None:
    """Why so few values have no percentile; None when they have."""
    if not values:
        return Unmeasured(f"n/a (0 samples): no {noun} has such a value")
    if values < floor_n(percent):
        needed = floor_n(percent)
        reason = f"{values} {noun}s cannot support p{percent} ({needed} needed)"
        return Unmeasured(reason, too_few=True)
    return None


def request_percentile(frame: RunFrame, column: str, percent: int) -> float | Unmeasured:
    """A percentile of a column of the requests due since the cut."""
    return supported_percentile(frame.settled[column], percent, "request")


def request_mean(frame: RunFrame, column: str) -> float | Unmeasured:
    """The mean of a column of the requests due since the cut, failed ones left out."""
    return _of_finite(frame, column, fmean)


def request_max(frame: RunFrame, column: str) -> float | Unmeasured:
    """The maximum of a column of the requests due since the cut, failed ones left out."""
    return _of_finite(frame, column, max)


def _of_finite(
    frame: RunFrame, column: str, statistic: Callable[[Sequence[float]], float]
) -> float | Unmeasured:
    values = frame.settled[column].to_numpy(dtype=float)
    finite = values[np.isfinite(values)].tolist()
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
    """`function` of how late requests were sent, those before the cut too: it is no latency."""
    if not frame.manifest.workload.load.is_open_loop:
        return Unmeasured("in a closed loop no request is due, so none is late")
    return function(replace(frame, cut_s=0.0), column="send_lag_s", **options)


def gap_percentile(frame: RunFrame, percent: int) -> float | Unmeasured:
    """A percentile of the gaps between chunks, pooled over requests."""
    gaps_s = frame.gaps_s
    unsupported = _unsupported(len(gaps_s), percent, "gap")
    return unsupported or float(gaps_s[place_of(len(gaps_s), percent)])


def makespan_s(frame: RunFrame) -> float | Unmeasured:
    """Seconds from the first request due, or sent in a closed loop, to the last token of any."""
    last_s = frame.requests["last_token_s"]
    if last_s.isna().all():
        return Unmeasured("no request received a token")
    is_open_loop = frame.manifest.workload.load.is_open_loop
    started_s = frame.requests["due_s" if is_open_loop else "sent_s"].min()
    seconds = float(last_s.max() - started_s)
    return seconds if seconds > 0 else Unmeasured("all tokens came at the instant of sending")


def user_tok_s(frame: RunFrame) -> float | Unmeasured:
    """The inverse of the median time per output token."""
    middle_s = request_percentile(frame, "tpot_s", 50)
    if isinstance(middle_s, Unmeasured):
        return middle_s
    return 1 / middle_s if middle_s > 0 else Unmeasured("all tokens of an answer came at once")


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
