"""Hugging Face `transformers serve --continuous-batching`, written for 5.24.

It takes prompts as text and refuses unknown fields; EOS is ignored by a generation configuration in
each request. The model is loaded before its port opens. How many sequences run at once, and whether
prompts share blocks, cannot be said on its command line.
"""

from __future__ import annotations

import json
from math import ceil

from engines.adapter import Adapter, Place, Speech
from engines.asking import Asker
from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.knobs import Told, always_on, flag
from harness.core.engine import Capabilities, EngineFacts, EngineSpec, ExactLength, FirstEvent

_PAGE_TOKENS = 256
_GENERATION = json.dumps({"eos_token_id": -1, "do_sample": False})


def _command(place: Place) -> tuple[str, ...]:
    return (
        *("serve", place.model, "--host", place.host, "--port", str(place.port)),
        *("--continuous-batching", "--default-seed", "0"),
    )


def _kv_tokens(tokens: int, _: EngineSpec) -> Told:
    return Told(("--cb-num-blocks", str(ceil(tokens / _PAGE_TOKENS))), note="blocks of 256 tokens")


def _threads(threads: int, _: EngineSpec) -> Told:
    return Told(env={"OMP_NUM_THREADS": str(threads)}, note="on CPUs only")


def _prefix_cache(wanted: bool, _: EngineSpec) -> Told | str:  # noqa: FBT001 - a knob's value
    why = "it shares blocks of equal prompts, and has no flag against that"
    return Told(note=why) if wanted else why


def _dialect(speech: Speech) -> OpenAICompletionsDialect:
    return OpenAICompletionsDialect(
        key=speech.key,
        prompt_as_text=speech.text,
        ignores_eos_by=None,
        extra=(("generation_config", _GENERATION),),
    )


async def _facts(asker: Asker) -> EngineFacts:
    models = await asker.models()
    return EngineFacts(model=str(models[0]["id"]) if models else None)


TRANSFORMERS = Adapter(
    kind="transformers",
    program="transformers",
    capabilities=Capabilities(
        takes_token_ids=False,
        counts="final usage",
        exact_length=ExactLength.CONTINUES_PAST_EOS,
        first_event=FirstEvent.TOKEN,
        has_metrics=False,
        has_prefix_cache=True,
        refuses_unknown_fields=True,
        cannot_equal=("the tokens of prompts: it tokenizes text itself",),
    ),
    dialect=_dialect,
    knobs={
        "slots": "its command line has no limit of sequences",
        "dtype": flag("--dtype"),
        "threads": _threads,
        "context_tokens": "its context is that of the model's configuration",
        "batched_tokens": flag("--cb-max-batch-tokens"),
        "kv_tokens": _kv_tokens,
        "chunked_prefill": always_on("prompts are always cut to what fits a step"),
        "prefix_cache": _prefix_cache,
        "speculative": "it has no speculative decoding under continuous batching",
        "served_name": "requests must name the model as it was given",
    },
    facts=_facts,
    command=_command,
    version_words=("version",),
)
