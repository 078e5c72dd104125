"""TensorRT-LLM: `trtllm-serve` on its PyTorch back end, written for 1.2.1.

Its policies are capacity policies, and so three baselines: GUARANTEED_NO_EVICT admits what can be
held to its end, MAX_UTILIZATION packs and may pause, STATIC_BATCH admits when nothing runs: static
batching on the same kernels. What a command line and a configuration file both say has changed
hands between releases, so each knob is in one place only. It refuses unknown fields with 400.
"""

from __future__ import annotations

from functools import partial

from engines.adapter import Adapter, Container, Place, Sampler, Speech
from engines.asking import Asker
from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.iteration_stats import IterationTotals, drain_sample
from engines.knobs import config, flag
from harness.core.engine import Capabilities, EngineFacts, ExactLength, FirstEvent

_CONFIG_FILE = "tensorrt-llm.yaml"


def _command(place: Place) -> tuple[str, ...]:
    return (
        *(place.model, "--host", place.host, "--port", str(place.port), "--backend", "pytorch"),
        # Its older name, which every release takes; the newer one is --config.
        *("--extra_llm_api_options", f"{place.folder}/{_CONFIG_FILE}"),
    )


def _dialect(speech: Speech) -> OpenAICompletionsDialect:
    return OpenAICompletionsDialect(asks_running_usage=True, key=speech.key)


async def _facts(asker: Asker) -> EngineFacts:
    info = await asker.object("/server_info")
    models = await asker.models()
    return EngineFacts(
        version=(await asker.object("/version")).get("version"),
        model=str(models[0]["id"]) if models else None,
        settings={
            name: value
            for name, value in info.items()
            if isinstance(value, str | int | float | bool)
        },
    )


def _sampler() -> Sampler:
    """Its /metrics is emptied by each reading, so what was read is kept in totals."""
    return partial(drain_sample, IterationTotals())


TENSORRT_LLM = Adapter(
    kind="tensorrt-llm",
    program="trtllm-serve",
    capabilities=Capabilities(
        takes_token_ids=True,
        counts="running usage",
        exact_length=ExactLength.CONTINUES_PAST_EOS,
        first_event=FirstEvent.TOKEN,
        has_metrics=True,
        has_prefix_cache=True,
        refuses_unknown_fields=True,
        cannot_equal=("admission: GUARANTEED_NO_EVICT reserves the KV of a whole answer",),
    ),
    dialect=_dialect,
    knobs={
        "policy": config("scheduler_config.capacity_scheduler_policy"),
        "slots": flag("--max_batch_size"),
        "dtype": config("dtype"),
        "context_tokens": flag("--max_seq_len"),
        "batched_tokens": flag("--max_num_tokens"),
        "kv_tokens": config("kv_cache_config.max_tokens"),
        "chunked_prefill": config("enable_chunked_prefill"),
        "prefix_cache": config("kv_cache_config.enable_block_reuse"),
        "speculative": config("speculative_config.decoding_type"),
        "served_name": "it serves a model under the last part of its path",
    },
    facts=_facts,
    command=_command,
    config_file=_CONFIG_FILE,
    # Without the first two its counters stay empty.
    config={"enable_iter_perf_stats": True, "return_perf_metrics": True, "stream_interval": 1},
    needs_gpu=True,
    container=Container(
        port=8000,
        words=("trtllm-serve",),
        flags=("--ipc", "host", "--ulimit", "memlock=-1", "--ulimit", "stack=67108864"),
    ),
    sampler=_sampler,
)
