"""The flags that say which engines are measured and how they are set, and the specs they make."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from harness.core.engine import EngineSpec
from harness.core.engines_file import NamedEngine
from harness.core.errors import UsageError
from harness.core.flag import Flag

DEFAULT_MODEL = "smollm2-135m"
# A word or variable with such a name holds a secret.
_SECRET = re.compile(r"(^|[-_])(api[-_]?key|key|token|secret|password)$", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


# Flags that commands besides those that measure have as well.
Model = Annotated[str, Flag("A fetched model's name, a GGUF file, or a model folder.")]
Slots = Annotated[int, Flag("Requests that the engine runs at once.")]
Dtype = Annotated[str, Flag("bfloat16 or float32.")]
Threads = Annotated[int | None, Flag("CPU threads of the engine; all by default.")]
PadPrompts = Annotated[
    bool, Flag("Whether batch policies pad prompts to the longest of their batch.")
]
WindowMs = Annotated[float | None, Flag("How long static and dynamic wait for a full batch.")]
ContextTokens = Annotated[int | None, Flag("Most tokens of a prompt and its answer together.")]
BatchedTokens = Annotated[int | None, Flag("Most tokens of one step.")]
KvTokens = Annotated[int | None, Flag("Tokens that the KV cache holds.")]
ChunkedPrefill = Annotated[bool | None, Flag("Whether long prompts are cut into pieces.")]
PrefixCache = Annotated[bool, Flag("Let the engine reuse prompts it has seen.", "--prefix-cache")]
EnginesFile = Annotated[
    Path | None, Flag("Where engines have names; ./engines.toml by default.", "--engines")
]


@dataclass(frozen=True, slots=True)
class EngineFlags:
    """The flags about engines, as typed; `engines` and `policies` are lists with commas.

    `file` is the engines.toml to read; `policies` None: each engine's own first policy. Where an
    engine cannot be told a knob, its launch plan says so.
    """

    engines: Annotated[
        str,
        Flag(
            "What to measure, separated by commas: kinds (see `batchmark engines`), or names of "
            "engines.toml.",
            "--engine",
        ),
    ] = "inhouse"
    file: EnginesFile = None
    policies: Annotated[
        str | None,
        Flag("Policies, separated by commas; an engine's own by default.", "--policy"),
    ] = None
    model: Model = DEFAULT_MODEL
    slots: Slots = 8
    dtype: Dtype = "bfloat16"
    threads: Threads = None
    pad_prompts: PadPrompts = True
    batch_window_ms: WindowMs = None
    context_tokens: ContextTokens = None
    batched_tokens: BatchedTokens = None
    kv_tokens: KvTokens = None
    chunked_prefill: ChunkedPrefill = None
    prefix_cache: PrefixCache = False
    speculative: Annotated[str | None, Flag("Speculative decoding, in the engine's own words.")] = (
        None
    )
    served_name: Annotated[str | None, Flag("The name that the model is served under.")] = None
    attach_url: Annotated[
        str | None, Flag("Measure the server at this URL; launch nothing.", "--attach")
    ] = None
    metrics_url: Annotated[str | None, Flag("The server's Prometheus page.")] = None
    api_key_env: Annotated[
        str | None, Flag("The NAME of the environment variable that holds the key.")
    ] = None
    image: Annotated[
        str | None,
        Flag("Launch this container image; default and default-cpu are pinned ones."),
    ] = None
    args: Annotated[
        tuple[str, ...],
        Flag("A word for the engine's command line; may be repeated.", "--engine-arg"),
    ] = ()
    port: Annotated[int | None, Flag("The server's port; any free one.")] = None


@dataclass(frozen=True, slots=True)
class KnownEngines:
    """What may be named: the policies of each kind, its own first, and those of engines.toml."""

    policies: Mapping[str, tuple[str, ...]]
    named: Mapping[str, NamedEngine] = field(default_factory=dict)


def plan_engines(flags: EngineFlags, known: KnownEngines) -> tuple[EngineSpec, ...]:
    """The engines that `flags` describe, in their order, one for each policy of an engine.

    Raises UsageError naming the flag, or the file, whose value is wrong.
    """
    names = _split("--engine", "engine", flags.engines)
    policies = None if flags.policies is None else _split("--policy", "policy", flags.policies)
    specs = tuple(spec for name in names for spec in _specs(flags, name, policies, known))
    unused = set(policies or ()) - {spec.policy for spec in specs}
    if unused:
        choices = dict.fromkeys(p for s in specs for p in known.policies.get(s.kind, ()))
        which = f"choose from {', '.join(choices)}" if choices else "leave out --policy"
        msg = f"--policy has {min(unused)!r}, which none of {flags.engines} has; {which}"
        raise UsageError(msg)
    for spec in specs:
        _require_sound(spec)
    if flags.attach_url is not None and len(specs) > 1:
        msg = f"--attach names one server, but there are {len(specs)} engines; put the URLs of"
        raise UsageError(f"{msg} several into engines.toml, as attach_url")
    if flags.port is not None and len(names) > 1:
        msg = f"--port is {flags.port} for {len(names)} engines; leave it out, or put it into"
        raise UsageError(f"{msg} engines.toml")
    return specs


def _specs(
    flags: EngineFlags, name: str, policies: tuple[str, ...] | None, known: KnownEngines
) -> Iterator[EngineSpec]:
    """The engines that one name of the list stands for."""
    named = known.named.get(name)
    kind = name if named is None else named.kind
    spec = EngineSpec(
        kind=kind,
        name=name,
        model=flags.model,
        slots=flags.slots,
        dtype=flags.dtype,
        threads=flags.threads,
        pad_prompts=flags.pad_prompts,
        batch_window_ms=flags.batch_window_ms,
        port=flags.port,
        context_tokens=flags.context_tokens,
        batched_tokens=flags.batched_tokens,
        kv_tokens=flags.kv_tokens,
        chunked_prefill=flags.chunked_prefill,
        prefix_cache=flags.prefix_cache,
        speculative=flags.speculative,
        served_name=flags.served_name,
        attach_url=flags.attach_url,
        metrics_url=flags.metrics_url,
        api_key_env=flags.api_key_env,
        image=flags.image,
        args=flags.args,
    )
    if named is not None:
        spec = named.applied_to(spec)
    has = known.policies.get(kind, ())
    if spec.policy is not None or not has or spec.attach_url is not None:
        yield spec
        return
    for policy in [p for p in policies or () if p in has] or has[:1]:
        yield replace(spec, policy=policy, name=f"{name}-{policy}")


def _require_sound(spec: EngineSpec) -> None:
    """Raise UsageError for a number out of range, a URL that is none, or a secret in the open."""
    for flag, number in (
        ("--slots", spec.slots),
        ("--threads", spec.threads),
        ("--context-tokens", spec.context_tokens),
        ("--batched-tokens", spec.batched_tokens),
        ("--kv-tokens", spec.kv_tokens),
    ):
        if number is not None and number < 1:
            msg = f"{flag} is {number}; it must be a number above 0"
            raise UsageError(msg)
    for flag, url in (("--attach", spec.attach_url), ("--metrics-url", spec.metrics_url)):
        if url is not None:
            _require_url(flag, url)
    if spec.api_key_env is not None and not _VARIABLE.fullmatch(spec.api_key_env):
        msg = "--api-key-env takes the name of an environment variable, not a key: export the key"
        raise UsageError(f"{msg} under a name, and give that name")
    for word in spec.args:
        _require_open(f"--engine-arg {word.partition('=')[0]}", word.partition("=")[0])
    for name in spec.env:
        _require_open(f"the variable {name} of {spec.name} in engines.toml", name)


def _require_url(flag: str, url: str) -> None:
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query:
        msg = f"the URL of {flag} holds a user, a password or a query, which would be written into"
        raise UsageError(f"{msg} the run's folder; give a key with --api-key-env NAME")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        msg = f"{flag} is {url!r}, no http or https URL; write it like http://127.0.0.1:8000"
        raise UsageError(msg)


def _require_open(where: str, name: str) -> None:
    """Raise UsageError when `name` is one that a secret goes by."""
    if _SECRET.search(name.lstrip("-")):
        msg = f"{where} would put a secret into the run's folder, and into sight of every process;"
        raise UsageError(f"{msg} export it, and name the variable with --api-key-env")


def _split(flag: str, word: str, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if len(set(names)) < len(names) or "" in names:
        msg = f"{flag} is {text!r}; name each {word} once, separated by commas"
        raise UsageError(msg)
    return names
