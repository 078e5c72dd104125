"""Metrics pages of each family of engines, and what they say in the names that all share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import fields

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from engines.prometheus import Sample, parse
from engines.samples import TABLES, combined, sample_of, says_nothing, scrape_sample
from harness.core.clock import VirtualClock
from harness.core.engine import EngineSample

HISTOGRAM = """\
{name}_bucket{{{labels}le="0.1"}} 1.0
{name}_bucket{{{labels}le="1.0"}} 3.0
{name}_bucket{{{labels}le="+Inf"}} 4.0
{name}_count{{{labels}}} 4.0
{name}_sum{{{labels}}} 3.5
"""
BUCKETS = {"0.1": 1.0, "1.0": 3.0, "+Inf": 4.0}


def histogram(name: str, labels: str = "") -> str:
    return HISTOGRAM.format(name=name, labels=labels)


VLLM = (
    """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:cache_config_info{block_size="128",engine="0",num_gpu_blocks="728"} 1.0
vllm:num_preemptions_total{engine="0",model_name="m"} 5.0
vllm:num_preemptions_created{engine="0",model_name="m"} 1.79e+09
vllm:prompt_tokens_total{engine="0",model_name="m"} 120.0
vllm:generation_tokens_total{engine="0",model_name="m"} 64.0
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 120.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 16.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 1.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 3.0
vllm:iteration_tokens_total_sum{engine="0",model_name="m"} 184.0
"""
    + histogram("vllm:time_to_first_token_seconds", 'engine="0",model_name="m",')
    + histogram("vllm:e2e_request_latency_seconds", 'engine="0",model_name="m",')
)
SGLANG = (
    """\
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 3.0
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="1"} 3.0
sglang:num_queue_reqs{model_name="m",pp_rank="0",tp_rank="0"} 2.0
sglang:num_queue_reqs{model_name="m",pp_rank="0",tp_rank="1"} 2.0
sglang:token_usage{model_name="m",pp_rank="0",tp_rank="0"} 0.25
sglang:token_usage{model_name="m",pp_rank="0",tp_rank="1"} 0.75
sglang:num_retracted_requests_total{model_name="m",tp_rank="0"} 5.0
sglang:prompt_tokens_total{model_name="m"} 120.0
sglang:generation_tokens_total{model_name="m"} 64.0
sglang:cached_tokens_total{model_name="m"} 16.0
sglang:num_requests_total{model_name="m"} 4.0
"""
    + histogram("sglang:time_to_first_token_seconds", 'model_name="m",')
    + histogram("sglang:e2e_request_latency_seconds", 'model_name="m",')
)
TGI = (
    """\
tgi_batch_current_size 3
tgi_queue_size 2
tgi_request_success 4
tgi_request_input_length_sum 120
tgi_request_generated_tokens_sum 64
"""
    + histogram("tgi_request_duration")
)  # fmt: skip
LLAMA_CPP = """\
llamacpp:prompt_tokens_total 120
llamacpp:tokens_predicted_total 64
llamacpp:requests_processing 3
llamacpp:requests_deferred 2
llamacpp:n_busy_slots_per_decode 1.5
"""
TENSORRT_LLM = (
    """\
trtllm_num_requests_running 3
trtllm_num_requests_waiting 2
trtllm_kv_cache_utilization 0.25
trtllm_prompt_tokens_total 120
trtllm_generation_tokens_total 64
trtllm_prompt_cached_tokens_total 16
trtllm_request_success_total{finished_reason="length"} 4
"""
    + histogram("trtllm_time_to_first_token_seconds")
    + histogram("trtllm_e2e_request_latency_seconds")
)
INHOUSE = (
    """\
batchmark_requests_running 3
batchmark_requests_waiting 2
batchmark_kv_share 0.25
batchmark_preemptions_total 5
batchmark_prefix_query_tokens_total 120
batchmark_prefix_hit_tokens_total 16
batchmark_prompt_tokens_total 120
batchmark_output_tokens_total 64
batchmark_requests_total 4
"""
    + histogram("batchmark_ttft_seconds")
    + histogram("batchmark_e2e_seconds")
)
PAGES = {
    "vllm": VLLM,
    "sglang": SGLANG,
    "tgi": TGI,
    "llama-cpp": LLAMA_CPP,
    "tensorrt-llm": TENSORRT_LLM,
    "inhouse": INHOUSE,
}
# Every page says of these what is written here, or nothing.
SAID = EngineSample(
    at_ns=7,
    running=3.0,
    waiting=2.0,
    kv_share=0.25,
    preemptions_total=5.0,
    prompt_tokens_total=120.0,
    generation_tokens_total=64.0,
    prefix_query_tokens_total=120.0,
    prefix_hit_tokens_total=16.0,
    requests_total=4.0,
    ttft_s_buckets=BUCKETS,
    ttft_s_sum=3.5,
    e2e_s_buckets=BUCKETS,
    e2e_s_sum=3.5,
)
UNSAID = {
    "vllm": set(),
    "sglang": set(),
    "tgi": {
        *("kv_share", "preemptions_total", "prefix_query_tokens_total"),
        *("prefix_hit_tokens_total", "ttft_s_buckets", "ttft_s_sum"),
    },
    "llama-cpp": {
        *("kv_share", "preemptions_total", "prefix_query_tokens_total"),
        *("prefix_hit_tokens_total", "ttft_s_buckets", "ttft_s_sum"),
        *("e2e_s_buckets", "e2e_s_sum", "requests_total"),
    },
    "tensorrt-llm": {"preemptions_total"},
    "inhouse": set(),
}


def test_every_family_has_a_page_here() -> None:
    assert set(PAGES) == set(UNSAID) == set(TABLES)


@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("asked", ["itself", "openai"])
def test_each_family_says_the_same_in_its_own_names(kind: str, asked: str) -> None:
    """A generic endpoint is read by whichever table finds most."""
    found = sample_of(kind if asked == "itself" else asked, parse(PAGES[kind]), 7)
    for field in fields(SAID):
        if field.name != "gpu":
            expected = None if field.name in UNSAID[kind] else getattr(SAID, field.name)
            assert (field.name, getattr(found, field.name)) == (field.name, expected)


@pytest.mark.parametrize(
    ("kind", "page", "field", "expected"),
    [
        ("vllm", "vllm:gpu_cache_usage_perc 0.5\n", "kv_share", 0.5),
        ("vllm", "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.4\n", "kv_share", 0.4),
        ("vllm", "vllm:gpu_prefix_cache_hits_total 9\n", "prefix_hit_tokens_total", 9.0),
        ("llama-cpp", "llamacpp:kv_cache_usage_ratio 0.5\n", "kv_share", 0.5),
        ("tensorrt-llm", 'request_success_total{a="undefined"} 2\n', "requests_total", 2.0),
        ("tensorrt-llm", "e2e_request_latency_seconds_sum 1.5\n", "e2e_s_sum", 1.5),
    ],
)
def test_names_of_older_versions_are_understood(
    kind: str, page: str, field: str, expected: float
) -> None:
    assert getattr(sample_of(kind, parse(page), 0), field) == expected


def test_several_engines_behind_one_page_are_one() -> None:
    """Requests and tokens of replicas add up; the share of all KV caches is a mean."""
    page = "".join(
        f'vllm:num_requests_running{{engine="{i}"}} {i + 1}\n'
        f'vllm:kv_cache_usage_perc{{engine="{i}"}} {i / 2}\n'
        + histogram("vllm:time_to_first_token_seconds", f'engine="{i}",')
        for i in range(2)
    )
    found = sample_of("vllm", parse(page), 0)
    assert (found.running, found.kv_share, found.ttft_s_sum) == (3.0, 0.25, 7.0)
    assert found.ttft_s_buckets == {"0.1": 2.0, "1.0": 6.0, "+Inf": 8.0}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_what_is_no_number_is_not_said(value: str) -> None:
    page = f"vllm:num_requests_running {value}\nvllm:time_to_first_token_seconds_sum {value}\n"
    assert says_nothing(sample_of("vllm", parse(page), 0))


def test_a_page_of_somebody_else_says_nothing() -> None:
    assert says_nothing(sample_of("vllm", parse("process_cpu_seconds_total 3\n"), 0))
    assert says_nothing(sample_of("openai", parse("ovms_current_requests 3\n"), 0))


COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=6)
SETS = st.lists(COUNTS, min_size=1, max_size=4)


@given(SETS)
def test_histograms_add_up_over_label_sets_and_stay_cumulative(sets: list[list[int]]) -> None:
    """Over the bounds that all sets have, the +Inf bucket among them."""
    samples = []
    for i, counts in enumerate(sets):
        bounds = [*(f"{k + 1}" for k in range(len(counts) - 1)), "+Inf"]
        for k, bound in enumerate(bounds):
            labels = {"engine": str(i), "le": bound}
            value = float(sum(counts[: k + 1]))
            samples.append(Sample("vllm:time_to_first_token_seconds_bucket", labels, value))
    found = sample_of("vllm", samples, 0).ttft_s_buckets
    assert found is not None
    assert found["+Inf"] == sum(map(sum, sets))
    assert len(found) == min(map(len, sets))
    assert list(found.values()) == sorted(found.values())
    assert [float(bound) for bound in found] == sorted(map(float, found))


def test_one_bound_is_one_bucket_however_it_is_written() -> None:
    name = "vllm:time_to_first_token_seconds_bucket"
    page = f'{name}{{e="0",le="1"}} 1\n{name}{{e="1",le="1.0"}} 2\n{name}{{e="2",le="1e0"}} 4\n'
    assert sample_of("vllm", parse(page), 0).ttft_s_buckets == {"1.0": 7.0}


@pytest.mark.parametrize("le", ["x", "", "NaN"])
def test_a_bucket_without_a_bound_is_left_out(le: str) -> None:
    page = f'vllm:time_to_first_token_seconds_bucket{{le="{le}"}} 1\n'
    assert sample_of("vllm", parse(page), 0).ttft_s_buckets is None


def test_one_sample_fills_the_gaps_of_another() -> None:
    first = EngineSample(3, running=1.0)
    second = EngineSample(5, running=9.0, waiting=2.0, gpu={"0.power_w": 90.0})
    assert combined(first, second) == EngineSample(
        3, running=1.0, waiting=2.0, gpu={"0.power_w": 90.0}
    )


async def served(
    answer: Callable[[web.Request], web.Response], use: Callable[[str], Awaitable[None]]
) -> None:
    """Run `use` with the URL of a page on the loopback that `answer` writes."""

    async def handle(request: web.Request) -> web.Response:
        return answer(request)

    app = web.Application()
    app.router.add_get("/metrics", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        await use(f"http://127.0.0.1:{runner.addresses[0][1]}/metrics")
    finally:
        await runner.cleanup()


def scraped(
    answer: Callable[[web.Request], web.Response], **headers: str
) -> EngineSample | None:  # fmt: skip
    found: list[EngineSample | None] = []

    async def use(url: str) -> None:
        found.append(await scrape_sample("vllm", url, VirtualClock(7), headers))

    asyncio.run(served(answer, use))
    return found[0]


def test_a_page_that_is_served_is_read() -> None:
    assert scraped(lambda _: web.Response(text=VLLM)) == SAID


def test_a_page_behind_a_key_is_read_with_the_key() -> None:
    def guarded(request: web.Request) -> web.Response:
        is_known = request.headers.get("Authorization") == "Bearer k"
        return web.Response(text=VLLM) if is_known else web.Response(status=401)

    assert scraped(guarded) is None
    assert scraped(guarded, Authorization="Bearer k") == SAID


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=503),
        web.Response(text="<html>no metrics here</html>"),
        web.Response(text=""),
        web.Response(text="vllm:num_requests_running many\n"),
        web.Response(body=b"vllm:num_requests_running \xff\n"),
        web.Response(text="vllm:num_requests_running NaN\n"),
    ],
    ids=["503", "html", "empty", "no number", "no text", "nan"],
)
def test_a_bad_answer_is_no_sample(answer: web.Response) -> None:
    assert scraped(lambda _: answer) is None


def test_no_server_is_no_sample() -> None:
    async def run() -> EngineSample | None:
        return await scrape_sample("vllm", "http://127.0.0.1:1/metrics", VirtualClock())

    assert asyncio.run(run()) is None
