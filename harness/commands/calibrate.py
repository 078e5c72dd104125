"""`batchmark calibrate`: how much our client can read here before its stamps go wrong."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.paced import MODEL, Timetable
from engines.paced_server import PacedProcess
from harness import console
from harness.core.cache import default_cache_folder
from harness.core.clock import Clock, MonotonicClock, utc_now
from harness.core.errors import ExitCode, UsageError
from harness.core.flag import require_positive
from harness.core.plan import CalibrateFlags
from harness.core.units import ns_to_s
from harness.gate import formatting
from harness.loadgen.calibration import Limits, Truth, calibrate
from harness.loadgen.ceiling import KeptCeiling, Place, keep_ceiling
from harness.loadgen.interruption import Interruption
from harness.loadgen.levels import Ceiling, Lateness, Level, Pace, ceiling_of
from harness.loadgen.machine import machine_facts
from harness.loadgen.session import Link

HEADERS = (
    "streams",
    "events/s",
    "requests/s",
    "TTFT error p50",
    "p99",
    "gap error p99",
    "send lag p99",
    "client CPU",
    "server late p50",
    "p99",
    "verdict",
)


def calibrate_client(flags: CalibrateFlags, version: str) -> ExitCode:
    """Find the ceiling, print how, and keep it for the runs to come."""
    require_positive("--workers", flags.workers)
    require_positive("--limit-s", flags.limit_s)
    if flags.streams < flags.workers:
        msg = f"--streams is {flags.streams}; each of {flags.workers} worker(s) needs one at least"
        raise UsageError(msg)
    interruption = Interruption()
    levels = interruption.run(_levels(flags))
    if levels:
        console.print_table("Client against a paced server", HEADERS, map(_row, levels))
    if interruption.exit_code is not None:
        console.print_error("interrupted; nothing was kept")
        return interruption.exit_code
    ceiling = ceiling_of(levels)
    if ceiling is None:
        msg = (
            "no level was clean, so nothing was kept; leave the machine otherwise idle, and repeat"
        )
        console.print_error(msg)
        return ExitCode.INCONCLUSIVE
    place = Place(machine_facts(), version, flags.workers)
    kept = KeptCeiling(place, ceiling, utc_now().isoformat(timespec="seconds"))
    path = keep_ceiling(default_cache_folder(), kept)
    console.print_line(_said(ceiling, flags.workers))
    console.print_line(f"kept in {path}")
    return ExitCode.OK


async def _levels(flags: CalibrateFlags) -> tuple[Level, ...]:
    """The levels that were tried; none when it was interrupted."""
    pace = Pace()

    def show(level: Level) -> None:
        rate = formatting.count(level.events_s)
        console.print_line(f"{level.streams} streams: {rate} events/s, {level.verdict.value}")

    with tempfile.TemporaryDirectory(prefix="batchmark-") as name:
        folder = Path(name)
        try:
            async with _servers(flags.workers, pace, folder) as truths:
                return await calibrate(
                    truths, pace, folder, show, Limits(flags.streams, flags.limit_s)
                )
        except asyncio.CancelledError:
            return ()


@asynccontextmanager
async def _servers(count: int, pace: Pace, folder: Path) -> AsyncIterator[tuple[Truth, ...]]:
    """`count` paced servers, one for each worker, so that none is the bottleneck of all."""
    clock = MonotonicClock()
    timetable = Timetable(pace.ttft_ns, pace.gap_ns)
    processes = []
    for number in range(count):
        place = folder / f"server-{number}"
        place.mkdir()
        processes.append(PacedProcess(timetable, place, clock))
    try:
        for process in processes:
            await process.start()
        yield tuple(_truth(process, clock) for process in processes)
    finally:
        for process in processes:
            await process.stop()


def _truth(process: PacedProcess, clock: Clock) -> Truth:
    async def lateness() -> Lateness:
        stats = await process.stats()
        return Lateness(stats.late_ns_p50, stats.late_ns_p99, stats.arrival_ns_p50)

    dialect = OpenAICompletionsDialect()
    return Truth(Link(process.url, MODEL, dialect, clock, process.raise_if_dead), lateness)


def _row(level: Level) -> Sequence[str]:
    return (
        formatting.count(level.streams),
        formatting.count(level.events_s),
        formatting.count(level.requests_s),
        _time(level.ttft_error_ns_p50),
        _time(level.ttft_error_ns_p99),
        _time(level.gap_error_ns_p99),
        _time(level.send_lag_ns_p99),
        formatting.share(level.client_cpu_share),
        _time(level.server.token_ns_p50),
        _time(level.server.token_ns_p99),
        level.verdict.value,
    )


def _time(nanoseconds: int | None) -> str:
    return formatting.seconds(None if nanoseconds is None else ns_to_s(nanoseconds))


def _said(ceiling: Ceiling, workers: int) -> str:
    events, requests = formatting.count(ceiling.events_s), formatting.count(ceiling.requests_s)
    lag = _time(ceiling.send_lag_ns_p99)
    plural = "worker" if workers == 1 else "workers"
    bound = f"; a lower bound ({ceiling.limit})" if ceiling.is_lower_bound else ""
    return (
        f"client ceiling, {workers} {plural}: {events} events/s and {requests} requests/s, "
        f"send lag p99 {lag}{bound}"
    )
