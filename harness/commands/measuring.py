"""What `run`, `ablate` and `duel` share: what is sent, whose turn it is, and one measured run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from engines.registry import open_engine
from harness import console
from harness.commands.sendables import Asked, Locked, Mix, Sendable, Traced
from harness.commands.work import open_sendable, require_meant, tell_source
from harness.core.cache import default_cache_folder
from harness.core.ceilings import read_ceilings, site_of
from harness.core.clock import Clock, MonotonicClock
from harness.core.engine import Checked, Engine, EngineSpec
from harness.core.errors import BatchmarkError, ExitCode, UsageError
from harness.core.manifest import MachineFacts, RunStatus
from harness.core.plan import RunPlan
from harness.core.rundir import create_folder
from harness.core.source import Recipe
from harness.core.workload import Request, Workload
from harness.loadgen.ceiling import Place, find_ceiling
from harness.loadgen.crew import workers_for
from harness.loadgen.lifecycle import RunContext, run_engine
from harness.loadgen.machine import machine_facts, with_burn_in
from harness.loadgen.session import ClientOptions, Progress
from workloads.catalog import names
from workloads.schedule_file import read_schedule


@dataclass(frozen=True, slots=True)
class Work:
    """What a plan sends, and what was named when it was asked for.

    `available` is how many requests there are, None where they can be sent over and again.
    """

    sendable: Sendable
    recipe: Recipe
    available: int | None = None

    @property
    def is_locked(self) -> bool:
        """True when each repeat sends the same bytes, whatever the seed."""
        return isinstance(self.sendable, Locked)

    def workload(self, plan: RunPlan, repeat: int) -> Workload:
        """Seed + i in repeat i; the same bytes every time when they are locked."""
        return self.sendable.workload(_asked(plan), plan.seed + repeat)

    def warmup(self, plan: RunPlan, repeat: int) -> tuple[Request, ...]:
        """What is sent before repeat i is measured."""
        return self.sendable.warmup(_asked(plan), plan.warmup_requests, plan.seed + repeat)

    def sized(self, plan: RunPlan, requests: int) -> RunPlan:
        """`plan` with so much of this work that it makes `requests` at least.

        Of a trace these are its first ones. Raises UsageError where it has not so many.
        """
        if isinstance(self.sendable, Mix):
            needed = math.ceil(requests / len(self.sendable.spec.requests))
            return replace(plan, repeat_mix=max(plan.repeat_mix or 1, needed))
        if self.available is not None and requests > self.available:
            msg = (
                f"{plan.load} takes {requests:,} requests, and {plan.workload} has only "
                f"{self.available:,} that can be sent; take a lower load, or a shorter --window-s: "
                "the same prompts again would be found in caches"
            )
            raise UsageError(msg)
        return replace(plan, source=replace(plan.source, requests=requests))


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of a plan: the repeat it belongs to, the engine, and the folder it is kept in."""

    repeat: int
    spec: EngineSpec
    folder: Path


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why a run did not come to its end, and the exit code that it means."""

    reason: str
    exit_code: ExitCode = ExitCode.INVALID


@dataclass(frozen=True, slots=True)
class Bench:
    """What all runs of one command have in common."""

    plan: RunPlan
    work: Work
    command: tuple[str, ...]
    version: str
    clock: Clock = field(default_factory=MonotonicClock)
    machine: MachineFacts = field(default_factory=machine_facts)


def open_work(plan: RunPlan, name: str | None) -> tuple[RunPlan, Work]:
    """What is sent, and the plan, which takes the words for it from a locked schedule or a trace.

    Prints where the requests were read from. Raises UsageError when they cannot be made.
    """
    named = plan.workload if plan.schedule is None else str(plan.schedule)
    place = named if named in names() else str(Path(named).absolute())
    if plan.schedule is None:
        sendable, asked = open_sendable(plan.workload, _asked(plan))
        plan = replace(plan, source=asked.source, repeat_mix=asked.repeat_mix)
        work = Work(sendable, Recipe(place, reading=asked.source))
        first = work.workload(plan, repeat=0)
        if isinstance(sendable, Traced):
            plan = replace(plan, workload=first.name, load=first.load)
            work = replace(work, available=len(first.arrivals))
    else:
        speed = plan.load.speed or 1.0
        first = read_schedule(plan.schedule, speed, name)
        work = Work(Locked(first), Recipe(first.name, schedule=place, speed=speed))
        plan = replace(
            plan,
            workload=first.name,
            repeat_mix=first.repeat_mix,
            load=first.load,
            seed=first.seed,
        )
    tell_source(first)
    require_meant(first, plan.source)
    return plan, work


def _asked(plan: RunPlan) -> Asked:
    """How `plan` sends. Which tokenizer a running server has is not known: it gets none."""
    first = plan.engines[0]
    contexts = [spec.context_tokens for spec in plan.engines if spec.context_tokens is not None]
    return Asked(
        load=plan.load if plan.names_load else None,
        repeat_mix=plan.repeat_mix,
        source=plan.source,
        model=None if first.attach_url is not None else first.model,
        context_tokens=min(contexts, default=None),
    )


def checked_engines(plan: RunPlan) -> tuple[Engine, ...]:
    """The engines, not started. Raises UsageError for what is known to be wrong before a start."""
    clock = MonotonicClock()
    engines = tuple(open_engine(spec, plan.folder / spec.name, clock) for spec in plan.engines)
    for engine in engines:
        if isinstance(engine, Checked):
            engine.check()
    return engines


def turns(plan: RunPlan) -> Iterator[Turn]:
    """Every run of `plan` in its order.

    Repeat i sends the same bytes to every engine, in reverse order every other time, so that a slow
    drift of the machine weighs on all alike.
    """
    for repeat in range(plan.repeats):
        for spec in plan.engines if repeat % 2 == 0 else reversed(plan.engines):
            name = spec.name if plan.repeats == 1 else f"{spec.name}-{repeat + 1}"
            yield Turn(repeat, spec, plan.folder / name)


def repeating(command: tuple[str, ...], seed: int, *, is_locked: bool) -> tuple[str, ...]:
    """The command that sends the same bytes again: as typed, with the seed if that was drawn."""
    has_seed = is_locked or any(word.partition("=")[0] == "--seed" for word in command)
    return ("batchmark", *command, *(() if has_seed else ("--seed", str(seed))))


async def measure(bench: Bench, turn: Turn) -> Stopped | None:
    """Start the engine afresh, measure it into its folder, and stop it; None when all went well."""
    plan, folder = bench.plan, turn.folder
    workload = bench.work.workload(plan, turn.repeat)
    warmup = bench.work.warmup(plan, turn.repeat)
    workers = plan.workers or workers_for(workload, bench.machine.cores)
    kept = find_ceiling(default_cache_folder(), Place(bench.machine, bench.version, workers))
    create_folder(folder)
    engine = open_engine(turn.spec, folder, bench.clock)
    with console.RunProgress(folder.name, workload.output_tokens) as progress:
        context = RunContext(
            tool_version=bench.version,
            command=bench.command,
            machine=with_burn_in(bench.machine, bench.clock),
            clock=bench.clock,
            on_stage=progress.stage,
            on_progress=_show(progress),
            deadline_s=plan.deadline_s,
            client=ClientOptions(workers=workers, saves_text=plan.saves_text),
            slos=plan.slos,
            recipe=bench.work.recipe,
            ceiling=None if kept is None else kept.ceiling,
            ceilings=read_ceilings(default_cache_folder()).of(
                site_of(bench.machine, turn.spec.threads)
            ),
        )
        try:
            manifest = await run_engine(engine, workload, warmup, folder, context)
        except BatchmarkError as error:
            return Stopped(f"{folder.name}: {error}", error.exit_code)
    if manifest.status is not RunStatus.COMPLETE:
        return Stopped(f"{folder.name}: {manifest.failure}")
    return None


def _show(progress: console.RunProgress) -> Callable[[Progress], None]:
    return lambda now: progress.update(now.counts, now.events, now.elapsed_s)
