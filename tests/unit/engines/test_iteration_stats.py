"""TensorRT-LLM's iteration records: each reading takes them away, so totals are kept here."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from engines.iteration_stats import IterationTotals, drain_sample
from harness.core.clock import VirtualClock
from harness.core.engine import EngineSample

PAGE = """\
trtllm_num_requests_running 9
trtllm_num_requests_waiting 9
trtllm_kv_cache_utilization 0.9
trtllm_prompt_tokens_total 120
trtllm_generation_tokens_total 64
"""


def record(
    *, active: int = 1, queued: int = 0, used: int = 3, paused: int = 0, prompt: int = 0
) -> dict[str, Any]:
    """One iteration, with the keys that a server writes."""
    return {
        "iter": 60,
        "iterLatencyMS": 13.02,
        "numActiveRequests": active,
        "numQueuedRequests": queued,
        "kvCacheStats": {
            "usedNumBlocks": used,
            "maxNumBlocks": 12,
            "tokensPerBlock": 32,
            "reusedBlocks": 2,
            "missedBlocks": 6,
        },
        "inflightBatchingStats": {"numPausedRequests": paused, "numCtxTokens": prompt},
    }


def folded(*readings: list[dict[str, Any]]) -> EngineSample:
    totals = IterationTotals()
    for reading in readings:
        found = totals.fold(json.dumps(reading), 7)
    return found


def test_gauges_are_of_the_latest_iteration_and_counts_of_all() -> None:
    found = folded(
        [record(prompt=100), record(paused=1, prompt=20)],
        [record(paused=1), record(active=3, queued=2, used=9)],
    )
    assert found == EngineSample(
        at_ns=7,
        running=3.0,
        waiting=2.0,
        kv_share=0.75,
        preemptions_total=2.0,
        prompt_tokens_total=120.0,
        prefix_query_tokens_total=256.0,
        prefix_hit_tokens_total=64.0,
    )


def test_without_an_iteration_the_totals_stand_and_the_present_is_not_known() -> None:
    found = folded([record(active=3, prompt=100)], [])
    assert (found.running, found.waiting, found.kv_share) == (None, None, None)
    assert (found.prompt_tokens_total, found.prefix_hit_tokens_total) == (100.0, 64.0)


def test_before_the_first_request_nothing_is_said() -> None:
    assert folded([]) == EngineSample(7)


@pytest.mark.parametrize(
    "record",
    [{}, {"kvCacheStats": None}, {"kvCacheStats": {"usedNumBlocks": 1, "maxNumBlocks": 0}}],
)
def test_a_record_without_a_value_leaves_it_unsaid(record: dict[str, Any]) -> None:
    assert folded([record]) == EngineSample(7)


@pytest.mark.parametrize("text", ["", "{}", "[1]", "<html>", '[{"iter": NaN}]'])
def test_what_is_no_list_of_records_is_refused_and_leaves_the_totals(text: str) -> None:
    totals = IterationTotals()
    totals.fold(json.dumps([record(prompt=100)]), 0)
    with pytest.raises(ValueError, match=r".+"):
        totals.fold(text, 0)
    assert totals.fold("[]", 0).prompt_tokens_total == 100.0


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 20)))
def test_totals_do_not_depend_on_when_the_records_were_taken(
    counts: list[int], cuts: list[int]
) -> None:
    records = [record(paused=n, prompt=10 * n) for n in counts]
    edges = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    readings = [records[a:b] for a, b in pairwise(edges)]
    whole, cut = folded(records), folded(*readings)
    assert cut.prompt_tokens_total == whole.prompt_tokens_total
    assert cut.preemptions_total == whole.preemptions_total


def drained(readings: list[str | None], page: str | None) -> list[EngineSample | None]:
    """Samples of a server that gives each reading away once, and then empty lists."""
    left = deque(readings)

    async def metrics(_: web.Request) -> web.Response:
        text = left.popleft() if left else "[]"
        return web.Response(status=503) if text is None else web.Response(text=text)

    async def prometheus(_: web.Request) -> web.Response:
        return web.Response(status=404) if page is None else web.Response(text=page)

    async def run() -> list[EngineSample | None]:
        app = web.Application()
        app.router.add_get("/metrics", metrics)
        app.router.add_get("/prometheus/metrics", prometheus)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            totals = IterationTotals()
            return [await drain_sample(totals, url, VirtualClock(7)) for _ in range(len(readings))]
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def test_totals_come_from_the_page_and_the_present_from_the_records() -> None:
    """The page's gauges are as of the last end of a request, and its tokens are whole."""
    (found,) = drained([json.dumps([record(prompt=100)])], PAGE)
    assert found is not None
    assert (found.running, found.waiting, found.kv_share) == (1.0, 0.0, 0.25)
    assert (found.prompt_tokens_total, found.generation_tokens_total) == (120.0, 64.0)
    assert found.preemptions_total == 0.0


def test_records_alone_are_enough_and_so_is_the_page() -> None:
    (records,) = drained([json.dumps([record(prompt=100)])], None)
    assert records is not None
    assert (records.running, records.prompt_tokens_total) == (1.0, 100.0)
    (page,) = drained([None], PAGE)
    assert page is not None
    assert (page.running, page.prompt_tokens_total) == (9.0, 120.0)


def test_a_server_that_says_nothing_gives_no_sample() -> None:
    assert drained([None, "not json", "[]"], None) == [None, None, None]
