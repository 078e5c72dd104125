"""Caches and warm-ups that made engines look faster than they are, as users of other tools reported.
The numbers of issues are where somebody met the fault."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest

from engines.inhouse_server import InhouseServer
from engines.scripted import Script, ScriptedServer, chunk, response_head
from harness.core.clock import MonotonicClock
from harness.core.engine import EngineSpec
from harness.core.workload import Load, LoadKind, Workload
from workloads.catalog import build_warmup, build_workload, load_spec, names
from workloads.prompts import random_token_ids

BACKLOG = Load(LoadKind.BACKLOG)
Prompt = tuple[int, ...]


def prompts_of(workload: Workload) -> list[Prompt]:
    return [arrival.request.prompt_token_ids for arrival in workload.arrivals]


def shared(one: Prompt, other: Prompt) -> int:
    """How many tokens the two begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@pytest.mark.parametrize("name", names())
def test_f01_two_cells_of_a_sweep_share_no_prompt(name: str) -> None:
    """vllm#54227: a fixed seed and a server that lives on replayed cached prompts: throughput 2.32
    times, TTFT 49 times, unevenly over the cells. Here a cell is a repeat, with a seed of its own."""
    spec = load_spec(name)
    cells = [prompts_of(build_workload(spec, BACKLOG, 4, 7 + repeat)) for repeat in range(3)]
    sent = [prompt for cell in cells for prompt in cell]

    assert len(set(sent)) == len(sent)
    assert max(shared(a, b) for a, b in pairwise(sorted(sent))) <= 3


@pytest.mark.parametrize("name", names())
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


def test_f06_readiness_is_asked_of_a_health_route_and_generates_nothing(tmp_path: Path) -> None:
    not_yet, ready = (
        Script(((0, response_head(status, "text/plain") + chunk(b"")),)) for status in (503, 200)
    )

    async def main() -> list[bytes]:
        async with ScriptedServer([not_yet, ready], MonotonicClock()) as server:
            spec = EngineSpec("inhouse", "x", "m", port=int(server.url.rpartition(":")[2]))
            await InhouseServer(spec, tmp_path, MonotonicClock()).wait_until_ready()
            return server.requests

    requests = asyncio.run(main())

    assert [request.split(b"\r\n")[0] for request in requests] == [b"GET /health HTTP/1.1"] * 2


@pytest.mark.parametrize("name", names())
def test_f07_as_many_distinct_prompts_are_sent_as_requests(name: str) -> None:
    """sample-apj-sup-sa#181: 40,000 requests from 49 prompts, 96 % cache hits against 3 %."""
    prompts = prompts_of(build_workload(load_spec(name), BACKLOG, 50, 1))

    assert len(set(prompts)) == len(prompts) == 400


def test_f08_prompts_do_not_begin_alike() -> None:
    """inference-perf#569: all synthetic prompts began at the start of one text. Less than 5 % of the
    length is shared, whichever two are taken."""
    rng = random.Random(3)
    prompts = sorted(random_token_ids(100, (1000, 30000), rng) for _ in range(2000))

    assert max(shared(a, b) for a, b in pairwise(prompts)) < 5
