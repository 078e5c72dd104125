"""vLLM: `vllm serve`, written for 0.32 (V1 only).

While it loads its port is bound and nobody listens: refused connections, never 503. Its development
mode opens /server_info, which says all that it resolved. It closes idle connections after 5 s
unless told otherwise, and takes sampling defaults from the model unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from engines.adapter import Adapter, Container, Place, Speech
from engines.asking import Asker
from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.knobs import Told, flag, switch
from harness.core.engine import Capabilities, EngineFacts, EngineSpec, ExactLength, FirstEvent

_BLOCK_TOKENS = 32  # its attention takes multiples of 16 on GPUs, of 32 on CPUs


def _command(place: Place) -> tuple[str, ...]:
    return (
        *("serve", place.model, "--host", place.host, "--port", str(place.port)),
        *("--generation-config", "vllm", "--seed", "0"),
        *("--disable-uvicorn-access-log", "--enable-prompt-tokens-details"),
    )


def _kv_tokens(tokens: int, _: EngineSpec) -> Told:
    blocks = str(ceil(tokens / _BLOCK_TOKENS))
    return Told(("--block-size", str(_BLOCK_TOKENS), "--num-gpu-blocks-override", blocks))


def _threads(threads: int, _: EngineSpec) -> Told:
    return Told(env={"VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}"}, note="on CPUs only")


def _dialect(speech: Speech) -> OpenAICompletionsDialect:
    return OpenAICompletionsDialect(asks_token_ids=True, key=speech.key)


async def _facts(asker: Asker) -> EngineFacts:
    config = (await asker.object("/server_info?config_format=json")).get("vllm_config")
    model, scheduler, speculative = (
        _part(config, f"{name}_config") for name in ("model", "scheduler", "speculative")
    )
    cache = [s.labels for s in await asker.metrics() if s.name == "vllm:cache_config_info"]
    info, served = (*cache, {})[0], (*await asker.models(), {})[0]
    blocks, block_tokens = _number(info.get("num_gpu_blocks")), _number(info.get("block_size"))
    caches = info.get("enable_prefix_caching")
    dtype = model.get("dtype") or asker.logged(r"dtype=(?:torch\.)?(\w+)")
    return EngineFacts(
        version=(await asker.object("/version")).get("version"),
        model=served.get("root"),
        dtype=None if dtype is None else str(dtype).removeprefix("torch."),
        context_tokens=served.get("max_model_len"),
        settings={
            "slots": scheduler.get("max_num_seqs"),
            "batched_tokens": scheduler.get("max_num_batched_tokens"),
            "chunked_prefill": scheduler.get("enable_chunked_prefill"),
            "kv_tokens": blocks * block_tokens if blocks and block_tokens else None,
            "block_tokens": block_tokens,
            "prefix_cache": None if caches is None else caches == "True",
            "kv_dtype": info.get("cache_dtype"),
            "speculative": speculative.get("method"),
        },
    )


def _part(config: object, name: str) -> Mapping[str, Any]:
    part = config.get(name) if isinstance(config, dict) else None
    return part if isinstance(part, dict) else {}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


VLLM = Adapter(
    kind="vllm",
    program="vllm",
    capabilities=Capabilities(
        takes_token_ids=True,
        counts="ids",
        exact_length=ExactLength.CONTINUES_PAST_EOS,
        first_event=FirstEvent.TOKEN,
        has_metrics=True,
        has_prefix_cache=True,
        refuses_unknown_fields=False,
    ),
    dialect=_dialect,
    knobs={
        "slots": flag("--max-num-seqs"),
        "dtype": flag("--dtype"),
        "threads": _threads,
        "context_tokens": flag("--max-model-len"),
        "batched_tokens": flag("--max-num-batched-tokens"),
        "kv_tokens": _kv_tokens,
        "chunked_prefill": switch("--enable-chunked-prefill", "--no-enable-chunked-prefill"),
        "prefix_cache": switch("--enable-prefix-caching", "--no-enable-prefix-caching"),
        "speculative": flag("--speculative-config"),
        "served_name": flag("--served-model-name"),
    },
    facts=_facts,
    command=_command,
    env={
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "600",
    },
    key_variable="VLLM_API_KEY",
    container=Container(
        port=8000,
        entrypoint="vllm",
        flags=("--ipc=host",),
        cpu_flags=("--security-opt", "seccomp=unconfined", "--cap-add", "SYS_NICE"),
    ),
)
