"""What `batchmark sweep` and `capacity` are asked for: loads that differ in one number."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

from harness.core.errors import UsageError
from harness.core.flag import Flag, Part, require_positive
from harness.core.load_flags import LoadFlags
from harness.core.phases import at_mean_rate, parse_phases
from harness.core.plan import RunFlags

FEWEST_POINTS = 2
MOST_POINTS = 100
# The flags of `run` about how a measurement goes, which are those of every point.
_COURSE = ("seed", "warmup_requests", "out", "deadline_s", "workers")
# How requests arrive at a rate, and how a trace is read: its own times are those of no rate.
_ARRIVALS = ("load.arrivals", "load.cv", "load.burstiness", "load.mmpp")
_READING = (
    "source.format",
    "source.oversize",
    "source.tokenizer",
    "source.prompts",
    "source.output_tokens",
    "source.chat_form",
    "source.draw_seed",
)
# A closed loop begins with all of its slots at once; so many requests a slot let that be forgotten.
TURNS_OF_A_SLOT = 10


class Axis(StrEnum):
    """Which number of the load changes: requests a second, or requests in flight at most."""

    RATE = "rate"
    CONCURRENCY = "concurrency"


@dataclass(frozen=True, slots=True)
class SweepFlags:
    """The flags of `batchmark sweep`, as typed.

    `rates` and `concurrencies` are lists with commas; or `points` are drawn between `first` and
    `last`. `window_s` is the least time over which requests arrive at a point. `run` is what all
    points share; its load holds how requests arrive at a rate.
    """

    rates: Annotated[str | None, Flag("Requests a second, rising: 0.5,1,2,4.")] = None
    concurrencies: Annotated[
        str | None, Flag("Closed loops: requests in flight at most, rising: 1,2,4,8.")
    ] = None
    points: Annotated[
        int | None, Flag("So many rates, each the same number of times the one before it.")
    ] = None
    first: Annotated[float | None, Flag("The first of --points.", "--from")] = None
    last: Annotated[float | None, Flag("The last of --points.", "--to")] = None
    is_closed: Annotated[bool, Flag("--points are concurrencies, not rates.", "--closed")] = False
    window_s: Annotated[
        float | None, Flag("Seconds at least in which requests arrive at a rate; 20 by default.")
    ] = None
    run: Annotated[
        RunFlags,
        Part(
            only=(
                "engines",
                *_ARRIVALS,
                "load.repeat_mix",
                "slos",
                *_COURSE,
                *_READING,
            )
        ),
    ] = field(default_factory=RunFlags)


@dataclass(frozen=True, slots=True)
class CapacityFlags:
    """The flags of `batchmark capacity`, as typed.

    `slos` are what must hold, such as `ttft_p99=2s`; `share` is of the requests that must meet all
    of those that bound a single request, as `ttft=2s` does. The search begins at `first` and goes
    no further than `last`.
    """

    slos: Annotated[
        tuple[str, ...],
        Flag(
            "What must hold, once or more: ttft_p99=2s, tpot_p50=50ms, failure_rate=1%; or of "
            "single requests, ttft=500ms, of which --share must meet all.",
            "--slo",
        ),
    ] = ()
    share: Annotated[float | None, Flag("Of the requests, by --slo ttft=...; 0.99 by default.")] = (
        None
    )
    is_closed: Annotated[bool, Flag("Search for a concurrency, not for a rate.", "--closed")] = (
        False
    )
    first: Annotated[float | None, Flag("The load to begin with; 1 by default.", "--from")] = None
    last: Annotated[float | None, Flag("The highest load to try.", "--to")] = None
    precision: Annotated[
        float, Flag("End when what met and what did not are so close: 0.1 is 10 %.")
    ] = 0.1
    tries: Annotated[int, Flag("Runs of a load that stays unresolved, each twice as long.")] = 3
    window_s: Annotated[
        float | None, Flag("Seconds at least in which requests arrive at a rate; 60 by default.")
    ] = None
    run: Annotated[
        RunFlags,
        Part(only=("engines", *_ARRIVALS, *_COURSE, *_READING)),
    ] = field(default_factory=RunFlags)


@dataclass(frozen=True, slots=True)
class Points:
    """The numbers of a sweep, rising."""

    axis: Axis
    levels: tuple[float, ...]


def parse_points(flags: SweepFlags) -> Points:
    """The points that the flags name. Raises UsageError naming the flag whose value is wrong."""
    ways = [name for name, text in _ways(flags) if text is not None]
    if len(ways) != 1:
        given = f"{' and '.join(ways)} are given" if ways else "no points are given"
        msg = f"{given}; give one of --rates 0.5,1,2, --concurrencies 1,2,4, and --points 6"
        raise UsageError(f"{msg} with --from and --to")
    if flags.points is not None:
        return _drawn(flags, flags.points)
    if flags.first is not None or flags.last is not None:
        msg = f"{ways[0]} names every point; leave out --from and --to, which are for --points"
        raise UsageError(msg)
    if flags.rates is not None:
        if flags.is_closed:
            msg = "--closed is for --points; name concurrencies with --concurrencies"
            raise UsageError(msg)
        return _listed("--rates", flags.rates, Axis.RATE)
    return _listed("--concurrencies", flags.concurrencies or "", Axis.CONCURRENCY)


def load_at(arrivals: LoadFlags, axis: Axis, level: float) -> LoadFlags:
    """The flags of the load with that number; `arrivals` says how requests arrive at a rate.

    Rates that jump are all multiplied, so that their mean is `level`.
    """
    if axis is Axis.CONCURRENCY:
        return replace(arrivals, concurrency=round(level))
    if arrivals.mmpp is not None:
        return replace(arrivals, mmpp=at_mean_rate(parse_phases(arrivals.mmpp), level))
    return replace(arrivals, rate_rps=level)


def requests_at(axis: Axis, level: float, window_s: float) -> int:
    """How many requests a point needs to show more than its own beginning and end."""
    if axis is Axis.RATE:
        return math.ceil(level * window_s)
    return math.ceil(level) * TURNS_OF_A_SLOT


def require_window(flags: SweepFlags | CapacityFlags, axis: Axis, default_s: float) -> float:
    """The least time over which requests arrive. Raises UsageError for one that makes no sense."""
    if flags.window_s is None:
        return default_s
    require_positive("--window-s", flags.window_s)
    if axis is Axis.CONCURRENCY:
        msg = f"--window-s is {flags.window_s:g}, but in a closed loop requests do not arrive over"
        raise UsageError(f"{msg} a time of their own; leave it out")
    return flags.window_s


def name_of(axis: Axis, level: float) -> str:
    """A level in words, such as `2 req/s` or `8 in flight`."""
    return f"{level:g} req/s" if axis is Axis.RATE else f"{level:g} in flight"


def _ways(flags: SweepFlags) -> tuple[tuple[str, object], ...]:
    return (
        ("--rates", flags.rates),
        ("--concurrencies", flags.concurrencies),
        ("--points", flags.points),
    )


def _listed(flag: str, text: str, axis: Axis) -> Points:
    levels = []
    for word in text.split(","):
        try:
            level = float(word)
        except ValueError:
            msg = f"{flag} has {word.strip()!r}, which is no number; write numbers with commas"
            raise UsageError(msg) from None
        require_positive(flag, level)
        if axis is Axis.CONCURRENCY and not level.is_integer():
            msg = f"{flag} has {level:g}; a concurrency is a whole number"
            raise UsageError(msg)
        levels.append(level)
    if levels != sorted(set(levels)):
        msg = f"{flag} is {text!r}; write each number once, rising"
        raise UsageError(msg)
    return _checked(flag, Points(axis, tuple(levels)))


def _drawn(flags: SweepFlags, points: int) -> Points:
    """Between --from and --to, each the same number of times the one before it."""
    if flags.first is None or flags.last is None:
        msg = f"--points is {points}, which needs both --from and --to"
        raise UsageError(msg)
    require_positive("--from", flags.first)
    require_positive("--to", flags.last)
    if flags.last <= flags.first:
        msg = f"--to is {flags.last:g}; it must be above --from, {flags.first:g}"
        raise UsageError(msg)
    if not FEWEST_POINTS <= points <= MOST_POINTS:
        msg = f"--points is {points}; it must be from {FEWEST_POINTS} to {MOST_POINTS}"
        raise UsageError(msg)
    step = (flags.last / flags.first) ** (1 / (points - 1))
    levels = [flags.first * step**i for i in range(points - 1)] + [flags.last]
    if flags.is_closed:
        whole = sorted({float(max(round(level), 1)) for level in levels})
        return _checked("--points", Points(Axis.CONCURRENCY, tuple(whole)))
    rates = dict.fromkeys(float(f"{level:.4g}") for level in levels)
    if len(rates) < points:
        msg = f"--points is {points}, but between {flags.first:g} and {flags.last:g} there are not"
        raise UsageError(f"{msg} so many rates of four digits; give fewer")
    return _checked("--points", Points(Axis.RATE, tuple(rates)))


def _checked(flag: str, points: Points) -> Points:
    if not FEWEST_POINTS <= len(points.levels) <= MOST_POINTS:
        msg = f"{flag} makes {len(points.levels)} point(s); a curve needs {FEWEST_POINTS} at least"
        raise UsageError(f"{msg}, and {MOST_POINTS} at most")
    return points
