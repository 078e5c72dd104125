"""The flags that say when requests are sent, and how many; and the load that they make."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from harness.core.errors import UsageError
from harness.core.flag import Flag, require_positive
from harness.core.phases import parse_phases
from harness.core.stages import parse_stages
from harness.core.workload import Load, LoadKind

# Coefficients of variation that a gamma process is drawn at; 0 would be a constant gap.
CV_LEAST = 0.01
CV_MOST = 100.0
_RATE_KINDS = (LoadKind.POISSON, LoadKind.CONSTANT, LoadKind.GAMMA)

Seed = Annotated[int | None, Flag("Prompts and due times; a fresh one by default, always printed.")]
Concurrency = Annotated[int | None, Flag("Closed loop: requests in flight at most.")]


@dataclass(frozen=True, slots=True)
class LoadFlags:
    """How often the mix is sent, and when: one of `backlog`, `concurrency`, `rate_rps`, and so on.

    None where a flag was not given. `burstiness` is the shape of the gamma distribution:
    cv = 1 / sqrt(burstiness).
    """

    repeat_mix: Annotated[
        int | None, Flag("How often the mix is sent; 1 by default, not with --stages.")
    ] = None
    backlog: Annotated[
        bool, Flag("All requests are due at once; this is the default.", "--backlog")
    ] = False
    concurrency: Concurrency = None
    rate_rps: Annotated[
        float | None, Flag("Arrivals over time: requests a second, on average.", "--rate")
    ] = None
    arrivals: Annotated[
        str | None,
        Flag("Gaps at --rate: poisson (default), constant, or gamma with --cv or --burstiness."),
    ] = None
    cv: Annotated[
        float | None,
        Flag("Gamma gaps: standard deviation / mean. Higher is burstier; 1 is Poisson."),
    ] = None
    burstiness: Annotated[
        float | None,
        Flag(
            "Gamma gaps by their shape, as vLLM and AIPerf name it: cv = 1/sqrt(burstiness). "
            "Lower is burstier; 1 is Poisson."
        ),
    ] = None
    mmpp: Annotated[
        str | None,
        Flag(
            "Bursts: Poisson arrivals at a rate that jumps at random, rate:seconds of each phase, "
            "on average, in turn: 30:5,3:15; or on and off, 40:5,0:15."
        ),
    ] = None
    stages: Annotated[
        str | None,
        Flag(
            "Poisson arrivals at rates that change: rate:seconds, from-to:seconds for a ramp, "
            "low~high:seconds for a day, up and back in a sine: 1:30,1-4:60,2~8:3600. The mix is "
            "sent as often as it takes."
        ),
    ] = None
    schedule: Annotated[
        Path | None,
        Flag(
            "Send a workload locked by `batchmark workload lock`: same bytes, same due times, in "
            "every repeat."
        ),
    ] = None
    speed: Annotated[
        float | None, Flag("Replay --schedule this many times as fast: 2 is in half the time.")
    ] = None


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
    if flags.mmpp is not None:
        return Load(LoadKind.MMPP, phases=parse_phases(flags.mmpp))
    if flags.stages is not None:
        return Load(LoadKind.STAGES, stages=parse_stages(flags.stages))
    if flags.schedule is not None:
        speed = 1.0 if flags.speed is None else flags.speed
        require_positive("--speed", speed)
        return Load(LoadKind.REPLAY, speed=speed)
    return Load(LoadKind.BACKLOG)


def names_load(flags: LoadFlags) -> bool:
    """True when a flag says when requests are sent, whatever times a trace has of its own."""
    return replace(flags, repeat_mix=None) != LoadFlags()


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
    loads = (flags.concurrency, flags.rate_rps, flags.mmpp, flags.stages, flags.schedule)
    if flags.backlog + sum(load is not None for load in loads) > 1:
        msg = "give only one of --backlog, --concurrency, --rate, --mmpp, --stages and --schedule"
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
