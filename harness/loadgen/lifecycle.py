"""One run of one engine, from an empty folder to a closed one: start, warm up, measure, stop.

The manifest is written before the engine starts and again at every turn, so that a folder tells how
far its run came whatever ended it. The engine is stopped whatever happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.clock import Clock, utc_now
from harness.core.engine import Engine, EngineFacts
from harness.core.errors import BatchmarkError, UsageError
from harness.core.fingerprint import fingerprint
from harness.core.manifest import (
    LAUNCH,
    Ceilings,
    MachineFacts,
    RunManifest,
    RunStatus,
    workload_facts,
)
from harness.core.rundir import MANIFEST, write_json
from harness.core.slo import Slo
from harness.core.source import Recipe
from harness.core.units import NS_PER_MS
from harness.core.workload import Request, Workload
from harness.loadgen.levels import Ceiling
from harness.loadgen.session import (
    DEFAULT_OPTIONS,
    ClientOptions,
    Link,
    Measured,
    Progress,
    measure,
    prepare,
    warm_up,
)
from harness.loadgen.watcher import Watched, take_sample, watching

# From choosing the first due instant to that instant: the manifest with it goes to the disk, and
# the watch over the engine begins; on a busy machine neither may make the first sends late.
LEAD_NS = 250 * NS_PER_MS


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all runs of one command share. `command` is what the user typed, secrets removed.

    `deadline_s` bounds the warm-up and the measurement, each by itself. `ceiling` is what this
    machine's client can take, where it was calibrated; `ceilings` what its devices can do, where
    `batchmark doctor` measured them. `slos` are kept with the run, to judge it by, and `recipe` to
    make it again.
    """

    tool_version: str
    command: tuple[str, ...]
    machine: MachineFacts
    clock: Clock
    on_stage: Callable[[str], None]
    on_progress: Callable[[Progress], None]
    deadline_s: float | None = None
    client: ClientOptions = DEFAULT_OPTIONS
    ceiling: Ceiling | None = None
    ceilings: tuple[Ceilings, ...] = ()
    slos: tuple[Slo, ...] = ()
    recipe: Recipe | None = None


async def run_engine(
    engine: Engine,
    workload: Workload,
    warmup: Sequence[Request],
    folder: Path,
    context: RunContext,
) -> RunManifest:
    """Measure `engine` on `workload` into the existing, empty `folder`; returns the last manifest.

    An interruption is not raised: it is the status of the manifest. Raises BatchmarkError when the
    engine cannot be started, warmed up, or dies; the folder is closed as failed before that.
    """
    manifest = _open_manifest(engine, workload, len(warmup), folder, context)
    try:
        measured, manifest = await _measure(engine, workload, warmup, manifest, folder, context)
    except asyncio.CancelledError:
        return _close(manifest, RunStatus.INTERRUPTED, "interrupted before measuring", folder)
    except BatchmarkError as error:
        _close(manifest, RunStatus.FAILED, str(error), folder)
        raise
    finally:
        context.on_stage("stopping")
        await engine.stop()
    status = RunStatus.COMPLETE if measured.stopped_by is None else RunStatus.INTERRUPTED
    status = RunStatus.FAILED if measured.is_engine_dead else status
    manifest = replace(
        manifest, counts=measured.counts, ended_ns=measured.ended_ns, client=measured.client
    )
    return _close(manifest, status, measured.stopped_by, folder)


async def _measure(
    engine: Engine,
    workload: Workload,
    warmup: Sequence[Request],
    manifest: RunManifest,
    folder: Path,
    context: RunContext,
) -> tuple[Measured, RunManifest]:
    context.on_stage("starting")
    await engine.start()
    await engine.wait_until_ready()
    facts = await engine.facts()
    _require_room(workload, facts, engine.spec.name)
    served = facts.served_name or facts.model or engine.spec.model
    link = Link(engine.plan.base_url, served, engine.dialect, context.clock, engine.raise_if_dead)
    context.on_stage("warming up")
    await warm_up(link, warmup, context.deadline_s)
    async with prepare(link, workload, folder, context.client) as prepared:
        context.on_stage("measuring")
        watched = Watched(engine.sample, context.clock, folder)
        before = await take_sample(watched)
        manifest = replace(
            manifest,
            facts=facts,
            start_ns=context.clock.now_ns() + LEAD_NS,
            ceilings=_ceilings_of(manifest, facts, context.ceilings),
        )
        write_json(folder / MANIFEST, manifest)
        async with watching(watched, manifest.start_ns, before):
            measured = await measure(
                prepared, manifest.start_ns, context.on_progress, context.deadline_s
            )
    if measured.client is not None and context.ceiling is not None:
        client = replace(
            measured.client,
            ceiling_events_s=context.ceiling.events_s,
            ceiling_is_lower_bound=context.ceiling.is_lower_bound,
        )
        measured = replace(measured, client=client)
    return measured, manifest


def _ceilings_of(
    manifest: RunManifest, facts: EngineFacts, known: Sequence[Ceilings]
) -> Ceilings | None:
    """Those of the device that the engine computes on; None when that is not known to be ours."""
    if manifest.engine.attach_url is not None:
        return None
    device = facts.settings.get("device", None if manifest.machine.gpus else "cpu")
    return next((ceilings for ceilings in known if ceilings.device == device), None)


def _require_room(workload: Workload, facts: EngineFacts, name: str) -> None:
    """Raise UsageError when the longest request does not fit into the engine's context."""
    needed = workload.totals.longest_tokens
    if facts.context_tokens is not None and needed > facts.context_tokens:
        msg = f"the longest request of {workload.name} needs {needed} tokens, but {name} has a"
        remedy = f"give it --context-tokens {needed}, or drop or clamp longer ones with --oversize"
        raise UsageError(f"{msg} context of {facts.context_tokens}; {remedy}")


def _open_manifest(
    engine: Engine, workload: Workload, warmup: int, folder: Path, context: RunContext
) -> RunManifest:
    manifest = RunManifest(
        run_id=folder.name,
        status=RunStatus.RUNNING,
        created_utc=utc_now().isoformat(timespec="seconds"),
        tool_version=context.tool_version,
        command=context.command,
        clock="monotonic",
        start_ns=context.clock.now_ns(),
        engine=engine.spec,
        workload=workload_facts(workload),
        machine=context.machine,
        launch=(*(f"{k}={v}" for k, v in engine.plan.env.items()), *engine.plan.argv),
        warmup_requests=warmup,
        labels={LAUNCH: fingerprint(engine.plan, folder)},
        slos=context.slos,
        recipe=context.recipe,
    )
    manifest = replace(manifest, counts=replace(manifest.counts, planned=len(workload.arrivals)))
    write_json(folder / MANIFEST, manifest)
    return manifest


def _close(
    manifest: RunManifest, status: RunStatus, failure: str | None, folder: Path
) -> RunManifest:
    ended_utc = utc_now().isoformat(timespec="seconds")
    manifest = replace(manifest, status=status, failure=failure, ended_utc=ended_utc)
    write_json(folder / MANIFEST, manifest)
    return manifest
