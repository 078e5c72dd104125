"""What a run did per second, and how much of it was good enough.

Rates are taken over the steady part of a run: not its drain, in which less and less is in flight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.analyzer.columns import Bools, Floats, RecordColumns
from harness.analyzer.frame import RunFrame, event_tokens
from harness.analyzer.intervals import Bounds, clopper_pearson, wilson
from harness.analyzer.measures import Unmeasured, makespan_s, token_sum
from harness.analyzer.within import Bounded, bounded_share
from harness.core.record import Outcome
from harness.core.slo import SLO_COLUMNS, Slo
from harness.core.units import NS_PER_S

# A closed loop of fewer requests for each in flight is hardly more than its beginning and end.
TURNS_OF_A_SLOT = 2
NO_SLO = "no limit was named; give one with --slo, such as --slo ttft=500ms"


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a run, end not included, over which rates are taken."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        """How long it is, in seconds."""
        return self.end_s - self.start_s

    def holds(self, instants_s: Floats) -> Bools:
        """Which of the instants lie in it."""
        return (instants_s >= self.start_s) & (instants_s < self.end_s)


def steady_window(frame: RunFrame) -> Window | Unmeasured | None:
    """The part of a run that its rates are taken over; None is all of it, the makespan.

    With arrivals over time it goes from the first due instant, or the cut, to the last, later turns
    of sessions left out: after it the load falls. In a closed loop it goes from the first end, when
    slots no longer begin all at once, to the last send, after which not all are taken. All at once
    there is no such part, nor in a closed loop of fewer requests than twice those in flight.
    """
    load, requests = frame.manifest.workload.load, frame.requests
    if load.is_timed:
        due_s = requests["due_s"][frame.records.is_arrival]
        if len(due_s) < 2 or due_s.min() == due_s.max():
            return Unmeasured(f"{len(due_s)} request(s) span no window of arrivals (2 needed)")
        window = Window(max(float(due_s.min()), frame.cut_s), float(due_s.max()))
        if window.length_s <= 0:
            return Unmeasured(f"no request is due after the cut at {frame.cut_s:.1f} s")
        return window
    if load.concurrency is None or len(requests) < TURNS_OF_A_SLOT * load.concurrency:
        return None
    window = Window(float(requests["closed_s"].min()), float(requests["sent_s"].max()))
    return window if window.length_s > 0 else None


def output_tok_s(frame: RunFrame) -> float | Unmeasured:
    """Output tokens a second, of requests that did not fail."""
    window = steady_window(frame)
    if window is None:
        return _per_makespan(frame, token_sum(frame, "output_tokens"))
    if isinstance(window, Unmeasured):
        return window
    tokens = sum(_tokens_within(piece, window) for piece in frame.records.pieces())
    if math.isnan(tokens):
        return Unmeasured("the engine does not say how many tokens it sent")
    return tokens / window.length_s


def request_s(frame: RunFrame) -> float | Unmeasured:
    """Requests that ended well a second."""
    return _ends_a_second(frame, frame.requests["outcome"] == Outcome.OK.value)


def goodput_frac(frame: RunFrame) -> float | Unmeasured:
    """The share of all requests that kept to every limit; failed ones did not."""
    is_good = _keeps_to_slos(frame)
    return is_good if isinstance(is_good, Unmeasured) else float(is_good.mean())


def goodput_req_s(frame: RunFrame) -> float | Unmeasured:
    """Requests that kept to every limit, a second."""
    is_good = _keeps_to_slos(frame)
    return is_good if isinstance(is_good, Unmeasured) else _ends_a_second(frame, is_good)


def bounded_failures(frame: RunFrame) -> Bounded:
    """The exact interval of the share of requests that failed; none failing has one too."""
    is_failed = frame.requests["outcome"] == Outcome.FAILED.value
    return _bounded(is_failed, clopper_pearson, "Clopper-Pearson")


def bounded_goodput(frame: RunFrame) -> Bounded:
    """Wilson's interval of the share of requests that kept to every limit."""
    is_good = _keeps_to_slos(frame)
    return Bounded() if isinstance(is_good, Unmeasured) else _bounded(is_good, wilson, "Wilson")


def _bounded(is_one: pd.Series[bool], bounds: Callable[[int, int], Bounds], name: str) -> Bounded:
    return bounded_share(bounds(int(is_one.sum()), len(is_one)), len(is_one), name)


def _keeps_to_slos(frame: RunFrame) -> pd.Series[bool] | Unmeasured:
    """Which requests ended well within every limit of the run."""
    if not frame.manifest.slos:
        return Unmeasured(NO_SLO)
    if frame.requests.empty:
        return Unmeasured("no request was sent")
    return keeps_to(frame.requests, frame.manifest.slos)


def keeps_to(requests: pd.DataFrame, slos: Sequence[Slo]) -> pd.Series[bool]:
    """Which requests ended well, with a token, within every limit.

    An answer that has no time between tokens, as it came at once, keeps to a limit on that.
    """
    is_good = (requests["outcome"] == Outcome.OK.value) & requests["last_token_s"].notna()
    for slo in slos:
        values = requests[SLO_COLUMNS[slo.latency]]
        is_within = values <= slo.limit_s
        is_good &= is_within | values.isna() if slo.latency == "tpot" else is_within
    return is_good


def _tokens_within(records: RecordColumns, window: Window) -> float:
    """How many tokens came in the window, of requests that did not fail; NaN when not known."""
    is_counted = np.repeat(~records.came_out(Outcome.FAILED), records.event_counts)
    is_counted &= window.holds(records.events_ns / NS_PER_S)
    return float(event_tokens(records)[is_counted].sum())


def _ends_a_second(frame: RunFrame, is_counted: pd.Series[bool]) -> float | Unmeasured:
    """How many of the counted requests got their last token, a second."""
    ended_s = frame.requests[is_counted]["last_token_s"]
    window = steady_window(frame)
    if window is None:
        return _per_makespan(frame, float(ended_s.notna().sum()))
    if isinstance(window, Unmeasured):
        return window
    return float(window.holds(ended_s.to_numpy()).sum()) / window.length_s


def _per_makespan(frame: RunFrame, amount: float | Unmeasured) -> float | Unmeasured:
    seconds = makespan_s(frame)
    if isinstance(seconds, Unmeasured) or isinstance(amount, Unmeasured):
        return seconds if isinstance(seconds, Unmeasured) else amount
    return amount / seconds
