"""What an engine's metrics page says, in the names that all engines share.

One table a family of engines: from our names to theirs, those of older versions last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from statistics import fmean
from typing import Any

from engines.prometheus import Sample, scrape
from harness.core.clock import Clock
from harness.core.engine import EngineSample
from harness.core.errors import EngineFailed

LAST_BUCKET = "+Inf"

ByName = Mapping[str, Sequence[Sample]]


@dataclass(frozen=True, slots=True)
class Names:
    """Where a family of engines says what. Of several names the first that has a value counts.

    `totals` are added up over the label sets of a name, which are engines, models or reasons;
    `kv_share` is averaged. Histograms are named without `_bucket`, `_sum` and `_count`. A sample
    counts only when it has each label of `ranks` with that value, or not at all: what all ranks of
    one engine say of the same requests must count once.
    """

    totals: Mapping[str, tuple[str, ...]]
    kv_share: tuple[str, ...] = ()
    ttft_s: tuple[str, ...] = ()
    e2e_s: tuple[str, ...] = ()
    ranks: Mapping[str, str] = field(default_factory=dict)


TABLES: Mapping[str, Names] = {
    "vllm": Names(
        totals={
            "running": ("vllm:num_requests_running",),
            "waiting": ("vllm:num_requests_waiting",),
            "preemptions_total": ("vllm:num_preemptions_total",),
            "prompt_tokens_total": ("vllm:prompt_tokens_total",),
            "generation_tokens_total": ("vllm:generation_tokens_total",),
            "prefix_query_tokens_total": (
                "vllm:prefix_cache_queries_total",
                "vllm:gpu_prefix_cache_queries_total",
            ),
            "prefix_hit_tokens_total": (
                "vllm:prefix_cache_hits_total",
                "vllm:gpu_prefix_cache_hits_total",
            ),
            "requests_total": ("vllm:request_success_total",),
        },
        kv_share=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        ttft_s=("vllm:time_to_first_token_seconds",),
        e2e_s=("vllm:e2e_request_latency_seconds",),
    ),
    "sglang": Names(
        totals={
            "running": ("sglang:num_running_reqs",),
            "waiting": ("sglang:num_queue_reqs",),
            "preemptions_total": ("sglang:num_retracted_requests_total",),
            "prompt_tokens_total": ("sglang:prompt_tokens_total",),
            "generation_tokens_total": ("sglang:generation_tokens_total",),
            "prefix_query_tokens_total": ("sglang:prompt_tokens_total",),
            "prefix_hit_tokens_total": ("sglang:cached_tokens_total",),
            "requests_total": ("sglang:num_requests_total",),
        },
        kv_share=("sglang:token_usage",),
        ttft_s=("sglang:time_to_first_token_seconds",),
        e2e_s=("sglang:e2e_request_latency_seconds",),
        ranks={"tp_rank": "0", "pp_rank": "0"},
    ),
    # It reserves the KV of a whole answer at admission and says nothing of its use.
    "tgi": Names(
        totals={
            "running": ("tgi_batch_current_size",),
            "waiting": ("tgi_queue_size",),
            "prompt_tokens_total": ("tgi_request_input_length_sum",),
            "generation_tokens_total": ("tgi_request_generated_tokens_sum",),
            "requests_total": ("tgi_request_success",),
        },
        e2e_s=("tgi_request_duration",),
    ),
    # Its prompt tokens are those computed: what a slot had in its cache is not among them.
    "llama-cpp": Names(
        totals={
            "running": ("llamacpp:requests_processing",),
            "waiting": ("llamacpp:requests_deferred",),
            "prompt_tokens_total": ("llamacpp:prompt_tokens_total",),
            "generation_tokens_total": ("llamacpp:tokens_predicted_total",),
        },
        kv_share=("llamacpp:kv_cache_usage_ratio",),
    ),
    # Releases around 1.1 had few metrics, without a prefix.
    "tensorrt-llm": Names(
        totals={
            "running": ("trtllm_num_requests_running",),
            "waiting": ("trtllm_num_requests_waiting",),
            "prompt_tokens_total": ("trtllm_prompt_tokens_total",),
            "generation_tokens_total": ("trtllm_generation_tokens_total",),
            "prefix_query_tokens_total": ("trtllm_prompt_tokens_total",),
            "prefix_hit_tokens_total": ("trtllm_prompt_cached_tokens_total",),
            "requests_total": ("trtllm_request_success_total", "request_success_total"),
        },
        kv_share=("trtllm_kv_cache_utilization",),
        ttft_s=("trtllm_time_to_first_token_seconds", "time_to_first_token_seconds"),
        e2e_s=("trtllm_e2e_request_latency_seconds", "e2e_request_latency_seconds"),
    ),
    "inhouse": Names(
        totals={
            "running": ("batchmark_requests_running",),
            "waiting": ("batchmark_requests_waiting",),
            "preemptions_total": ("batchmark_preemptions_total",),
            "prompt_tokens_total": ("batchmark_prompt_tokens_total",),
            "generation_tokens_total": ("batchmark_output_tokens_total",),
            "prefix_query_tokens_total": ("batchmark_prefix_query_tokens_total",),
            "prefix_hit_tokens_total": ("batchmark_prefix_hit_tokens_total",),
            "requests_total": ("batchmark_requests_total",),
        },
        kv_share=("batchmark_kv_share",),
        ttft_s=("batchmark_ttft_seconds",),
        e2e_s=("batchmark_e2e_seconds",),
    ),
}


def sample_of(kind: str, samples: Iterable[Sample], at_ns: int) -> EngineSample:
    """What `samples`, a page of an engine of `kind`, say; no value where they say nothing.

    A kind without a table, such as any OpenAI endpoint or a hosted library, is read by the table
    that finds most.
    """
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    return max((_read(names, by_name, at_ns) for names in _tables(kind)), key=_values)


def says_nothing(sample: EngineSample) -> bool:
    """True when `sample` holds no value at all."""
    return not _values(sample)


def combined(first: EngineSample, second: EngineSample) -> EngineSample:
    """`first`, with the values of `second` where it has none."""
    values = {
        f.name: getattr(second, f.name)
        for f in fields(first)
        if getattr(first, f.name) in (None, {})
    }
    return replace(first, **values)


async def scrape_sample(
    kind: str, url: str, clock: Clock, headers: Mapping[str, str] | None = None
) -> EngineSample | None:
    """What the metrics page at `url`, of an engine of `kind`, says now; None when it says nothing.

    `headers` carry a key where the page wants one. Never raises for a bad answer.
    """
    try:
        found = sample_of(kind, await scrape(url, headers, _names(kind)), clock.now_ns())
    except EngineFailed:
        return None
    return None if says_nothing(found) else found


def _tables(kind: str) -> Sequence[Names]:
    return [TABLES[kind]] if kind in TABLES else list(TABLES.values())


@cache
def _names(kind: str) -> frozenset[str]:
    """Every name that a table for `kind` looks for."""
    found: set[str] = set()
    for names in _tables(kind):
        found.update(names.kv_share, *names.totals.values())
        for histogram in (*names.ttft_s, *names.e2e_s):
            found |= {f"{histogram}_bucket", f"{histogram}_sum"}
    return frozenset(found)


def _values(sample: EngineSample) -> int:
    held = (getattr(sample, f.name) for f in fields(sample) if f.name != "at_ns")
    return sum(value is not None and value != {} for value in held)


def _read(names: Names, by_name: ByName, at_ns: int) -> EngineSample:
    of_rank = {name: _of_rank(samples, names.ranks) for name, samples in by_name.items()}
    totals: dict[str, Any] = {
        key: _first(of_rank, theirs, math.fsum) for key, theirs in names.totals.items()
    }
    return EngineSample(
        at_ns=at_ns,
        kv_share=_first(of_rank, names.kv_share, fmean),
        ttft_s_buckets=_buckets(of_rank, names.ttft_s),
        ttft_s_sum=_first(of_rank, [f"{name}_sum" for name in names.ttft_s], math.fsum),
        e2e_s_buckets=_buckets(of_rank, names.e2e_s),
        e2e_s_sum=_first(of_rank, [f"{name}_sum" for name in names.e2e_s], math.fsum),
        **totals,
    )


def _of_rank(samples: Sequence[Sample], ranks: Mapping[str, str]) -> Sequence[Sample]:
    return [
        sample
        for sample in samples
        if all(sample.labels.get(label, rank) == rank for label, rank in ranks.items())
    ]


def _first(
    by_name: ByName, names: Iterable[str], together: Callable[[list[float]], float]
) -> float | None:
    """The values of the first of `names` that has finite ones, made one by `together`."""
    for name in names:
        values = [s.value for s in by_name.get(name, ()) if math.isfinite(s.value)]
        if values:
            return float(together(values))
    return None


def _buckets(by_name: ByName, names: Iterable[str]) -> Mapping[str, float] | None:
    """The cumulative counts by upper bound of the first histogram that is there.

    Label sets are added up, over the bounds that all of them have.
    """
    for name in names:
        by_labels: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
        for sample in by_name.get(f"{name}_bucket", ()):
            bound = _bound(sample.labels.get("le", ""))
            if bound is not None and math.isfinite(sample.value):
                others = tuple(sorted(i for i in sample.labels.items() if i[0] != "le"))
                by_labels.setdefault(others, {})[bound] = sample.value
        if by_labels:
            shared = set.intersection(*(set(buckets) for buckets in by_labels.values()))
            ordered = sorted(shared, key=float)
            return {b: math.fsum(of[b] for of in by_labels.values()) for b in ordered} or None
    return None


def _bound(text: str) -> str | None:
    """An upper bound written in one way only; None when it is none."""
    try:
        bound = float(text)
    except ValueError:
        return None
    if math.isnan(bound):
        return None
    return LAST_BUCKET if math.isinf(bound) else repr(bound)
