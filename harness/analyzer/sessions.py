"""Sessions in numbers: their requests turn by turn, and how long they took as wholes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from harness.analyzer.frame import RunFrame
from harness.analyzer.latency_metrics import PERCENTS
from harness.analyzer.measures import Unmeasured, supported_percentile
from harness.analyzer.summary import MetricValue, SessionTotals, TurnValues
from harness.core.record import Outcome

# Each is p50 of that column of the requests, as the metric of that name is over all of them.
TURN_COLUMNS = ("ttft_s", "e2e_s")
DURATION = "session_s"
_CUT = Unmeasured("not every turn was sent and ended, so no session is known to be whole")


def session_totals(frame: RunFrame) -> SessionTotals | None:
    """What the sessions of a run add up to; None when every request stands alone."""
    sessions = pd.Series(frame.records.words["session"], dtype=object)
    is_turn = sessions.notna().to_numpy()
    if not is_turn.any():
        return None
    turns = frame.records.numbers["turn"][is_turn]
    is_settled = frame.is_settled[is_turn]
    requests = frame.requests[is_turn].assign(session=sessions[is_turn], turn=turns)
    return SessionTotals(
        sessions=int(requests["session"].nunique()),
        turns=tuple(_turns(requests[is_settled])),
        durations=tuple(_durations(frame, requests)),
    )


def _turns(requests: pd.DataFrame) -> Iterator[TurnValues]:
    for turn in sorted(set(requests["turn"].tolist())):
        rows = requests[requests["turn"] == turn]
        values = (
            _value(f"{column}_p50", supported_percentile(rows[column], 50, "request"))
            for column in TURN_COLUMNS
        )
        yield TurnValues(turn, len(rows), tuple(values))


def _durations(frame: RunFrame, requests: pd.DataFrame) -> Iterator[MetricValue]:
    """Percentiles over sessions; one with a failed turn ranks as +inf, as a failed request does.

    Where the run was cut short nobody knows which sessions are whole, so none is counted.
    """
    counts = frame.manifest.counts
    is_cut = counts.sent < counts.planned or counts.cancelled + counts.unfinished > 0
    duration_s = _duration_s(frame, requests)
    for percent in PERCENTS:
        reading = supported_percentile(duration_s, percent, "session")
        yield _value(f"{DURATION}_p{percent}", _CUT if is_cut else reading)


def _duration_s(frame: RunFrame, requests: pd.DataFrame) -> pd.Series[float]:
    is_open_loop = frame.manifest.workload.load.is_open_loop
    by_session = requests.groupby("session")
    begun_s = by_session["due_s" if is_open_loop else "sent_s"].min()
    has_failed = (requests["outcome"] == Outcome.FAILED.value).groupby(requests["session"]).any()
    duration_s = (by_session["last_token_s"].max() - begun_s).mask(has_failed, np.inf)
    return duration_s[begun_s >= frame.cut_s] if frame.cut_s > 0 else duration_s


def _value(name: str, reading: float | Unmeasured) -> MetricValue:
    if isinstance(reading, Unmeasured):
        return MetricValue(name, None, reading.reason)
    return MetricValue(name, reading)
