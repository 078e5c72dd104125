"""llama.cpp: `llama-server` on a GGUF file, written for b11434, measured on its native route.

Its context is that of all slots together, and each slot has its own part of it: KV is reserved, and
nothing is ever evicted. It bans EOS where others go on after it, so that its answers are others.
`--fit` would change what is not set to what fits the memory.
"""

from __future__ import annotations

from engines.adapter import Adapter, Container, Place, Speech
from engines.asking import Asker
from engines.dialects.llama_completion import LlamaCppDialect
from engines.knobs import Told, always_on, flag, switch
from harness.core.engine import Capabilities, EngineFacts, EngineSpec, ExactLength, FirstEvent

_DTYPES = {"BF16": "bfloat16", "F16": "float16", "all F32": "float32", "F32": "float32"}


def _command(place: Place) -> tuple[str, ...]:
    return (
        *("--model", place.model, "--host", place.host, "--port", str(place.port)),
        *("--no-kv-unified", "--fit", "off", "--metrics", "--no-ui", "--seed", "0", "--offline"),
    )


def _context(tokens: int, spec: EngineSpec) -> Told:
    total = str(tokens * spec.slots)
    return Told(("--ctx-size", total), note=f"{tokens} for each of {spec.slots} slots")


def _kv_tokens(tokens: int, spec: EngineSpec) -> Told | str:
    if spec.context_tokens is not None:
        return "its KV cache is the context of all slots, which --context-tokens says"
    return Told(("--ctx-size", str(tokens)))


def _batched_tokens(tokens: int, _: EngineSpec) -> Told:
    return Told(("--batch-size", str(tokens), "--ubatch-size", str(tokens)))


def _threads(threads: int, _: EngineSpec) -> Told:
    return Told(("--threads", str(threads), "--threads-batch", str(threads)))


def _dialect(speech: Speech) -> LlamaCppDialect:
    return LlamaCppDialect(caches_prompt=speech.spec.prefix_cache, key=speech.key)


async def _facts(asker: Asker) -> EngineFacts:
    props = await asker.object("/props")
    slots, stored = props.get("total_slots"), props.get("model_ftype")
    defaults = props.get("default_generation_settings")
    context = defaults.get("n_ctx") if isinstance(defaults, dict) else None
    build = props.get("build_info")
    return EngineFacts(
        version=None if build is None else str(build).partition("-")[0],
        model=props.get("model_path"),
        dtype=None if stored is None else _DTYPES.get(stored, str(stored).lower()),
        weights=None if stored is None else f"{str(stored).removeprefix('all ')} GGUF",
        context_tokens=context,
        settings={
            "slots": slots,
            "kv_tokens": slots * context if slots and context else None,
            "build": build,
        },
    )


LLAMA_CPP = Adapter(
    kind="llama-cpp",
    program="llama-server",
    capabilities=Capabilities(
        takes_token_ids=True,
        counts="running usage",
        exact_length=ExactLength.BANS_EOS,
        first_event=FirstEvent.TOKEN,
        has_metrics=True,
        has_prefix_cache=True,
        refuses_unknown_fields=False,
        cannot_equal=("KV: each slot holds its whole context, nothing is evicted",),
    ),
    dialect=_dialect,
    knobs={
        "slots": flag("--parallel"),
        "dtype": "its weights are of the type that the GGUF file has",
        "threads": _threads,
        "context_tokens": _context,
        "batched_tokens": _batched_tokens,
        "kv_tokens": _kv_tokens,
        "chunked_prefill": always_on("prompts are always cut into pieces of --ubatch-size"),
        "prefix_cache": switch("--cache-prompt", "--no-cache-prompt --cache-ram 0"),
        "speculative": flag("--model-draft"),
        "served_name": flag("--alias"),
    },
    facts=_facts,
    command=_command,
    key_variable="LLAMA_API_KEY",
    reads="gguf",
    container=Container(port=8080, is_cpu_by_default=True),
)
