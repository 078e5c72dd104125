"""From the knobs that all engines share to what one engine is told, as one table per engine.

A table maps a field of EngineSpec to a function of its value, or to the reason why it has no effect
on this engine. Nothing is dropped in silence: each knob that was turned ends in `applied` or in
`unsupported` of the launch plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.core.engine import EngineSpec

# In the order in which a server is told of them.
KNOBS = (
    "policy",
    "slots",
    "dtype",
    "threads",
    "pad_prompts",
    "batch_window_ms",
    "context_tokens",
    "batched_tokens",
    "kv_tokens",
    "chunked_prefill",
    "prefix_cache",
    "speculative",
    "served_name",
)
_DEFAULTS = {f.name: f.default for f in dataclasses.fields(EngineSpec)}


@dataclass(frozen=True, slots=True)
class Told:
    """What a server is told of one knob: words, variables, and keys of its configuration file.

    `note` says what that does where the words do not. Keys have dots: `kv_cache_config.max_tokens`.
    """

    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    def __str__(self) -> str:
        """In the engine's own words, such as `--max-num-seqs 8`."""
        pairs = (f"{key}={value}" for key, value in {**self.env, **self.config}.items())
        said = " ".join((*self.argv, *pairs))
        return f"{said} ({self.note})" if said and self.note else said or self.note


Knob = Callable[[Any, EngineSpec], Told | str]


@dataclass(frozen=True, slots=True)
class Setting:
    """All that a server is told, and what it was told of each knob."""

    told: Told
    applied: Mapping[str, str]
    unsupported: Mapping[str, str]


def flag(word: str) -> Knob:
    """A knob that is a word and its value."""
    return lambda value, _: Told((word, str(value)))


def switch(on: str, off: str) -> Knob:
    """A knob that is one of two words, or lines of words."""
    return lambda value, _: Told(tuple((on if value else off).split()))


def variable(name: str) -> Knob:
    """A knob that is an environment variable, 0 or 1 for a yes or no."""
    return lambda value, _: Told(env={name: str(int(value))})


def config(key: str) -> Knob:
    """A knob that is a key of the configuration file."""
    return lambda value, _: Told(config={key: value})


def always_on(why: str) -> Knob:
    """A knob that this engine has in any case: no words when it is wanted, `why` when not."""
    return lambda value, _: Told(note=why) if value else why


def only(values: tuple[str, ...], knob: Knob) -> Knob:
    """`knob` for one of `values`; any other is not known to this engine."""

    def told(value: str, spec: EngineSpec) -> Told | str:
        if value in values:
            return knob(value, spec)
        return f"it knows {', '.join(values)}, not {value}"

    return told


def tell(kind: str, knobs: Mapping[str, Knob | str], spec: EngineSpec) -> Setting:
    """What an engine of `kind` with the table `knobs` is told of `spec`.

    A knob that the table does not have counts only when it was turned.
    """
    applied, unsupported = {}, {}
    argv: tuple[str, ...] = ()
    env: dict[str, str] = {}
    keys: dict[str, Any] = {}
    for name in KNOBS:
        value = getattr(spec, name)
        knob = knobs.get(name)
        if value == _DEFAULTS[name] and (value is None or knob is None):
            continue
        told = _told(kind, knob, value, spec)
        if isinstance(told, str):
            unsupported[name] = told
            continue
        applied[name] = str(told)
        argv += told.argv
        env |= told.env
        keys |= told.config
    return Setting(Told(argv, env, keys), applied, unsupported)


def attached() -> dict[str, str]:
    """The reason for each knob that a server somebody else has started cannot be told any more."""
    why = "the server was started by somebody else, with settings of its own"
    return {name: why for name in KNOBS if name != "served_name"}


def _told(kind: str, knob: Knob | str | None, value: object, spec: EngineSpec) -> Told | str:
    if knob is None:
        return f"{kind} has no such setting"
    return knob if isinstance(knob, str) else knob(value, spec)
