"""What a calibration level is, what it shows of the client, and which to try next. Pure.

The number of streams is doubled until the client's stamps are wrong, and then halved once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from harness.core.record import Outcome, RequestRecord
from harness.core.units import NS_PER_MS

FIRST_STREAMS = 64
MOST_STREAMS = 16384
TTFT_ERROR_NS = 1 * NS_PER_MS  # at the median
GAP_ERROR_NS = 3 * NS_PER_MS  # at p99
BUSY_SHARE = 0.5
TRIES = 2  # another program may disturb a level once; it cannot make one look better than it is


class LevelVerdict(StrEnum):
    """What a level shows of the client; a late server, or a client kept waiting, show nothing."""

    CLEAN = "clean"
    CLIENT_LATE = "client late"
    SERVER_LATE = "server late"
    DISTURBED = "machine busy"
    FAILED = "requests failed"


@dataclass(frozen=True, slots=True)
class Pace:
    """The server's timetable, and for how long new requests of `tokens` tokens are sent."""

    ttft_ns: int = 50 * NS_PER_MS
    gap_ns: int = 10 * NS_PER_MS
    tokens: int = 64
    sending_ns: int = 2_500 * NS_PER_MS

    @property
    def answer_ns(self) -> int:
        """From a request's arrival to its last token."""
        return self.ttft_ns + (self.tokens - 1) * self.gap_ns


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late a server was, in ns: writing tokens, and at most at the median in reading requests.

    None where it did nothing.
    """

    token_ns_p50: int | None
    token_ns_p99: int | None
    arrival_ns_p50: int | None


@dataclass(slots=True)
class Errors:
    """What the records of a level's steady part differ from the timetable by, in ns."""

    ttft_ns: list[int] = field(default_factory=list)
    gap_ns: list[int] = field(default_factory=list)
    lag_ns: list[int] = field(default_factory=list)
    events: int = 0
    ended: int = 0
    broken: int = 0


@dataclass(frozen=True, slots=True)
class Level:
    """One number of streams, tried once. Errors are the client's stamps less the timetable."""

    streams: int
    events_s: float
    requests_s: float
    ttft_error_ns_p50: int
    ttft_error_ns_p99: int
    gap_error_ns_p99: int
    send_lag_ns_p99: int
    client_cpu_share: float
    server: Lateness
    verdict: LevelVerdict


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that was read with right stamps. `limit`: what made the next level wrong."""

    events_s: float
    requests_s: float
    send_lag_ns_p99: int
    streams: int
    limit: str

    @property
    def is_lower_bound(self) -> bool:
        """True when it was not the client that made the next level wrong."""
        return self.limit != LevelVerdict.CLIENT_LATE


def judge(errors: Errors, server: Lateness, client_cpu_share: float) -> LevelVerdict:
    """Whether the client's stamps are right, and if not, whether that is the client's own limit.

    A server later than what is allowed proves nothing. Nor does a client that was late with half of
    its processor time unused: it waited for a processor that another program had.
    """
    if errors.broken or not errors.ttft_ns or not errors.gap_ns:
        return LevelVerdict.FAILED
    ttft_ns, gap_ns = percentile(errors.ttft_ns, 50), percentile(errors.gap_ns, 99)
    if ttft_ns <= TTFT_ERROR_NS and gap_ns <= GAP_ERROR_NS:
        return LevelVerdict.CLEAN
    first_ns = (server.token_ns_p50 or 0) + (server.arrival_ns_p50 or 0)
    if first_ns > TTFT_ERROR_NS or (server.token_ns_p99 or 0) > GAP_ERROR_NS:
        return LevelVerdict.SERVER_LATE
    is_busy = client_cpu_share >= BUSY_SHARE
    return LevelVerdict.CLIENT_LATE if is_busy else LevelVerdict.DISTURBED


def next_streams(levels: Sequence[Level], first: int = FIRST_STREAMS) -> int | None:
    """How many streams to try after `levels`: twice as many, the same again, or half-way back.

    None when the ceiling is known to a step and a half.
    """
    if not levels:
        return first
    last = levels[-1].streams
    best = max((lv.streams for lv in levels if lv.verdict is LevelVerdict.CLEAN), default=0)
    worst = min((lv.streams for lv in levels if lv.streams > best), default=None)
    if worst is None:
        return 2 * best if 2 * best <= MOST_STREAMS else None
    if last == worst and sum(level.streams == worst for level in levels) < TRIES:
        return worst
    middle = (best + worst) // 2
    is_fine_enough = worst < 2 * best or middle <= max(best, first)
    return None if is_fine_enough else middle


def ceiling_of(levels: Sequence[Level]) -> Ceiling | None:
    """The best clean level of `levels`, and what limited it; None when none was clean."""
    clean = [level for level in levels if level.verdict is LevelVerdict.CLEAN]
    if not clean:
        return None
    best = max(clean, key=lambda level: level.streams)
    above = {level.verdict for level in levels if level.streams > best.streams}
    # In the order of LevelVerdict: a late client says more than a try in which the server was late.
    limit = next((v.value for v in LevelVerdict if v in above), "not reached")
    return Ceiling(best.events_s, best.requests_s, best.send_lag_ns_p99, best.streams, limit)


def percentile(values: Sequence[int], percent: int) -> int:
    """The smallest of `values` with at least `percent` % of them at or below it."""
    return sorted(values)[max(-(-len(values) * percent // 100), 1) - 1]


def note(errors: Errors, record: RequestRecord, pace: Pace) -> None:
    """Add what `record` shows of the steady part: after the first answers, before the last sends.

    A failed request counts wherever it is.
    """
    if record.outcome is not Outcome.OK or len(record.events_ns) != pace.tokens:
        errors.broken += 1
        return
    first_ns, last_ns = pace.answer_ns, pace.sending_ns
    events = record.events_ns
    if first_ns <= record.due_ns < last_ns:
        errors.ttft_ns.append(events[0] - record.sent_ns - pace.ttft_ns)
        errors.lag_ns.append(record.sent_ns - record.due_ns)
    errors.events += sum(first_ns <= at_ns < last_ns for at_ns in events)
    errors.ended += first_ns <= events[-1] < last_ns
    errors.gap_ns += [
        abs(after - before - pace.gap_ns)
        for before, after in pairwise(events)
        if first_ns <= before and after < last_ns
    ]
