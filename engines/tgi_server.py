"""Text Generation Inference: `text-generation-launcher`, written for 3.3.7, its last release.

It takes prompts as text and cannot be told to ignore EOS, so answers may be shorter than asked. It
reserves the KV of a whole answer at admission. Its admission limit is raised out of the way: beyond
it requests fail at once. The launcher takes each flag from a variable of the same name too.
"""

from __future__ import annotations

from engines.adapter import Adapter, Container, Place, Speech
from engines.asking import Asker
from engines.dialects.tgi_generate import TgiDialect
from engines.knobs import Told, flag, only, variable
from harness.core.engine import Capabilities, EngineFacts, EngineSpec, ExactLength, FirstEvent

_MOST_CONCURRENT = "100000"


def _command(place: Place) -> tuple[str, ...]:
    return (
        *("--model-id", place.model, "--hostname", place.host, "--port", str(place.port)),
        *("--max-concurrent-requests", _MOST_CONCURRENT, "--usage-stats", "off"),
    )


def _context(tokens: int, _: EngineSpec) -> Told:
    """The longest answer to the longest prompt is one token: a limit of its own is not set."""
    return Told(("--max-total-tokens", str(tokens), "--max-input-tokens", str(tokens - 1)))


def _dialect(speech: Speech) -> TgiDialect:
    return TgiDialect(prompt_as_text=speech.text, key=speech.key)


async def _facts(asker: Asker) -> EngineFacts:
    info = await asker.object("/info")
    return EngineFacts(
        version=info.get("version"),
        model=info.get("model_id"),
        context_tokens=info.get("max_total_tokens"),
        settings={
            "model_revision": info.get("model_sha"),
            "image": info.get("docker_label"),
            "commit": info.get("sha"),
        },
    )


TGI = Adapter(
    kind="tgi",
    program="text-generation-launcher",
    capabilities=Capabilities(
        takes_token_ids=False,
        counts="ids",
        exact_length=ExactLength.NONE,
        first_event=FirstEvent.TOKEN,
        has_metrics=True,
        has_prefix_cache=True,
        refuses_unknown_fields=False,
        cannot_equal=(
            "the tokens of prompts: it tokenizes text itself",
            "admission: it reserves the KV of a whole answer",
        ),
    ),
    dialect=_dialect,
    knobs={
        "slots": flag("--max-batch-size"),
        "dtype": only(("float16", "bfloat16"), flag("--dtype")),
        "context_tokens": _context,
        "batched_tokens": flag("--max-batch-prefill-tokens"),
        "kv_tokens": flag("--max-batch-total-tokens"),
        "chunked_prefill": variable("PREFILL_CHUNKING"),
        "prefix_cache": variable("PREFIX_CACHING"),
        "speculative": flag("--speculate"),
        "served_name": "it serves its model under any name",
    },
    facts=_facts,
    command=_command,
    key_variable="API_KEY",
    needs_gpu=True,
    container=Container(
        port=80,
        flags=("--shm-size", "1g"),
        cpu_words=("--cuda-graphs", "0"),
        cache="/data",
    ),
)
