"""The adapter of the in-house engine: `batchmark serve` in a process of its own."""

from __future__ import annotations

import sys

from engines.adapter import Adapter, Place, Speech
from engines.asking import Asker
from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.knobs import Knob, Told, flag, switch
from harness.core.engine import Capabilities, EngineFacts, EngineSpec, ExactLength, FirstEvent
from harness.core.errors import EngineFailed
from harness.core.jsonable import from_json
from harness.core.rundir import STEPS


def _command(place: Place) -> tuple[str, ...]:
    return (
        *("-m", "harness.cli", "serve", "--model", place.model, "--port", str(place.port)),
        *("--until-stdin-closes", "--step-log", f"{place.folder}/{STEPS}"),
    )


def _window(window_ms: float, _: EngineSpec) -> Told:
    return Told(("--batch-window-ms", f"{window_ms:g}"))


def _prefix_cache(is_on: bool, _: EngineSpec) -> Told:  # noqa: FBT001 - a knob's value
    return Told(("--prefix-cache",)) if is_on else Told(note="off unless --prefix-cache is given")


def _dialect(speech: Speech) -> OpenAICompletionsDialect:
    return OpenAICompletionsDialect(asks_token_ids=True, key=speech.key)


async def server_info(asker: Asker) -> EngineFacts:
    """What /server_info of our own front says. Raises EngineFailed when it cannot be read."""
    info = await asker.object("/server_info")
    try:
        return from_json(EngineFacts, info or None)
    except ValueError as error:
        msg = f"cannot read what the engine is from {asker.base_url}/server_info: {error}"
        raise EngineFailed(f"{msg}; read its log") from error


KNOBS: dict[str, Knob | str] = {
    "policy": flag("--policy"),
    "slots": flag("--slots"),
    "dtype": flag("--dtype"),
    "threads": flag("--threads"),
    "pad_prompts": switch("--pad-prompts", "--no-pad-prompts"),
    "batch_window_ms": _window,
    "batched_tokens": flag("--batched-tokens"),
    "kv_tokens": flag("--kv-tokens"),
    "chunked_prefill": switch("--chunked-prefill", "--no-chunked-prefill"),
    "prefix_cache": _prefix_cache,
    "served_name": "it serves a model under its own name",
}

INHOUSE = Adapter(
    kind="inhouse",
    program=sys.executable,
    capabilities=Capabilities(
        takes_token_ids=True,
        counts="ids",
        exact_length=ExactLength.CONTINUES_PAST_EOS,
        first_event=FirstEvent.TOKEN,
        has_metrics=True,
        has_prefix_cache=True,
        refuses_unknown_fields=True,
    ),
    dialect=_dialect,
    knobs=KNOBS,
    facts=server_info,
    command=_command,
    env={
        "PYTHONUNBUFFERED": "1",  # what it last said is in the log when it dies
        # Threads that wait for each other inside a step spin for a short while, then sleep:
        # where all cores are in use, endless spinning takes time from those that work.
        "GOMP_SPINCOUNT": "10000",
    },
    ready_timeout_s=300.0,
    waits_for_batches=("static", "dynamic"),
    reads="any",
)
