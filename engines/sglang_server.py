"""SGLang: `sglang serve`, written for 0.5.23, measured on its native route.

Asked to ignore EOS with its prefix cache off, it admits as if it knew how long answers will be. Its
/ready is asked, for its /health makes a token itself. It takes a key on its command line alone,
where every process of the machine can read it, so it is launched without.
"""

from __future__ import annotations

from engines.adapter import Adapter, Container, Place, Speech
from engines.asking import Asker
from engines.dialects.sglang_generate import SglangDialect
from engines.knobs import Told, flag
from harness.core.engine import Capabilities, EngineFacts, EngineSpec, ExactLength, FirstEvent


def _command(place: Place) -> tuple[str, ...]:
    return (
        *("serve", "--model-path", place.model, "--host", place.host, "--port", str(place.port)),
        *("--random-seed", "0", "--sampling-defaults", "openai", "--enable-metrics"),
        *("--log-level-http", "warning"),
    )


def _batched_tokens(tokens: int, spec: EngineSpec) -> Told:
    """A step's prefill tokens; they are a prompt's pieces too, unless prompts are not cut."""
    words = ("--max-prefill-tokens", str(tokens))
    pieces = ("--chunked-prefill-size", str(tokens))
    return Told(words if spec.chunked_prefill is False else (*words, *pieces))


def _chunked_prefill(wanted: bool, _: EngineSpec) -> Told:  # noqa: FBT001 - a knob's value
    return Told(note="on by default") if wanted else Told(("--chunked-prefill-size", "-1"))


def _prefix_cache(wanted: bool, _: EngineSpec) -> Told:  # noqa: FBT001 - a knob's value
    return Told(note="on by default") if wanted else Told(("--disable-radix-cache",))


def _dialect(speech: Speech) -> SglangDialect:
    return SglangDialect(key=speech.key)


async def _facts(asker: Asker) -> EngineFacts:
    info = await asker.object("/server_info")
    models = await asker.models()
    pieces, no_cache = info.get("chunked_prefill_size"), info.get("disable_radix_cache")
    return EngineFacts(
        version=info.get("version"),
        model=info.get("model_path"),
        dtype=None if info.get("dtype") == "auto" else info.get("dtype"),
        context_tokens=models[0].get("max_model_len") if models else None,
        settings={
            "slots": info.get("max_running_requests"),
            "batched_tokens": info.get("max_prefill_tokens"),
            "chunked_prefill": None if pieces is None else pieces > 0,
            "kv_tokens": info.get("max_total_num_tokens") or info.get("max_total_tokens"),
            "block_tokens": info.get("page_size"),
            "prefix_cache": None if no_cache is None else not no_cache,
            "kv_dtype": info.get("kv_cache_dtype"),
            "speculative": info.get("speculative_algorithm"),
            "schedule_policy": info.get("schedule_policy"),
        },
    )


SGLANG = Adapter(
    kind="sglang",
    program="sglang",
    capabilities=Capabilities(
        takes_token_ids=True,
        counts="ids",
        exact_length=ExactLength.CONTINUES_PAST_EOS,
        first_event=FirstEvent.TOKEN,
        has_metrics=True,
        has_prefix_cache=True,
        refuses_unknown_fields=True,
        cannot_equal=("admission: with EOS ignored it plans by the true length of answers",),
    ),
    dialect=_dialect,
    knobs={
        "slots": flag("--max-running-requests"),
        "dtype": flag("--dtype"),
        "context_tokens": flag("--context-length"),
        "batched_tokens": _batched_tokens,
        "kv_tokens": flag("--max-total-tokens"),
        "chunked_prefill": _chunked_prefill,
        "prefix_cache": _prefix_cache,
        "speculative": flag("--speculative-algorithm"),
        "served_name": flag("--served-model-name"),
    },
    facts=_facts,
    command=_command,
    health="/ready",
    needs_gpu=True,
    container=Container(port=30000, words=("sglang",), flags=("--shm-size", "32g", "--ipc=host")),
)
