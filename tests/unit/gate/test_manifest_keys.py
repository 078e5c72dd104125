"""Every key of a manifest: it forbids a comparison, is a factor of it, or is known to do neither."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from harness.core.manifest import RunManifest
from harness.core.workload import Load, LoadKind
from harness.gate.allowance import KEYS
from harness.gate.comparability import differences

# What is written down of a run and decides no comparison, each with its reason.
RECORDED = {
    "run_id", "status", "created_utc", "ended_ns", "ended_utc", "failure", "start_ns",  # which run
    "command", "launch", "labels",  # the label `launch` stands for the engine's whole command line
    "counts", "client", "ceilings", "machine.burn_in_s",  # how it went: checked in each run
    "engine.name", "engine.port", "engine.served_name", "facts.served_name",  # what it is called
    "facts.model",  # told apart by its digest
    "engine.metrics_url", "engine.api_key_env", "engine.program",  # the way in
    "slos",  # a side is judged by those of the other
    "engine.dtype", "engine.context_tokens", "engine.model", "facts.settings",  # asked: facts say
    "workload.title", "workload.repeat_mix", "workload.prompt_tokens", "workload.output_tokens",
    "workload.requests", "workload.distinct_prompts",  # in the shape's digest, and the prompts'
    "workload.source", "recipe",  # where it was read: what was sent has its digests
}  # fmt: skip


@pytest.fixture(scope="module")
def known(build: Any) -> RunManifest:
    """A run of which every setting is known: nothing can be said of one that is not."""
    base: RunManifest = build.manifest()
    asked = {"batched_tokens": 512, "kv_tokens": 1000, "chunked_prefill": False}
    return replace(
        base,
        engine=replace(base.engine, speculative="ngram", **asked),
        facts=replace(base.facts, context_tokens=2048, settings={"kv_dtype": "bf16"}),
        labels={"launch": "a"},
    )


def leaves(manifest: RunManifest) -> dict[str, RunManifest]:
    """The manifest with another value in one field, by the field's name, for each field."""
    found = {}
    for part in dataclasses.fields(manifest):
        value = getattr(manifest, part.name)
        if part.name in ("engine", "workload", "machine", "facts"):
            for inner in dataclasses.fields(value):
                changed = replace(value, **{inner.name: another(getattr(value, inner.name))})
                found[f"{part.name}.{inner.name}"] = replace(manifest, **{part.name: changed})
        else:
            found[part.name] = replace(manifest, **{part.name: another(value)})
    return found


def another(value: Any) -> Any:  # noqa: PLR0911 - one branch per kind of value
    match value:
        case bool():
            return not value
        case str():
            return f"{value}?"
        case int() | float():
            return value * 2 + 1
        case None:
            return 7
        case tuple():
            return (*value, "?")
        case Load():
            return Load(LoadKind.CLOSED, concurrency=3)
        case dict():
            return {**value, "?": "?"}
    return value


def test_every_key_of_the_manifest_is_compared_or_is_known_to_decide_nothing(
    known: RunManifest,
) -> None:
    silent = {
        name
        for name, other in leaves(known).items()
        if not any(dataclasses.astuple(differences(known, other)))
    }
    assert silent == RECORDED


def test_every_key_that_is_refused_or_a_factor_can_be_allowed(known: RunManifest) -> None:
    closed = Load(LoadKind.CLOSED, concurrency=3)
    others = [
        *leaves(known).values(),
        replace(known, labels={"launch": "b"}),
        replace(known, labels={"launch": "a", "definitions": "of another tool"}),
        replace(known, facts=replace(known.facts, settings={"kv_dtype": "fp8"})),
        replace(known, workload=replace(known.workload, load=closed, requests=1)),
    ]
    found = [differences(known, other) for other in others]
    keys = {d.key for one in found for d in (*one.refusals, *one.factors)}

    # A run folder that can be read has our format. No run is a retired baseline, and how long its
    # prompts were is in its numbers.
    assert keys - {"format_version"} == set(KEYS) - {"retired", "prompt_lengths"}
