"""The paced server as a process of its own: started, asked how late it was, stopped."""

from __future__ import annotations

import sys
from pathlib import Path

import aiohttp

from engines.paced import PacedStats, Timetable
from engines.server_process import LOOPBACK, ServerProcess, free_port
from harness.core.clock import Clock
from harness.core.errors import EngineFailed
from harness.core.jsonable import from_json
from harness.core.rundir import ENGINE_LOG
from harness.core.units import ns_to_ms

_READY_TIMEOUT_S = 20.0
# Sorting the lateness of a million tokens takes part of a second.
_STATS_TIMEOUT_S = 10.0


class PacedProcess:
    """A paced server on a free port of the loopback; what it prints goes into `folder`."""

    def __init__(self, timetable: Timetable, folder: Path, clock: Clock) -> None:
        port = free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        argv = (
            *(sys.executable, "-m", "engines.paced", "--port", str(port)),
            *("--ttft-ms", f"{ns_to_ms(timetable.ttft_ns):g}"),
            *("--gap-ms", f"{ns_to_ms(timetable.gap_ns):g}"),
        )
        self._process = ServerProcess(argv, {}, folder / ENGINE_LOG, clock)

    async def start(self) -> None:
        """Start it, and return when it answers. Raises EngineFailed when it ends first."""
        self._process.start()
        await self._process.wait_until_healthy(f"{self.url}/health", _READY_TIMEOUT_S)

    async def stats(self) -> PacedStats:
        """What it did since it was asked last. Raises EngineFailed when it gives no answer."""
        timeout = aiohttp.ClientTimeout(total=_STATS_TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(f"{self.url}/stats") as response,
            ):
                return from_json(PacedStats, await response.json())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            self._process.raise_if_dead()
            msg = f"cannot read {self.url}/stats: {error or type(error).__name__}; repeat the run"
            raise EngineFailed(msg) from error

    def raise_if_dead(self) -> None:
        """Raise EngineFailed when the server has ended by itself."""
        self._process.raise_if_dead()

    async def stop(self) -> None:
        """End the process. Safe to call twice, and before `start`."""
        await self._process.stop()
