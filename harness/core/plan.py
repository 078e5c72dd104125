"""What the user asked for: the flags of each command, frozen, and the plan that they make."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness.core.engine import EngineSpec
from harness.core.errors import UsageError
from harness.core.rundir import safe_name
from harness.core.workload import Load, LoadKind


@dataclass(frozen=True, slots=True)
class RunFlags:
    """The flags of `batchmark run`, as typed; `policies` is a list with commas."""

    workload: str
    engine: str
    policies: str
    model: str
    slots: int
    dtype: str
    threads: int | None
    pad_prompts: bool
    batch_window_ms: float | None
    repeat_mix: int
    backlog: bool
    concurrency: int | None
    rate_rps: float | None
    seed: int | None
    repeats: int
    warmup_requests: int | None
    baseline: str | None
    out: Path | None
    deadline_s: float | None
    port: int | None


@dataclass(frozen=True, slots=True)
class ServeFlags:
    """The flags of `batchmark serve`, as typed."""

    model: str
    policy: str
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


@dataclass(frozen=True, slots=True)
class SimulateFlags:
    """The flags of `batchmark simulate`, as typed."""

    workload: str
    policy: str
    slots: int
    step_ms: float
    prefill_ms_per_token: float
    pad_prompts: bool
    batch_window_ms: float | None
    repeat_mix: int | None
    backlog: bool
    window_ms: float | None
    rate_rps: float | None
    seed: int


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One invocation of `batchmark run`: each engine, on one workload, `repeats` times.

    `baseline` is the name of one of `engines`, or of a saved baseline, or None.
    """

    workload: str
    repeat_mix: int
    load: Load
    seed: int
    engines: tuple[EngineSpec, ...]
    repeats: int
    warmup_requests: int
    baseline: str | None
    folder: Path
    deadline_s: float | None

    @property
    def is_baseline_measured(self) -> bool:
        """True when the baseline is one of the engines of this run."""
        return self.baseline in {spec.name for spec in self.engines}


def plan_run(flags: RunFlags, now: datetime) -> RunPlan:
    """The plan that `flags` describe. A seed that was not given is drawn.

    Raises UsageError naming the flag whose value is out of range.
    """
    for flag, value in (
        ("--slots", flags.slots),
        ("--repeat-mix", flags.repeat_mix),
        ("--repeats", flags.repeats),
    ):
        require_positive(flag, value)
    if flags.threads is not None:
        require_positive("--threads", flags.threads)
    if flags.deadline_s is not None:
        require_positive("--deadline-s", flags.deadline_s)
    warmup_requests = flags.slots if flags.warmup_requests is None else flags.warmup_requests
    if warmup_requests < 0:
        msg = f"--warmup is {warmup_requests}; it must be 0 or more"
        raise UsageError(msg)
    load = parse_load(flags.concurrency, flags.rate_rps, backlog=flags.backlog)
    stamp = now.strftime("%Y%m%d-%H%M%S")
    folder = flags.out or Path("runs") / f"{stamp}-{safe_name(Path(flags.workload).stem)}"
    return RunPlan(
        workload=flags.workload,
        repeat_mix=flags.repeat_mix,
        load=load,
        seed=secrets.randbelow(2**32) if flags.seed is None else flags.seed,
        engines=tuple(_engine_spec(flags, policy) for policy in _split(flags.policies)),
        repeats=flags.repeats,
        warmup_requests=warmup_requests,
        baseline=flags.baseline,
        folder=folder,
        deadline_s=flags.deadline_s,
    )


def parse_load(concurrency: int | None, rate_rps: float | None, *, backlog: bool) -> Load:
    """The load that the flags describe; a backlog when none is given.

    Raises UsageError when two are given, or when one is not positive.
    """
    if sum((concurrency is not None, rate_rps is not None, backlog)) > 1:
        msg = "give only one of --backlog, --concurrency and --rate"
        raise UsageError(msg)
    if concurrency is not None:
        require_positive("--concurrency", concurrency)
        return Load(LoadKind.CLOSED, concurrency=concurrency)
    if rate_rps is not None:
        require_positive("--rate", rate_rps)
        return Load(LoadKind.POISSON, rate_rps=rate_rps)
    return Load(LoadKind.BACKLOG)


def require_positive(flag: str, value: float) -> None:
    """Raise UsageError naming `flag` unless `value` is a finite number above 0."""
    if not 0 < value < float("inf"):
        msg = f"{flag} is {value:g}; it must be a number above 0"
        raise UsageError(msg)


def _split(policies: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in policies.split(","))
    if len(set(names)) < len(names) or "" in names:
        msg = f"--policy is {policies!r}; name each policy once, separated by commas"
        raise UsageError(msg)
    return names


def _engine_spec(flags: RunFlags, policy: str) -> EngineSpec:
    return EngineSpec(
        kind=flags.engine,
        name=f"{flags.engine}-{policy}",
        model=flags.model,
        policy=policy,
        slots=flags.slots,
        dtype=flags.dtype,
        threads=flags.threads,
        pad_prompts=flags.pad_prompts,
        batch_window_ms=flags.batch_window_ms,
        port=flags.port,
    )
