"""What the user asked for: the flags of each command, frozen, and the plan that they make."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness.core.engine import EngineSpec
from harness.core.engine_flags import EngineFlags, KnownEngines, plan_engines
from harness.core.errors import UsageError
from harness.core.rundir import safe_name
from harness.core.slo import Slo, parse_slos
from harness.core.stages import parse_stages
from harness.core.workload import Load, LoadKind, title_of

# Coefficients of variation that a gamma process is drawn at; 0 would be a constant gap.
CV_LEAST = 0.01
CV_MOST = 100.0
_RATE_KINDS = (LoadKind.POISSON, LoadKind.CONSTANT, LoadKind.GAMMA)


@dataclass(frozen=True, slots=True)
class LoadFlags:
    """The flags that say when requests are sent, and how many; None where one was not given.

    `burstiness` is the shape of the gamma distribution: cv = 1 / sqrt(burstiness).
    """

    backlog: bool = False
    concurrency: int | None = None
    rate_rps: float | None = None
    arrivals: str | None = None
    cv: float | None = None
    burstiness: float | None = None
    stages: str | None = None
    schedule: Path | None = None
    speed: float | None = None
    repeat_mix: int | None = None


@dataclass(frozen=True, slots=True)
class RunFlags:
    """The flags of `batchmark run`, as typed."""

    workload: str | None
    engines: EngineFlags
    load: LoadFlags
    seed: int | None
    repeats: int
    warmup_requests: int | None
    baseline: str | None
    out: Path | None
    deadline_s: float | None
    workers: str = "auto"
    saves_text: bool = False
    slos: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServeFlags:
    """The flags of `batchmark serve`, as typed; `policy` None is the engine's own."""

    model: str
    policy: str | None
    slots: int
    dtype: str
    threads: int | None
    pad_prompts: bool
    batch_window_ms: float | None
    kv_tokens: int | None
    device: str | None
    host: str
    port: int
    step_log: Path | None
    until_stdin_closes: bool
    engine: str = "inhouse"
    context_tokens: int | None = None
    batched_tokens: int | None = None
    chunked_prefill: bool | None = None
    prefix_cache: bool = False
    kv: str = "paged"
    capacity: str = "guaranteed_no_evict"
    step_order: str = "decode_first"
    block_tokens: int = 16
    kv_bytes: int | None = None
    weights: str = "bfloat16"
    queue_limit: int | None = None
    queue_tokens: int | None = None
    drain_s: float = 30.0


@dataclass(frozen=True, slots=True)
class CalibrateFlags:
    """The flags of `batchmark calibrate`, as typed; `streams` is how many it begins with."""

    workers: int
    streams: int
    limit_s: float


@dataclass(frozen=True, slots=True)
class SimulateFlags:
    """The flags of `batchmark simulate`, as typed.

    What a step costs is given by `step_ms` and `prefill_ms_per_token`, fitted to the run folders
    `calibrate`, or read from the file `cost`.
    """

    workload: str
    policy: str
    slots: int
    step_ms: float | None
    prefill_ms_per_token: float | None
    pad_prompts: bool
    batch_window_ms: float | None
    repeat_mix: int | None
    backlog: bool
    window_ms: float | None
    rate_rps: float | None
    concurrency: int | None
    seed: int
    kv: str
    capacity: str
    step_order: str
    batched_tokens: int | None
    chunked_prefill: bool
    kv_tokens: int | None
    calibrate: tuple[Path, ...]
    cost: Path | None
    save_cost: Path | None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One invocation of `batchmark run`: each engine, on one workload, `repeats` times.

    `baseline` is the name of one of `engines`, or of a saved baseline, or None. `schedule` is the
    locked file that is replayed in each of the runs, or None. `workers` None: as many sending
    processes as the load needs.
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
    )


def _workers(word: str) -> int | None:
    if word == "auto":
        return None
    if not word.isdecimal() or int(word) < 1:
        msg = f"--workers is {word!r}; it must be a number above 0, or auto"
        raise UsageError(msg)
    return int(word)


def parse_load(flags: LoadFlags) -> Load:
    """The load that the flags describe; a backlog when none is given.

    Raises UsageError naming the flags that do not go together, or the one whose value is bad.
    """
    _require_one_load(flags)
    if flags.repeat_mix is not None:
        require_positive("--repeat-mix", flags.repeat_mix)
    if flags.concurrency is not None:
        require_positive("--concurrency", flags.concurrency)
        return Load(LoadKind.CLOSED, concurrency=flags.concurrency)
    if flags.rate_rps is not None:
        return _load_at_rate(flags, flags.rate_rps)
    if flags.stages is not None:
        return Load(LoadKind.STAGES, stages=parse_stages(flags.stages))
    if flags.schedule is not None:
        speed = 1.0 if flags.speed is None else flags.speed
        require_positive("--speed", speed)
        return Load(LoadKind.REPLAY, speed=speed)
    return Load(LoadKind.BACKLOG)


def mix_repeats(flags: LoadFlags) -> int | None:
    """How often the mix is sent; None when the stages, or a locked schedule, decide it."""
    if flags.stages is not None or flags.schedule is not None:
        return None
    return flags.repeat_mix or 1


def require_work(workload: str | None, flags: LoadFlags, seed: int | None) -> None:
    """Raise UsageError unless a workload is named, or locked in a file with a seed of its own."""
    if workload is None and flags.schedule is None:
        msg = "no workload is named; give one (see `batchmark workload list`), or --schedule FILE"
        raise UsageError(msg)
    if seed is not None and flags.schedule is not None:
        msg = f"--seed is {seed}, but a locked schedule has its own; leave out --seed"
        raise UsageError(msg)


def _require_one_load(flags: LoadFlags) -> None:
    """Raise UsageError when two loads are named, or a flag without the one that it belongs to."""
    loads = (flags.concurrency, flags.rate_rps, flags.stages, flags.schedule)
    if flags.backlog + sum(load is not None for load in loads) > 1:
        msg = "give only one of --backlog, --concurrency, --rate, --stages and --schedule"
        raise UsageError(msg)
    for flag, value, owner, owned in (
        ("--arrivals", flags.arrivals, "--rate", flags.rate_rps),
        ("--cv", flags.cv, "--rate", flags.rate_rps),
        ("--burstiness", flags.burstiness, "--rate", flags.rate_rps),
        ("--speed", flags.speed, "--schedule", flags.schedule),
    ):
        if value is not None and owned is None:
            msg = f"{flag} is {value}, but says nothing without {owner}; add {owner}"
            raise UsageError(msg)
    for flag, text in (("--stages", flags.stages), ("--schedule", flags.schedule)):
        if text is not None and flags.repeat_mix is not None:
            msg = f"{flag} decides how many requests are sent; leave out --repeat-mix"
            raise UsageError(msg)


def _load_at_rate(flags: LoadFlags, rate_rps: float) -> Load:
    require_positive("--rate", rate_rps)
    cv = _coefficient_of_variation(flags)
    arrivals = flags.arrivals or ("poisson" if cv is None else "gamma")
    if arrivals not in _RATE_KINDS:
        msg = f"--arrivals is {arrivals!r}; choose from {', '.join(_RATE_KINDS)}"
        raise UsageError(msg)
    kind = LoadKind(arrivals)
    if (cv is None) is (kind is LoadKind.GAMMA):
        wanted = "needs" if cv is None else "takes neither"
        msg = f"--arrivals {arrivals} {wanted} --cv or --burstiness; only gamma arrivals have one"
        raise UsageError(msg)
    return Load(kind, rate_rps=rate_rps, cv=cv)


def _coefficient_of_variation(flags: LoadFlags) -> float | None:
    """That of the gaps, from --cv or --burstiness; None when neither is given."""
    if flags.cv is not None and flags.burstiness is not None:
        msg = "give only one of --cv and --burstiness: burstiness is 1 / cv^2"
        raise UsageError(msg)
    if flags.burstiness is not None:
        flag, value, least, most = "--burstiness", flags.burstiness, CV_MOST**-2, CV_LEAST**-2
    elif flags.cv is not None:
        flag, value, least, most = "--cv", flags.cv, CV_LEAST, CV_MOST
    else:
        return None
    if not least <= value <= most:
        msg = (
            f"{flag} is {value:g}; it must be from {least:g} to {most:g} "
            "(gaps that are all equal are --arrivals constant)"
        )
        raise UsageError(msg)
    return flags.cv if flags.cv is not None else 1 / math.sqrt(value)


def require_positive(flag: str, value: float) -> None:
    """Raise UsageError naming `flag` unless `value` is a finite number above 0."""
    if not 0 < value < float("inf"):
        msg = f"{flag} is {value:g}; it must be a number above 0"
        raise UsageError(msg)
