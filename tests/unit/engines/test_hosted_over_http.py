"""Hosted libraries in processes of their own, measured by the real client on a tiny model."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import msgspec
import pytest

from engines.hosted.libraries import require_library
from engines.hosted_server import ADAPTERS, HostedServer
from harness.core.clock import MonotonicClock
from harness.core.engine import EngineSpec
from harness.core.errors import EngineFailed, UsageError
from harness.core.manifest import RunManifest, RunStatus
from harness.core.record import Outcome, RequestRecord, StepRecord, TokenSource
from harness.core.rundir import REQUESTS, STEPS
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload
from harness.loadgen.lifecycle import RunContext, run_engine
from harness.loadgen.machine import machine_facts

LENGTHS = ((60, 1), (7, 24), (100, 9), (30, 15), (1, 12), (3, 5))
SLOTS = 3


def workload() -> Workload:
    """Six requests at once, of random token ids."""
    drawn = random.Random(4)
    arrivals = tuple(
        Arrival(0, Request(i, "A", tuple(drawn.randrange(256) for _ in range(prompt)), most))
        for i, (prompt, most) in enumerate(LENGTHS)
    )
    return Workload("small", 0, 1, Load(LoadKind.BACKLOG), arrivals)


def spec_of(kind: str, model: Path | str) -> EngineSpec:
    window_ms = 20.0 if kind == "huggingface-static" else None
    return EngineSpec(
        kind=kind,
        name=kind,
        model=str(model),
        slots=SLOTS,
        dtype="float32",
        threads=1,
        batch_window_ms=window_ms,
    )


def measured(kind: str, model: Path, folder: Path) -> tuple[RunManifest, list[RequestRecord]]:
    context = RunContext(
        tool_version="test",
        command=(),
        machine=machine_facts(),
        clock=MonotonicClock(),
        on_stage=lambda _: None,
        on_progress=lambda _: None,
        deadline_s=120,
    )
    engine = HostedServer(spec_of(kind, model), folder, context.clock)
    manifest = asyncio.run(run_engine(engine, workload(), (), folder, context))
    lines = (folder / REQUESTS).read_bytes().splitlines()
    records = [msgspec.json.decode(line, type=RequestRecord) for line in lines]
    return manifest, sorted(records, key=lambda record: record.index)


@pytest.mark.parametrize("kind", ADAPTERS)
def test_every_request_gets_exactly_the_tokens_that_it_asked_for_one_an_event(
    kind: str, tiny_gguf: Path, tmp_path: Path
) -> None:
    try:
        require_library(kind)
    except UsageError as error:
        pytest.skip(str(error))

    manifest, records = measured(kind, tiny_gguf, tmp_path)

    assert manifest.status is RunStatus.COMPLETE
    assert manifest.facts is not None
    assert manifest.facts.settings["slots"] == SLOTS
    assert [record.outcome for record in records] == [Outcome.OK] * len(LENGTHS)
    assert [(r.prompt_tokens, r.output_tokens) for r in records] == list(LENGTHS)
    assert [r.events_tokens for r in records] == [(1,) * most for _, most in LENGTHS]
    assert {r.output_tokens_source for r in records} == {TokenSource.ENGINE_IDS}
    assert {r.finish_reason for r in records} == {"length"}
    if kind == "huggingface-static":
        lines = (tmp_path / STEPS).read_bytes().splitlines()
        steps = [msgspec.json.decode(line, type=StepRecord) for line in lines]
        ours = [step for step in steps if step.started_ns >= manifest.start_ns]
        assert sum(step.running for step in ours) == sum(most for _, most in LENGTHS)
        assert all(step.running + step.padded <= SLOTS for step in ours)


@pytest.mark.parametrize("kind", ADAPTERS)
def test_a_server_that_cannot_load_its_model_ends_with_what_is_wrong(
    kind: str, tmp_path: Path
) -> None:
    engine = HostedServer(spec_of(kind, "no-such-model"), tmp_path, MonotonicClock())

    async def use() -> None:
        engine._process.start()  # as if the library were there
        try:
            await engine.wait_until_ready()
        finally:
            await engine.stop()

    with pytest.raises(EngineFailed, match="no model and no path is called 'no-such-model'"):
        asyncio.run(use())
    assert engine.plan.argv[0] == sys.executable
