"""Caches and warm-ups that made engines look faster than they are, as users of other tools reported.
The numbers of issues are where somebody met the fault."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest

from engines.registry import open_engine
from engines.scripted import Script, ScriptedServer, chunk, response_head
from harness.analyzer.reading import read_run
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import CheckVerdict
from harness.core.clock import MonotonicClock
from harness.core.engine import EngineSpec
from harness.core.manifest import workload_facts
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload
from reports.page import ReportedRun, write_report
from workloads.catalog import build_warmup, build_workload, load_spec
from workloads.prompts import random_token_ids

BACKLOG = Load(LoadKind.BACKLOG)
Prompt = tuple[int, ...]
MIXES = ("eight-agents", "eight-agents-short")


def prompts_of(workload: Workload) -> list[Prompt]:
    return [arrival.request.prompt_token_ids for arrival in workload.arrivals]


def shared(one: Prompt, other: Prompt) -> int:
    """How many tokens the two begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@pytest.mark.parametrize("name", MIXES)
def test_f01_two_cells_of_a_sweep_share_no_prompt(name: str) -> None:
    """vllm#54227: a fixed seed and a server that lives on replayed cached prompts: throughput 2.32
    times, TTFT 49 times, unevenly over the cells. Here a cell is a repeat, with a seed of its own."""
    spec = load_spec(name)
    cells = [prompts_of(build_workload(spec, BACKLOG, 4, 7 + repeat)) for repeat in range(3)]
    sent = [prompt for cell in cells for prompt in cell]

    assert len(set(sent)) == len(sent)
    assert max(shared(a, b) for a, b in pairwise(sorted(sent))) <= 3


@pytest.mark.parametrize("name", MIXES)
@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_f03_f05_the_warm_up_is_none_of_what_is_measured(name: str, seed: int) -> None:
    """LMBenchmark#35: a prompt of 21,000 tokens with a TTFT of 60 ms. sglang#13934: the warm-up was
    the first measured request."""
    spec = load_spec(name)
    measured = prompts_of(build_workload(spec, BACKLOG, 4, seed))
    warm = [request.prompt_token_ids for request in build_warmup(spec, 16, seed)]

    assert len(set(warm)) == 16
    for prompt in warm:
        assert max(shared(prompt, other) for other in measured) <= 3


@pytest.mark.parametrize("warmup", [0, 3])
def test_f06_the_server_gets_the_warm_up_that_is_on_record_and_no_hidden_request(
    run_scripted: Callable[..., Any],
    answer: Callable[..., Script],
    workload: Callable[..., Workload],
    warmup: int,
) -> None:
    """vllm#30975: the readiness probe was the first prompt of the benchmark, sent unrecorded."""
    run = run_scripted([answer()], workload(5), warmup=warmup)

    assert run.manifest.warmup_requests == warmup
    assert len(run.server.requests) == warmup + 5
    assert run.manifest.counts.sent == 5


def test_f06_readiness_is_asked_of_a_health_route_then_of_a_prompt_of_its_own(
    tmp_path: Path, answer: Callable[..., Script]
) -> None:
    """None of the workload's prompts is known to the engine before it is measured."""
    not_yet, ready = (
        Script(((0, response_head(status, "text/plain") + chunk(b"")),)) for status in (503, 200)
    )

    async def main() -> list[bytes]:
        async with ScriptedServer([not_yet, ready, answer(4)], MonotonicClock()) as server:
            spec = EngineSpec("inhouse", "x", "m", port=int(server.url.rpartition(":")[2]))
            await open_engine(spec, tmp_path, MonotonicClock()).wait_until_ready()
            return server.requests

    requests = asyncio.run(main())

    *asked, probed = (request.split(b"\r\n")[0] for request in requests)
    assert asked[:2] == [b"GET /health HTTP/1.1"] * 2
    assert all(line.startswith(b"GET ") for line in asked)
    assert probed == b"POST /v1/completions HTTP/1.1"
    prompt = json.loads(requests[-1].partition(b"\r\n\r\n")[2])["prompt"]
    assert len(prompt) == 8


@pytest.mark.parametrize("name", MIXES)
def test_f07_as_many_distinct_prompts_are_sent_as_requests(name: str) -> None:
    """sample-apj-sup-sa#181: 40,000 requests from 49 prompts, 96 % cache hits against 3 %."""
    prompts = prompts_of(build_workload(load_spec(name), BACKLOG, 50, 1))

    assert len(set(prompts)) == len(prompts) == 400


def test_f07_a_run_says_how_many_of_its_prompts_are_distinct_and_doubts_repeated_ones(
    build: Any, tmp_path: Path
) -> None:
    attached = EngineSpec("openai", "theirs", "m", attach_url="http://localhost:8000")
    prompts = [(1, 2, i % 7) for i in range(40)]
    arrivals = tuple(Arrival(0, Request(i, "A", p, 2)) for i, p in enumerate(prompts))
    facts = workload_facts(Workload("few", 0, 1, BACKLOG, arrivals))
    records = [build.record(i, prompt_tokens_asked=3, prompt_tokens=3) for i in range(40)]
    run = build.run(records, engine=attached, workload=facts)
    write_report(tmp_path / "page.html", [ReportedRun(run, summarize(run))], [])

    assert facts.distinct_prompts == 7
    (said,) = [c.message for c in summarize(run).cautions if c.code == "REPEATED_PROMPTS"]
    assert said.startswith("40 requests had 7 distinct prompt(s)")
    assert said in (tmp_path / "page.html").read_text()


def test_f02_a_prefix_cache_at_work_is_told_from_what_the_engine_says_it_had(
    run_scripted: Callable[..., Any], workload: Callable[..., Workload]
) -> None:
    """vllm#53920: the client's side of it, where the usage tells the cached part of each prompt."""
    counts = {"prompt_tokens": 3, "completion_tokens": 1}
    counts = {**counts, "prompt_tokens_details": {"cached_tokens": 2}}
    body = b"".join(
        chunk(b"data: " + json.dumps(payload).encode() + b"\n\n")
        for payload in (
            {"choices": [{"text": "a", "finish_reason": "length"}]},
            {"choices": [], "usage": counts},
        )
    )
    script = Script(((0, response_head() + body + chunk(b"data: [DONE]\n\n") + chunk(b"")),))
    summary = summarize(read_run(run_scripted([script], workload(4)).folder))

    assert summary.value("cached_prompt_share") == pytest.approx(2 / 3)
    (said,) = [c.message for c in summary.cautions if c.code == "PREFIX_CACHE_HIT"]
    assert said.startswith("66.7% of the prompt tokens")
    assert next(c.verdict for c in summary.checks if c.id == "V18") is CheckVerdict.WARN


def test_f08_prompts_do_not_begin_alike() -> None:
    """inference-perf#569: all synthetic prompts began at the start of one text. Less than 5 % of the
    length is shared, whichever two are taken."""
    rng = random.Random(3)
    prompts = sorted(random_token_ids(100, (1000, 30000), rng) for _ in range(2000))

    assert max(shared(a, b) for a, b in pairwise(prompts)) < 5
