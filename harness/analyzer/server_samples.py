"""What the engine said of itself during a run: its gauges over time, and how its counters rose.

Whatever cannot be told is Unmeasured, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from harness.analyzer.frame import RunFrame
from harness.analyzer.measures import Unmeasured
from harness.core.engine import EngineSample
from harness.core.units import ns_to_s

GAUGES = ("running", "waiting", "kv_share")
_WORDS = {
    "running": "running requests",
    "waiting": "waiting requests",
    "kv_share": "KV use",
    "ttft_s_buckets": "times to first token",
    "e2e_s_buckets": "end-to-end times",
    "generation_tokens_total": "generated tokens",
    "prefix_hit_tokens_total": "prefix hits",
}


@dataclass(frozen=True, slots=True)
class Timings:
    """What a histogram of the engine took in over a run.

    `shares` is which part of the requests took at most so many seconds, by that bound.
    """

    requests: float
    mean_s: float
    shares: Mapping[float, float]


def gauge_table(samples: Sequence[EngineSample]) -> pd.DataFrame:
    """The gauges over time: `at_s` from the start of the run, and GAUGES, NaN where not said."""
    rows = [
        (ns_to_s(sample.at_ns), *(getattr(sample, name) for name in GAUGES)) for sample in samples
    ]
    return pd.DataFrame(rows, columns=["at_s", *GAUGES], dtype=np.float64)


def span_ns(frame: RunFrame) -> tuple[int, int] | None:
    """From the first send to the last end, or token, of any request; None without a request."""
    numbers = frame.records.numbers
    if not len(frame.records):
        return None
    ends_ns = np.concatenate([numbers["closed_ns"], frame.records.last_ns, numbers["sent_ns"]])
    return int(numbers["sent_ns"].min()), int(ends_ns.max())


def during(frame: RunFrame, *names: str) -> Sequence[EngineSample] | Unmeasured:
    """The samples of the run that say each of `names`, while requests were in flight."""
    said = _saying(frame, *names)
    span = span_ns(frame)
    if isinstance(said, Unmeasured) or span is None:
        return said
    inside = [sample for sample in said if span[0] <= sample.at_ns <= span[1]]
    return inside or Unmeasured("no reading of the engine fell into the run")


def rise(frame: RunFrame, name: str) -> float | Unmeasured:
    """How much the counter `name` rose over the run."""
    ends = _enclosing(frame, name)
    if isinstance(ends, Unmeasured):
        return ends
    before, after = (getattr(sample, name) for sample in ends)
    return float(after - before)


def timings(frame: RunFrame, name: str) -> Timings | Unmeasured:
    """What the engine's histogram `name`, `ttft_s` or `e2e_s`, took in over the run."""
    ends = _enclosing(frame, f"{name}_buckets", f"{name}_sum")
    if isinstance(ends, Unmeasured):
        return ends
    before, after = (getattr(sample, f"{name}_buckets") for sample in ends)
    risen = {float(bound): after[bound] - before[bound] for bound in before.keys() & after.keys()}
    requests = risen.pop(math.inf, 0.0)
    if requests <= 0:
        return Unmeasured("the engine timed no request")
    start_s, end_s = (getattr(sample, f"{name}_sum") for sample in ends)
    shares = {bound: risen[bound] / requests for bound in sorted(risen)}
    return Timings(requests, (end_s - start_s) / requests, shares)


def kv_share_max(frame: RunFrame) -> float | Unmeasured:
    """The largest share of the KV cache in use, of the readings during the run."""
    return _of_gauge(frame, "kv_share", max)


def running_mean(frame: RunFrame) -> float | Unmeasured:
    """The mean number of requests that the engine ran, over the readings during the run."""
    return _of_gauge(frame, "running", fmean)


def _of_gauge(
    frame: RunFrame, name: str, statistic: Callable[[Sequence[float]], float]
) -> float | Unmeasured:
    samples = during(frame, name)
    if isinstance(samples, Unmeasured):
        return samples
    return statistic([getattr(sample, name) for sample in samples])


def _enclosing(frame: RunFrame, *names: str) -> tuple[EngineSample, EngineSample] | Unmeasured:
    """The last sample before the first send and the first after the last end, of counters.

    Unmeasured too when one of the counters fell in between: it began anew then.
    """
    said = _saying(frame, *names)
    span = span_ns(frame)
    if isinstance(said, Unmeasured):
        return said
    before = [sample for sample in said if span and sample.at_ns <= span[0]]
    after = [sample for sample in said if span and sample.at_ns >= span[1]]
    if not before or not after:
        return Unmeasured("the engine was not read before the first request and after the last")
    for name in names:
        levels = [_level(getattr(sample, name)) for sample in said]
        if any(later < earlier for earlier, later in pairwise(levels)):
            return Unmeasured("a counter of the engine fell: it was started again meanwhile")
    return before[-1], after[0]


def _level(counter: Any) -> float:
    """A counter as one number: of a histogram, its requests in all."""
    return float(max(counter.values(), default=0.0) if isinstance(counter, Mapping) else counter)


def _saying(frame: RunFrame, *names: str) -> Sequence[EngineSample] | Unmeasured:
    if all(sample == EngineSample(sample.at_ns) for sample in frame.samples):
        return Unmeasured("the engine gave no readings of itself")
    for name in names:
        if all(getattr(sample, name) is None for sample in frame.samples):
            said = _WORDS.get(name) or name.removesuffix("_total").replace("_", " ")
            return Unmeasured(f"the engine does not say its {said}")
    return [s for s in frame.samples if all(getattr(s, name) is not None for name in names)]
