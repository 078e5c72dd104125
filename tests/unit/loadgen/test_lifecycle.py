"""A run from an empty folder to a closed one, whatever happens in between."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.scripted import Script, ScriptedServer
from harness.analyzer.reading import read_run
from harness.core.clock import MonotonicClock
from harness.core.engine import EngineFacts, EngineSample, EngineSpec, LaunchPlan
from harness.core.errors import EngineFailed
from harness.core.manifest import Ceilings, MachineFacts, RunManifest, RunStatus
from harness.core.workload import Load, LoadKind, Workload
from harness.loadgen.lifecycle import RunContext, run_engine

MakeAnswer = Callable[..., Script]
MakeWorkload = Callable[..., Workload]


@dataclass
class ScriptedEngine:
    """An engine whose server plays scripts; its faults are exceptions to raise at a stage."""

    scripts: Sequence[Script]
    on_start: Exception | None = None
    on_look: Callable[[], None] = lambda: None
    on_sample: Callable[[], EngineSample | None] = lambda: None
    settings: Mapping[str, str] = field(default_factory=dict)
    dialect: OpenAICompletionsDialect = field(default_factory=OpenAICompletionsDialect)
    spec: EngineSpec = EngineSpec("scripted", "scripted-x", "m")
    stops: int = 0

    def __post_init__(self) -> None:
        self.server = ScriptedServer(self.scripts, MonotonicClock())

    @property
    def plan(self) -> LaunchPlan:
        url = self.server.url if self.server._server else "http://127.0.0.1:1"
        return LaunchPlan(("play",), {}, url, 1.0)

    async def start(self) -> None:
        if self.on_start is not None:
            raise self.on_start
        await self.server.__aenter__()

    async def wait_until_ready(self) -> None:
        return None

    async def facts(self) -> EngineFacts:
        return EngineFacts(version="1", served_name="m", settings=dict(self.settings))

    async def sample(self) -> EngineSample | None:
        return self.on_sample()

    def raise_if_dead(self) -> None:
        self.on_look()

    async def stop(self) -> None:
        self.stops += 1
        await self.server.__aexit__(None, None, None)


def run(
    engine: ScriptedEngine,
    work: Workload,
    folder: Path,
    warmup: int = 0,
    deadline_s: float | None = None,
    **changes: Any,
) -> tuple[RunManifest, list[str]]:
    stages: list[str] = []
    context = RunContext(
        tool_version="0",
        command=("run",),
        machine=MachineFacts("cpu", 2, 24, (), "Linux", "3.11"),
        clock=MonotonicClock(),
        on_stage=stages.append,
        on_progress=lambda _: None,
        deadline_s=deadline_s,
    )
    context = replace(context, **changes)
    requests = [arrival.request for arrival in work.arrivals[:warmup]]
    return asyncio.run(run_engine(engine, work, requests, folder, context)), stages


def test_a_run_that_goes_well_is_complete_and_readable(
    tmp_path: Path, answer: MakeAnswer, workload: MakeWorkload
) -> None:
    engine = ScriptedEngine([answer()])
    manifest, stages = run(engine, workload(5), tmp_path, warmup=2)

    assert stages == ["starting", "warming up", "measuring", "stopping"]
    assert engine.stops == 1
    found = read_run(tmp_path)
    assert found.manifest == manifest
    assert (manifest.status, manifest.counts.ok) == (RunStatus.COMPLETE, 5)
    assert len(found.requests) == 5
    assert manifest.facts.version == "1"
    assert manifest.warmup_requests == 2


def test_an_engine_that_does_not_start_leaves_a_folder_that_says_why(
    tmp_path: Path, answer: MakeAnswer, workload: MakeWorkload
) -> None:
    engine = ScriptedEngine([answer()], on_start=EngineFailed("no such program"))

    with pytest.raises(EngineFailed, match="no such program"):
        run(engine, workload(1), tmp_path)

    manifest = read_run(tmp_path).manifest
    assert (manifest.status, manifest.failure) == (RunStatus.FAILED, "no such program")
    assert engine.stops == 1


def test_an_engine_that_dies_in_the_middle_leaves_its_records_and_a_failed_run(
    tmp_path: Path, answer: MakeAnswer, silent_answer: Script, workload: MakeWorkload
) -> None:
    looks = []

    def die_later() -> None:
        looks.append(1)
        if len(looks) > 1:
            raise EngineFailed("the server ended with exit code 9")

    engine = ScriptedEngine([answer(), silent_answer], on_look=die_later)
    load = Load(LoadKind.CLOSED, concurrency=1)
    manifest, _ = run(engine, workload(5, load), tmp_path)

    assert manifest.status is RunStatus.FAILED
    assert manifest.failure == "the server ended with exit code 9"
    assert (manifest.counts.sent, manifest.counts.ok, manifest.counts.cancelled) == (2, 1, 1)
    assert len(read_run(tmp_path).requests) == 2
    assert engine.stops == 1


def test_a_run_that_hits_its_deadline_is_interrupted_not_complete(
    tmp_path: Path, silent_answer: Script, workload: MakeWorkload
) -> None:
    engine = ScriptedEngine([silent_answer])
    manifest, _ = run(engine, workload(1), tmp_path, deadline_s=0.01)

    assert manifest.status is RunStatus.INTERRUPTED
    assert manifest.failure == "the deadline of 0.01 s passed"
    assert engine.stops == 1


def test_a_run_interrupted_before_measuring_is_closed_and_stops_its_engine(
    tmp_path: Path, answer: MakeAnswer, workload: MakeWorkload
) -> None:
    engine = ScriptedEngine([answer()], on_start=asyncio.CancelledError())  # type: ignore[arg-type]
    manifest, _ = run(engine, workload(1), tmp_path)

    assert manifest.status is RunStatus.INTERRUPTED
    assert manifest.counts.sent == 0
    assert engine.stops == 1


def test_the_engine_is_read_before_the_first_request_and_after_the_last(
    tmp_path: Path, answer: MakeAnswer, workload: MakeWorkload
) -> None:
    counted = iter(range(100))
    clock = MonotonicClock()
    engine = ScriptedEngine(
        [answer()],
        on_sample=lambda: EngineSample(clock.now_ns(), requests_total=float(next(counted))),
    )
    run(engine, workload(3), tmp_path, warmup=1)

    found = read_run(tmp_path)
    assert found.cautions == ()
    assert [sample.requests_total for sample in found.samples] == list(range(len(found.samples)))
    assert found.samples[0].at_ns < min(record.sent_ns for record in found.requests)
    assert found.samples[-1].at_ns >= max(record.closed_ns or 0 for record in found.requests)


def test_an_engine_that_cannot_be_read_is_measured_all_the_same(
    tmp_path: Path, answer: MakeAnswer, workload: MakeWorkload
) -> None:
    def fail() -> EngineSample | None:
        raise RuntimeError("a fault of the adapter")

    manifest, _ = run(ScriptedEngine([answer()], on_sample=fail), workload(3), tmp_path)

    assert (manifest.status, manifest.counts.ok) == (RunStatus.COMPLETE, 3)
    assert all(s == EngineSample(s.at_ns) for s in read_run(tmp_path).samples)


CPU = Ceilings("cpu", 2, 36e9, {"bfloat16": 2e12}, "2030-01-01T00:00:00+00:00")
CUDA = replace(CPU, device="cuda", read_bytes_per_s=4e12)
ATTACHED = EngineSpec("scripted", "scripted-x", "m", attach_url="http://127.0.0.1:1")
WITH_GPU = MachineFacts("cpu", 2, 24, ("H200",), "Linux", "3.11")


@pytest.mark.parametrize(
    ("settings", "changes", "spec", "found"),
    [
        ({}, {}, None, CPU),
        ({"device": "cuda"}, {}, None, CUDA),
        ({"device": "tpu"}, {}, None, None),
        ({}, {"machine": WITH_GPU}, None, None),
        ({"device": "cpu"}, {"machine": WITH_GPU}, None, CPU),
        ({}, {}, ATTACHED, None),
        ({}, {"ceilings": ()}, None, None),
    ],
)
def test_a_run_keeps_the_ceilings_of_the_device_that_its_engine_computes_on(
    tmp_path: Path,
    answer: MakeAnswer,
    workload: MakeWorkload,
    settings: Mapping[str, str],
    changes: Mapping[str, Any],
    spec: EngineSpec | None,
    found: Ceilings | None,
) -> None:
    engine = ScriptedEngine([answer()], settings=settings)
    engine.spec = spec or engine.spec
    manifest, _ = run(engine, workload(1), tmp_path, **{"ceilings": (CPU, CUDA), **changes})

    assert manifest.ceilings == found
    assert read_run(tmp_path).manifest == manifest
