"""The ladder of `batchmark ablate`: from static batching upwards, one factor more on each rung."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

from harness.core.engine import EngineSpec
from harness.core.errors import UsageError
from harness.core.flag import Flag, Part
from harness.core.plan import RunFlags

_RESERVED = ("--kv", "reserved")
_PAGED = ("--kv", "paged", "--capacity", "max_utilization")


@dataclass(frozen=True, slots=True)
class Level:
    """One rung: all that the rungs below it have, and one factor more.

    `key` is its name on the command line, `name` what its runs are called. `adds` is the factor,
    and `means` says in a sentence what that does. The others are what the engine is told.
    """

    key: str
    name: str
    adds: str
    means: str
    policy: str = "continuous"
    args: tuple[str, ...] = _PAGED
    is_chunked: bool = False
    is_caching: bool = False


LADDER: tuple[Level, ...] = (
    Level(
        "static",
        "inhouse-static",
        "static batching",
        "A batch starts when it is full. Each of its slots is held, and computed, until the "
        "longest answer has ended; only then does the next batch start. Prompts are padded to the "
        "longest of their batch, and memory for a whole answer is reserved in one piece.",
        policy="static",
        args=_RESERVED,
    ),
    Level(
        "dynamic",
        "inhouse-dynamic",
        "dynamic batching",
        "A batch that is not full starts once its first request has waited for a short window.",
        policy="dynamic",
        args=_RESERVED,
    ),
    Level(
        "continuous",
        "inhouse-continuous",
        "continuous batching",
        "A slot that falls free is filled at the next step, and nothing is padded.",
        args=_RESERVED,
    ),
    Level(
        "paged",
        "inhouse-continuous-paged",
        "paged KV cache",
        "Memory is taken block by block as an answer grows, wherever a block is free. When none "
        "is left, the youngest request gives its blocks back and is computed again later.",
    ),
    Level(
        "chunked",
        "inhouse-continuous-paged-chunked",
        "chunked prefill",
        "A step has a budget of tokens; a prompt that does not fit into it is read in pieces, "
        "beside the answers that go on.",
        is_chunked=True,
    ),
    Level(
        "prefix",
        "inhouse-continuous-paged-chunked-prefix",
        "prefix cache",
        "Full blocks of a prompt that begins like an earlier one are taken from the cache "
        "instead of being read again.",
        is_chunked=True,
        is_caching=True,
    ),
)


@dataclass(frozen=True, slots=True)
class AblateFlags:
    """The flags of `batchmark ablate`, as typed.

    `levels` None is the whole ladder, with the prefix cache only when the workload shares prefixes,
    or when `prefix_cache` asks for it. `run` is what all levels share.
    """

    levels: Annotated[
        str | None,
        Flag(
            "Two at least, in this order: static,dynamic,continuous,paged,chunked,prefix. All by "
            "default; prefix only where prompts share their beginnings."
        ),
    ] = None
    rounds: Annotated[int, Flag("Runs of each level; 3 give intervals.")] = 3
    batched_tokens: Annotated[int, Flag("Most tokens of one step, from the level chunked on.")] = (
        512
    )
    prefix_cache: Annotated[
        bool, Flag("Measure the level prefix in any case.", "--prefix-cache")
    ] = False
    run: Annotated[
        RunFlags,
        Part(
            only=(
                "workload",
                "engines.model",
                "engines.slots",
                "engines.dtype",
                "engines.threads",
                "engines.kv_tokens",
                "load",
                "seed",
                "out",
                "deadline_s",
            )
        ),
    ] = field(default_factory=RunFlags)

    @property
    def run_of_a_level(self) -> RunFlags:
        """The flags of `run` that all levels share, with a run for each of the rounds."""
        engines = replace(self.run.engines, batched_tokens=self.batched_tokens)
        return replace(self.run, engines=engines, repeats=self.rounds)


def choose_levels(flags: AblateFlags, *, shares_prefixes: bool) -> tuple[Level, ...]:
    """The levels to measure, in the ladder's order.

    Raises UsageError unless --levels names two of the ladder at least, each once, in its order.
    """
    keys = [level.key for level in LADDER]
    if flags.levels is None:
        is_caching = flags.prefix_cache or shares_prefixes
        return tuple(level for level in LADDER if is_caching or not level.is_caching)
    chosen = [word.strip() for word in flags.levels.split(",")]
    if unknown := [word for word in chosen if word not in keys]:
        msg = f"--levels has {unknown[0]!r}, which is no level; choose from {', '.join(keys)}"
        raise UsageError(msg)
    if flags.prefix_cache and "prefix" not in chosen:
        chosen.append("prefix")
    if chosen != [key for key in keys if key in chosen] or len(chosen) < 2:
        msg = f"--levels is {flags.levels!r}; name two at least, each once, in this order:"
        raise UsageError(f"{msg} {','.join(keys)}")
    return tuple(level for level in LADDER if level.key in chosen)


def factors_between(before: Level, level: Level) -> tuple[Level, ...]:
    """The rungs above `before`, up to `level`: one, unless rungs were left out."""
    return LADDER[LADDER.index(before) + 1 : LADDER.index(level) + 1]


def level_spec(base: EngineSpec, level: Level) -> EngineSpec:
    """The engine `base` as it runs on `level`; what the level does not say is as in `base`.

    Raises UsageError when the budget of a step has no room for every slot.
    """
    budget = base.batched_tokens
    if level.is_chunked and budget is not None and budget < base.slots:
        msg = f"--batched-tokens is {budget}, but each of --slots {base.slots} needs one in a step;"
        raise UsageError(f"{msg} give {base.slots} at least, or leave out {level.key} of --levels")
    return replace(
        base,
        name=level.name,
        policy=level.policy,
        args=level.args,
        batched_tokens=base.batched_tokens if level.is_chunked else None,
        chunked_prefill=level.is_chunked,
        prefix_cache=level.is_caching,
    )
