"""What `batchmark duel` is asked for: its two sides, how many pairs, and whose turn it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

from harness.core.engine_flags import EngineFlags, KnownEngines
from harness.core.errors import UsageError
from harness.core.flag import Allowed, Flag, Part, Word
from harness.core.plan import RunFlags, RunPlan, plan_run

MOST_LOOKS = 2


@dataclass(frozen=True, slots=True)
class DuelFlags:
    """The flags of `batchmark duel`, as typed.

    `baseline` and `candidate` are called as `run` calls its engines. `pairs` None: as many as the
    gate's rules say. `rules` is the file of these; None is the usual one, if it is there. `allowed`
    are what may differ between the sides besides what is under test. `run` is what both share: how
    they are set, and what is sent.
    """

    baseline: Annotated[
        str,
        Word(
            "A",
            "The baseline: a kind, one with its policy as inhouse-static, or a name of "
            "engines.toml.",
        ),
    ]
    candidate: Annotated[str, Word("B", "The candidate, called likewise; A again for A/A.")]
    pairs: Annotated[
        str | None,
        Flag(
            "Runs of each side: 5 is exactly 5; 5,10 is 10 where 5 cannot tell, which is the "
            "default. Below 5 there is no verdict."
        ),
    ] = None
    rules: Annotated[Path | None, Flag("Margins and looks; ./batchmark.toml by default.")] = None
    allowed: Allowed = ()
    run: Annotated[
        RunFlags,
        Part(
            without=(
                "engines.engines",
                "engines.policies",
                "engines.served_name",
                "engines.attach_url",
                "engines.metrics_url",
                "engines.api_key_env",
                "engines.port",
                "repeats",
                "baseline",
                "saves_text",
            )
        ),
    ] = field(default_factory=RunFlags)


def plan_duel(flags: DuelFlags, now: datetime, known: KnownEngines) -> RunPlan:
    """The plan of one pair: its engines are the baseline and the candidate, warmed up alike.

    Raises UsageError naming the side, or the flag, whose value is wrong.
    """
    plans = [
        plan_run(replace(flags.run, engines=_side(flags.run.engines, name, known)), now, known)
        for name in (flags.baseline, flags.candidate)
    ]
    engines = tuple(spec for plan in plans for spec in plan.engines)
    for spec in engines:
        if spec.attach_url is not None:
            msg = f"{spec.name} runs already at {spec.attach_url}, but a duel starts each side"
            raise UsageError(f"{msg} afresh for every run; measure a running server with `run`")
    warmup = max(plan.warmup_requests for plan in plans)
    return replace(plans[0], engines=engines, warmup_requests=warmup, baseline=engines[0].name)


def _side(flags: EngineFlags, name: str, known: KnownEngines) -> EngineFlags:
    """`flags` for the one engine called `name`, which may end in one of its policies."""
    if not name or "," in name:
        msg = f"{name!r} is not one engine; a duel has one on each side"
        raise UsageError(msg)
    if name in known.named:
        return replace(flags, engines=name)
    for engine, policies in _with_policies(known):
        policy = name.removeprefix(f"{engine}-")
        if policy in policies:
            return replace(flags, engines=engine, policies=policy)
        if policy != name and engine in known.policies:
            choices = ", ".join(f"{engine}-{policy}" for policy in policies)
            msg = f"{engine} has no policy {policy!r}; choose from {choices}"
            raise UsageError(msg)
    return replace(flags, engines=name)


def _with_policies(known: KnownEngines) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each engine that has several policies, and these; those of engines.toml first."""
    for name, named in known.named.items():
        if "policy" not in named.fixed:
            yield name, known.policies.get(named.kind, ())
    yield from known.policies.items()


def parse_pairs(text: str) -> tuple[int, ...]:
    """After how many pairs the sides are judged: `3` is after 3, `5,10` after 5, and maybe 10.

    Raises UsageError unless these are one or two numbers above 0, the second one larger.
    """
    words = [word.strip() for word in text.split(",")]
    looks = tuple(int(word) for word in words if word.isdecimal())
    is_rising = looks == tuple(sorted(set(looks))) and 0 not in looks
    if len(looks) < len(words) or not is_rising or len(looks) > MOST_LOOKS:
        msg = f"--pairs is {text!r}; give a number above 0, as 5, or two for a second look, as 5,10"
        raise UsageError(msg)
    return looks


def is_baseline_first(number: int) -> bool:
    """Which side of pair `number`, from 1, is run first: AB, then BA, then AB.

    So a drift of the machine that is steady weighs on both sides alike.
    """
    return number % 2 == 1
