"""The adapter of the in-house engine: `batchmark serve` in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import aiohttp

from engines.dialect import OpenAICompletionsDialect
from engines.server_process import LOOPBACK, ServerProcess, free_port, require_free_port
from harness.core.clock import Clock
from harness.core.engine import (
    Capabilities,
    EngineFacts,
    EngineSample,
    EngineSpec,
    ExactLength,
    FirstEvent,
    LaunchPlan,
)
from harness.core.errors import EngineFailed
from harness.core.jsonable import from_json
from harness.core.rundir import ENGINE_LOG, STEPS

READY_TIMEOUT_S = 300.0
_FACTS_TIMEOUT_S = 10.0


def launch_plan(spec: EngineSpec, port: int, step_log: Path) -> LaunchPlan:
    """How the engine that `spec` describes is served on `port`, logging its steps to `step_log`."""
    argv = [
        *(sys.executable, "-m", "harness.cli", "serve"),
        *("--model", spec.model),
        *("--policy", spec.policy or "continuous"),
        *("--slots", str(spec.slots)),
        *("--dtype", spec.dtype),
        *("--port", str(port)),
        "--until-stdin-closes",
        *("--step-log", str(step_log)),
        "--pad-prompts" if spec.pad_prompts else "--no-pad-prompts",
    ]
    if spec.threads is not None:
        argv += ["--threads", str(spec.threads)]
    if spec.batch_window_ms is not None:
        argv += ["--batch-window-ms", f"{spec.batch_window_ms:g}"]
    return LaunchPlan(
        argv=tuple(argv),
        env={
            "PYTHONUNBUFFERED": "1",  # what it last said is in the log when it dies
            # Threads that wait for each other inside a step spin for a short while, then sleep:
            # where all cores are in use, endless spinning takes time from those that work.
            "GOMP_SPINCOUNT": "10000",
        },
        base_url=f"http://{LOOPBACK}:{port}",
        ready_timeout_s=READY_TIMEOUT_S,
    )


class InhouseServer:
    """The in-house engine as a server; its step log and its output go into `folder`."""

    def __init__(self, spec: EngineSpec, folder: Path, clock: Clock) -> None:
        self.spec = spec
        self.capabilities = Capabilities(
            takes_token_ids=True,
            counts="ids",
            exact_length=ExactLength.CONTINUES_PAST_EOS,
            first_event=FirstEvent.TOKEN,
            has_metrics=True,
            has_prefix_cache=False,
            refuses_unknown_fields=True,
        )
        self.dialect = OpenAICompletionsDialect(asks_token_ids=True)
        port = free_port() if spec.port is None else spec.port
        self.plan = launch_plan(spec, port, folder / STEPS)
        self._port = port
        self._process = ServerProcess(self.plan.argv, self.plan.env, folder / ENGINE_LOG, clock)

    async def sample(self) -> EngineSample | None:
        """The engine's own counters now."""
        return None

    async def start(self) -> None:
        """Start the server process. Raises UsageError when the port is in use."""
        require_free_port(self._port)
        self._process.start()

    async def wait_until_ready(self) -> None:
        """Return once /health answers 200. Raises EngineFailed when the process ends first."""
        url = f"{self.plan.base_url}/health"
        await self._process.wait_until_healthy(url, self.plan.ready_timeout_s)

    async def facts(self) -> EngineFacts:
        """What the server's /server_info says. Raises EngineFailed when it cannot be read."""
        url = f"{self.plan.base_url}/server_info"
        timeout = aiohttp.ClientTimeout(total=_FACTS_TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(url) as response,
            ):
                response.raise_for_status()
                return from_json(EngineFacts, await response.json())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            self._process.raise_if_dead()
            said = error or type(error).__name__
            msg = f"cannot read what the engine is from {url}: {said}; read its log"
            raise EngineFailed(msg) from error

    def raise_if_dead(self) -> None:
        """Raise EngineFailed, with the log's last lines, when the server has ended by itself."""
        self._process.raise_if_dead()

    async def stop(self) -> None:
        """End the server's whole process group. Safe to call twice, and before `start`."""
        await self._process.stop()
