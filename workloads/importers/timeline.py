"""The times of a trace, put on one clock: sorted, counted from the first request, in one unit.

Only a window of requests is held, so that a trace of any length streams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappushpop
from itertools import chain, islice
from typing import NamedTuple

from harness.core.errors import TraceError, UsageError
from harness.core.units import NS_PER_S, ns_to_s
from workloads.importers.format import Format
from workloads.importers.losses import Losses
from workloads.importers.row import NS_PER, TimeUnit
from workloads.importers.source import TraceFile
from workloads.shape import Shape

WINDOW = 1 << 15
"""How many requests a row may be away from its place in time."""

_LEADING = 100
"""Among so many requests at the start one has a time, or none in the trace has."""

# Seconds since 1970 among milliseconds from the start would be a gap of twenty days.
_LONGEST_GAP_NS = 10 * 86_400 * NS_PER_S
_EPOCHS: tuple[tuple[TimeUnit, int], ...] = (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))
_SINCE_1970 = range(10**9, 42 * 10**8)  # seconds: the years from 2001 to 2103


@dataclass(frozen=True, slots=True)
class Clock:
    """How the times of a trace are read, in words; `wanted` ns where its format says `assumed`."""

    words: str
    wanted: int = 1
    assumed: int = 1


class _Placed(NamedTuple):
    """A shape in the order of time; rows of one time stay as they are in the file."""

    due_ns: int
    place: int
    row: int
    shape: Shape


def on_one_clock(
    shapes: Iterator[Shape], file: TraceFile, source: Format, unit: TimeUnit | None, losses: Losses
) -> tuple[Iterator[Shape], Clock]:
    """The shapes of `file` in order of time, due from the first one on, and how times were read.

    `unit` overrides that of the format; where neither it nor the format is plain, because the times
    look like another unit's since 1970, the guess is in the clock's words. A request without a time
    among timed ones is due with the one before it, and counted as repaired; one out of order too.

    Raises UsageError when there is no request, or a unit is named for a trace that has none, and
    TraceError where nothing comes for more than ten days, where a row is further out of order than
    a window, and for the first time in a trace that begins without any.
    """
    numbered = ((file.row, shape) for shape in shapes)
    leading = list(islice(numbered, _LEADING))
    if not leading:
        raise UsageError(_nothing(file, losses))
    first = next((s.due_ns for _, s in leading if s.due_ns is not None), None)
    clock = _clock_of(file, source, unit, first)
    rows = _on_clock(chain(leading, numbered), clock)
    if first is None:
        return _with_turns(_untimed(rows, file)), clock
    return _with_turns(_from_the_first(_placed(rows, losses), file)), clock


def _clock_of(file: TraceFile, source: Format, unit: TimeUnit | None, first: int | None) -> Clock:
    words = "no times" if first is None else "dates, counted from the first"
    if source.time is None or source.time == "wall clock":
        if unit is not None:
            msg = f"--time-unit is {unit}, but {file.path} has {words}; leave out --time-unit"
            raise UsageError(msg)
        return Clock(words)
    assumed = NS_PER[source.time]
    if unit is not None:
        return Clock(f"times in {unit}, as --time-unit says", NS_PER[unit], assumed)
    if first is None:
        return Clock(words)
    raw = first // assumed
    guess = next((u for u, per_s in _EPOCHS if raw // per_s in _SINCE_1970), source.time)
    words = (
        f"times taken to be in {guess}, as in files of {source.title}"
        if guess == source.time
        else f"times like {raw} taken to be {guess} since 1970: a guess, or give --time-unit"
    )
    return Clock(words, NS_PER[guess], assumed)


def _on_clock(rows: Iterable[tuple[int, Shape]], clock: Clock) -> Iterator[tuple[int, Shape]]:
    if clock.wanted == clock.assumed:
        yield from rows
        return
    for row, shape in rows:
        due_ns, delay_ns = (
            None if ns is None else ns * clock.wanted // clock.assumed
            for ns in (shape.due_ns, shape.delay_ns)
        )
        yield row, replace(shape, due_ns=due_ns, delay_ns=delay_ns or 0)


def _placed(rows: Iterable[tuple[int, Shape]], losses: Losses) -> Iterator[_Placed]:
    """Each shape with its time, or the latest before it: none before is 0, earlier than any."""
    latest = 0
    sessions: set[str | None] = set()
    for place, (row, shape) in enumerate(rows):
        due_ns = latest if shape.due_ns is None else shape.due_ns
        if shape.due_ns is None and (shape.session is None or shape.session not in sessions):
            losses.repair("no time, so due with the row before", row)
        if due_ns < latest:
            losses.repair("out of order in time", row)
        yield _Placed(due_ns, place, row, shape)
        latest = max(latest, due_ns)
        sessions.add(shape.session)


def _from_the_first(placed: Iterator[_Placed], file: TraceFile) -> Iterator[Shape]:
    window = list(islice(placed, WINDOW + 1))
    heapify(window)
    started = last = min(p.due_ns for p in window if p.shape.due_ns is not None)
    while window:
        following = next(placed, None)
        earliest = heappop(window) if following is None else heappushpop(window, following)
        if earliest.due_ns < last and earliest.shape.due_ns is not None:
            msg = f"is more than {WINDOW} rows out of order; sort the file by time"
            raise TraceError(f"{file.path} row {earliest.row}: its time {msg}")
        gap_ns = earliest.due_ns - last
        if gap_ns > _LONGEST_GAP_NS:
            msg = (
                f"{file.path} row {earliest.row}: its time is {ns_to_s(gap_ns):.0f} s after the "
                "request before; correct it (are times since 1970 and from the start mixed?), or "
                "give --time-unit"
            )
            raise TraceError(msg)
        last += max(gap_ns, 0)
        yield replace(earliest.shape, due_ns=last - started)


def _untimed(rows: Iterable[tuple[int, Shape]], file: TraceFile) -> Iterator[Shape]:
    for row, shape in rows:
        if shape.due_ns is not None:
            msg = f"{file.path} row {row}: it has a time, the {_LEADING} requests at the start none"
            raise TraceError(f"{msg}; give a time to all of them, or to none")
        yield shape


def _with_turns(shapes: Iterable[Shape]) -> Iterator[Shape]:
    """The shapes with the turns of each session counted as they come, those dropped left out."""
    turns: Counter[str] = Counter()
    for shape in shapes:
        if shape.session is None:
            yield shape
        else:
            yield replace(shape, turn=turns[shape.session])
            turns[shape.session] += 1


def _nothing(file: TraceFile, losses: Losses) -> str:
    counted = "; ".join(map(str, losses.counted())) or "it has no rows"
    return f"{file.path} holds no request: {counted}; name another file, or --format"
