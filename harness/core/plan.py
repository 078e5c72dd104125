"""What the user asked for: the flags of each command, frozen, and the plan that they make."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated

from harness.core.engine import EngineSpec
from harness.core.engine_flags import EngineFlags, KnownEngines, plan_engines
from harness.core.errors import UsageError
from harness.core.flag import Flag, Word, require_positive
from harness.core.load_flags import (
    LoadFlags,
    Seed,
    mix_repeats,
    names_load,
    parse_load,
    require_work,
)
from harness.core.rundir import safe_name
from harness.core.slo import Slo, Slos, parse_slos
from harness.core.source import SourceFlags
from harness.core.workload import Load, title_of

NameUnlessLocked = Annotated[
    str | None,
    Word("WORKLOAD", "A workload's name, a TOML file or a trace; not needed with --schedule."),
]


@dataclass(frozen=True, slots=True)
class RunFlags:
    """The flags of `batchmark run`, as typed; other commands that measure have part of them."""

    workload: NameUnlessLocked = None
    engines: EngineFlags = field(default_factory=EngineFlags)
    load: LoadFlags = field(default_factory=LoadFlags)
    seed: Seed = None
    repeats: Annotated[int, Flag("Runs of each engine; 3 give intervals.")] = 1
    warmup_requests: Annotated[
        int | None, Flag("Requests sent before measuring; a batch by default.", "--warmup")
    ] = None
    baseline: Annotated[
        str | None, Flag("An engine of this run, as inhouse-static, or a saved name.")
    ] = None
    out: Annotated[Path | None, Flag("A new folder; runs/<time> by default.")] = None
    deadline_s: Annotated[
        float | None, Flag("End each run, and each warm-up, after this long.")
    ] = None
    workers: Annotated[str, Flag("Sending processes: a number, or auto.")] = "auto"
    saves_text: Annotated[bool, Flag("Keep the answers' text, in texts.jsonl.", "--save-text")] = (
        False
    )
    slos: Slos = ()
    source: SourceFlags = field(default_factory=SourceFlags)


@dataclass(frozen=True, slots=True)
class CalibrateFlags:
    """The flags of `batchmark calibrate`, as typed; `streams` is how many it begins with."""

    workers: Annotated[int, Flag("Sending processes, each with its own server.")] = 1
    streams: Annotated[int, Flag("Streams at once to begin with.")] = 64
    limit_s: Annotated[float, Flag("Begin no level that ends after this.")] = 38.0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One invocation of `batchmark run`: each engine, on one workload, `repeats` times.

    `baseline` is the name of one of `engines`, or of a saved baseline, or None. `schedule` is the
    locked file that is replayed in each of the runs, or None. `workers` None: as many sending
    processes as the load needs. `source` says how a trace is read. Unless `names_load`, a trace
    that has times is replayed at them.
    """

    workload: str
    repeat_mix: int | None
    load: Load
    seed: int
    engines: tuple[EngineSpec, ...]
    repeats: int
    warmup_requests: int
    baseline: str | None
    folder: Path
    deadline_s: float | None
    schedule: Path | None = None
    workers: int | None = None
    saves_text: bool = False
    slos: tuple[Slo, ...] = ()
    source: SourceFlags = field(default_factory=SourceFlags)
    names_load: bool = True

    @property
    def title(self) -> str:
        """The work in words, such as `eight-agents x4 backlog`."""
        return title_of(self.workload, self.repeat_mix, self.load)

    @property
    def is_baseline_measured(self) -> bool:
        """True when the baseline is one of the engines of this run."""
        return self.baseline in {spec.name for spec in self.engines}


def plan_run(flags: RunFlags, now: datetime, known: KnownEngines) -> RunPlan:
    """The plan that `flags` describe, of the engines that are `known`.

    A seed that was not given is drawn. Raises UsageError naming the flag whose value is wrong.
    """
    require_positive("--repeats", flags.repeats)
    if flags.deadline_s is not None:
        require_positive("--deadline-s", flags.deadline_s)
    engines = plan_engines(flags.engines, known)
    warmup_requests = flags.warmup_requests
    if warmup_requests is None:
        warmup_requests = max(spec.slots for spec in engines)
    if warmup_requests < 0:
        msg = f"--warmup is {warmup_requests}; it must be 0 or more"
        raise UsageError(msg)
    load = parse_load(flags.load)
    require_work(flags.workload, flags.load, flags.seed)
    workload = flags.workload or str(flags.load.schedule)
    stamp = now.strftime("%Y%m%d-%H%M%S")
    folder = flags.out or Path("runs") / f"{stamp}-{safe_name(Path(workload).stem)}"
    return RunPlan(
        workload=workload,
        repeat_mix=mix_repeats(flags.load),
        load=load,
        seed=secrets.randbelow(2**32) if flags.seed is None else flags.seed,
        engines=engines,
        repeats=flags.repeats,
        warmup_requests=warmup_requests,
        baseline=flags.baseline,
        folder=folder,
        deadline_s=flags.deadline_s,
        schedule=flags.load.schedule,
        workers=_workers(flags.workers),
        saves_text=flags.saves_text,
        slos=parse_slos(flags.slos),
        source=flags.source,
        names_load=names_load(flags.load),
    )


def _workers(word: str) -> int | None:
    if word == "auto":
        return None
    if not word.isdecimal() or int(word) < 1:
        msg = f"--workers is {word!r}; it must be a number above 0, or auto"
        raise UsageError(msg)
    return int(word)
