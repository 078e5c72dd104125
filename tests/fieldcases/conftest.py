"""Measurements and whole runs of scripted servers: from bytes on the wire to a run folder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.scripted import Script, ScriptedServer
from harness.core.clock import MonotonicClock
from harness.core.engine import EngineFacts, EngineSpec, LaunchPlan
from harness.core.jsonable import from_json
from harness.core.manifest import MachineFacts, RunManifest
from harness.core.record import RequestRecord
from harness.core.rundir import REQUESTS, create_folder
from harness.core.workload import Request, Workload
from harness.loadgen.lifecycle import RunContext, run_engine
from harness.loadgen.session import Link, Measured, measure, prepare


@dataclass(frozen=True)
class Seen:
    """What a measurement came to, on our side and on the server's."""

    measured: Measured
    records: list[RequestRecord]
    server: ScriptedServer

    @property
    def kinds(self) -> list[str | None]:
        """Why each request failed, None where it did not."""
        return [r.error.kind if r.error else None for r in self.records]


@pytest.fixture
def drive(tmp_path: Path) -> Callable[..., Seen]:
    """Measures a workload on a server that plays scripts; `url` names another server instead."""

    def run(
        scripts: Sequence[Script],
        work: Workload,
        deadline_s: float | None = None,
        url: str | None = None,
    ) -> Seen:
        async def main() -> tuple[Measured, ScriptedServer]:
            clock = MonotonicClock()
            async with ScriptedServer(scripts, clock) as server:
                dialect = OpenAICompletionsDialect()
                link = Link(url or server.url, "m", dialect, clock, lambda: None)
                async with prepare(link, work, tmp_path) as prepared:
                    return await measure(
                        prepared, clock.now_ns(), lambda _: None, deadline_s
                    ), server

        measured, server = asyncio.run(main())
        lines = (tmp_path / REQUESTS).read_text().splitlines()
        records = [from_json(RequestRecord, json.loads(line)) for line in lines]
        counts = measured.counts
        assert counts.sent == counts.ok + counts.failed + counts.cancelled + counts.unfinished
        assert counts.sent == len({record.index for record in records}) == len(records)
        return Seen(measured, sorted(records, key=lambda record: record.index), server)

    return run


class ScriptedEngine:
    """An engine whose server plays scripts, for runs from an empty folder to a closed one."""

    def __init__(self, scripts: Sequence[Script], model: str) -> None:
        self.spec = EngineSpec("scripted", "scripted-x", model)
        self.dialect = OpenAICompletionsDialect()
        self.server = ScriptedServer(scripts, MonotonicClock())
        self.plan = LaunchPlan(("play",), {}, "http://127.0.0.1:1", 1.0)

    async def start(self) -> None:
        await self.server.__aenter__()
        self.plan = replace(self.plan, base_url=self.server.url)

    async def wait_until_ready(self) -> None:
        return None

    async def facts(self) -> EngineFacts:
        return EngineFacts(version="1", model=self.spec.model, served_name="m")

    async def sample(self) -> None:
        return None

    def raise_if_dead(self) -> None:
        return None

    async def stop(self) -> None:
        await self.server.__aexit__(None, None, None)


@dataclass(frozen=True)
class ScriptedRun:
    """A run that has ended: its manifest, its folder, and the server that it was made on."""

    manifest: RunManifest
    folder: Path
    server: ScriptedServer


@pytest.fixture
def run_scripted(tmp_path: Path) -> Callable[..., ScriptedRun]:
    """Runs an engine that plays scripts, through its whole life, into a run folder."""

    def run(
        scripts: Sequence[Script],
        work: Workload,
        warmup: int = 0,
        deadline_s: float | None = None,
        model: str = "m",
    ) -> ScriptedRun:
        folder = create_folder(tmp_path / "run")
        engine = ScriptedEngine(scripts, model)
        context = RunContext(
            tool_version="0",
            command=("run",),
            machine=MachineFacts("cpu", 2, 24, (), "Linux", "3.11"),
            clock=MonotonicClock(),
            on_stage=lambda _: None,
            on_progress=lambda _: None,
            deadline_s=deadline_s,
        )
        requests = [Request(900 + i, "W", (9, 9, i), 2) for i in range(warmup)]
        manifest = asyncio.run(run_engine(engine, work, requests, folder, context))
        return ScriptedRun(manifest, folder, engine.server)

    return run
