"""The settings that an engine runs with: what it says itself, or else what it was told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from engines.local_model import local_model
from engines.readiness import PROBE_WORDS
from engines.versions import is_tried, versions
from harness.core.engine import Capabilities, EngineFacts, EngineSpec, LaunchPlan

# Knobs whose value is a setting of the facts; dtype and context have fields of their own.
SETTINGS = (
    "policy",
    "slots",
    "threads",
    "batched_tokens",
    "kv_tokens",
    "chunked_prefill",
    "prefix_cache",
    "speculative",
)


def settings_by_nature(capabilities: Capabilities) -> Mapping[str, str | bool]:
    """What is known of the settings of an engine whoever has started it."""
    settings: dict[str, str | bool] = {}
    if not capabilities.has_prefix_cache:
        settings["prefix_cache"] = False
    if not capabilities.takes_token_ids:
        settings["prompts_sent_as"] = "text"
    return settings


def resolved_facts(said: EngineFacts, spec: EngineSpec, plan: LaunchPlan) -> EngineFacts:
    """`said` by the engine of `spec`, completed by what it was told and by the model's files.

    A knob that it could not be told, and says nothing of, is None: not known. Of a server that
    somebody else has started only what it says itself is known.
    """
    told = {name: getattr(spec, name) for name in SETTINGS if name in plan.applied}
    unknown = dict.fromkeys(name for name in SETTINGS if name in plan.unsupported)
    extra: dict[str, str] = {"probe": PROBE_WORDS}
    if is_tried(spec.kind, said.version) is False:
        extra["adapter_written_for"] = versions()[spec.kind].written_for
    found = {name: value for name, value in said.settings.items() if value is not None}
    settings = {**unknown, **told, **found, **extra}
    facts = replace(said, model=_named(said.model), settings=settings)
    if not plan.argv:
        return facts
    model = local_model(spec.model)
    if model is not None:
        facts = replace(
            facts,
            model=model.title,
            model_digest=facts.model_digest or model.digest,
            weights=facts.weights or model.weights,
        )
    is_told = plan.applied.keys() & {"dtype", "context_tokens"}
    return replace(
        facts,
        model=facts.model or _named(spec.model),
        dtype=facts.dtype or (spec.dtype if "dtype" in is_told else None),
        context_tokens=facts.context_tokens
        or (spec.context_tokens if "context_tokens" in is_told else None),
    )


def _named(model: str | None) -> str | None:
    """A model's name: of a folder the last part, for some servers say the path, some only that."""
    return PurePosixPath(model).name if model is not None and model.startswith("/") else model
