"""How much our own client can read before its stamps go wrong, found out against a known truth.

A paced server says when each token is due; what a client stamps later than that is its own error,
unless the server was late itself. `levels` judges what is measured here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.core.record import RequestRecord
from harness.core.rundir import REQUESTS
from harness.core.units import NS_PER_MS, NS_PER_S, ns_to_s, s_to_ns
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload
from harness.loadgen.levels import (
    Errors,
    Lateness,
    Level,
    Pace,
    judge,
    next_streams,
    note,
    percentile,
)
from harness.loadgen.session import Link, Measured, measure, prepare

_LEAD_NS = 50 * NS_PER_MS
_LEVEL_GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How many streams to begin with, and how long all may take; the first level runs always."""

    first_streams: int
    total_s: float


@dataclass(frozen=True, slots=True)
class Truth:
    """A paced server: where it is, and how to ask how late it was since it was asked last."""

    link: Link
    lateness: Callable[[], Awaitable[Lateness]]


def workloads(streams: int, pace: Pace, shares: int) -> tuple[Workload, ...]:
    """Requests due evenly so that `streams` are answered at once, dealt out to `shares` workers.

    Even, and not all at once, because tokens that are due together make any server late.
    """
    step_ns = pace.answer_ns / streams
    load = Load(LoadKind.POISSON, rate_rps=NS_PER_S / step_ns / shares)
    count = max(shares, round(pace.sending_ns / step_ns))
    arrivals = [
        Arrival(round(i * step_ns), Request(i, "paced", (i, 1, 2), pace.tokens))
        for i in range(count)
    ]
    return tuple(Workload("paced", 0, 1, load, tuple(arrivals[i::shares])) for i in range(shares))


async def calibrate(
    truths: Sequence[Truth],
    pace: Pace,
    folder: Path,
    on_level: Callable[[Level], None],
    limits: Limits,
) -> tuple[Level, ...]:
    """Try one number of streams after the other, with one worker a truth.

    `folder` takes what is only needed meanwhile. Raises EngineFailed when a server dies.
    """
    clock = truths[0].link.clock
    level_ns = pace.sending_ns + pace.answer_ns
    end_ns = clock.now_ns() + s_to_ns(limits.total_s)
    levels: list[Level] = []
    while (streams := next_streams(levels, limits.first_streams)) is not None:
        if levels and clock.now_ns() + level_ns > end_ns:
            break
        place = folder / str(len(levels))
        levels.append(await try_level(truths, streams, pace, place))
        on_level(levels[-1])
    return tuple(levels)


async def try_level(truths: Sequence[Truth], streams: int, pace: Pace, folder: Path) -> Level:
    """Measure with `streams` streams in all, and judge what was stamped; `folder` is made."""
    for truth in truths:
        await truth.lateness()  # what was before is of no interest
    shares = workloads(streams, pace, len(truths))
    places = [folder / str(i) for i in range(len(truths))]
    measured = await _measure(truths, shares, places)
    errors = Errors()
    for place in places:
        for record in _records(place):
            note(errors, record, pace)
    server = _worst([await truth.lateness() for truth in truths])
    cpu_share = max(m.client.cpu_share_max if m.client else 0.0 for m in measured)
    steady_s = ns_to_s(pace.sending_ns - pace.answer_ns)
    return Level(
        streams=streams,
        events_s=errors.events / steady_s,
        requests_s=errors.ended / steady_s,
        ttft_error_ns_p50=percentile(errors.ttft_ns or [0], 50),
        ttft_error_ns_p99=percentile(errors.ttft_ns or [0], 99),
        gap_error_ns_p99=percentile(errors.gap_ns or [0], 99),
        send_lag_ns_p99=percentile(errors.lag_ns or [0], 99),
        client_cpu_share=cpu_share,
        server=server,
        verdict=judge(errors, server, cpu_share),
    )


async def _measure(
    truths: Sequence[Truth], shares: Sequence[Workload], places: Sequence[Path]
) -> list[Measured]:
    clock, longest_s = truths[0].link.clock, ns_to_s(shares[0].arrivals[-1].due_ns)
    async with AsyncExitStack() as stack:
        prepared = []
        for truth, share, place in zip(truths, shares, places, strict=True):
            place.mkdir(parents=True)
            prepared.append(await stack.enter_async_context(prepare(truth.link, share, place)))
        start_ns = clock.now_ns() + _LEAD_NS
        measuring = (
            measure(p, start_ns, lambda _: None, longest_s + _LEVEL_GRACE_S) for p in prepared
        )
        measured = await asyncio.gather(*measuring)
    if any(m.is_interrupted for m in measured):
        raise asyncio.CancelledError
    return measured


def _records(folder: Path) -> Iterator[RequestRecord]:
    decoder = msgspec.json.Decoder(RequestRecord)
    with (folder / REQUESTS).open("rb") as file:
        for line in file:
            yield decoder.decode(line)


def _worst(servers: Sequence[Lateness]) -> Lateness:
    def most(name: str) -> int | None:
        return max((v for s in servers if (v := getattr(s, name)) is not None), default=None)

    return Lateness(most("token_ns_p50"), most("token_ns_p99"), most("arrival_ns_p50"))
