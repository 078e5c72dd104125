"""A model small enough to run in a unit test, with random weights."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from engines.inhouse.engine import InhouseEngine
from engines.inhouse.kv_cache import CacheSize, KvCache
from engines.inhouse.llama_config import LlamaConfig
from engines.inhouse.model import LlamaModel
from engines.inhouse.runner import Runner, StepOutput
from engines.inhouse.torch_forward import TorchForward
from engines.inhouse.weights import Weights
from engines.inhouse.worker import Worker
from engines.models.tokenizer import Codec
from engines.scheduling.limits import Limits
from engines.scheduling.policies import make_policy
from engines.scheduling.scheduler import Scheduler
from engines.scheduling.step import StepPlan
from engines.serving.in_flight import Served
from engines.serving.request_limits import RequestLimits
from engines.serving.request_queue import QueueLimits
from harness.core.clock import MonotonicClock
from harness.core.engine import EngineFacts
from harness.core.rundir import LineWriter
from harness.core.units import ms_to_ns

NO_LIMITS = QueueLimits()
CODEC: Any = Codec.__new__(Codec)  # most tests here neither read nor write text
CONFIG = LlamaConfig(
    architecture="llama",
    layers=2,
    hidden=64,
    heads=4,
    kv_heads=2,
    head_dim=16,
    intermediate=96,
    vocabulary=128,
    rope_theta=10_000.0,
    norm_eps=1e-5,
    context=256,
    tied_embeddings=True,
    eos_ids=(),
    bos_id=None,
)


class Gate:
    """A runner that holds every step until it is let through, or breaks at one."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.is_open = threading.Event()
        self._let_through = threading.Semaphore(0)
        self.breaks = False
        self.plans: list[StepPlan] = []
        self.add, self.forget = runner.add, runner.forget

    def step(self) -> None:
        """Let one step through."""
        self._let_through.release()

    async def next_step(self) -> None:
        """Let one step through, and wait for the one after it."""
        taken = len(self.plans)
        self.step()
        while len(self.plans) == taken:
            await asyncio.sleep(0.001)

    def execute(self, plan: StepPlan) -> StepOutput:
        self.plans.append(plan)
        while not self.is_open.wait(0.001) and not self._let_through.acquire(blocking=False):
            pass
        if self.breaks:
            msg = "out of memory"
            raise RuntimeError(msg)
        return self._runner.execute(plan)

    @property
    def sequence_ids(self) -> tuple[int, ...]:
        return self._runner.sequence_ids


@dataclass(frozen=True)
class Tiny:
    """Makes runners of one model; `eos_ids` are the tokens that end an answer."""

    config: LlamaConfig = CONFIG

    def model(self, eos_ids: tuple[int, ...] = ()) -> LlamaModel:
        """The same random model at every call, apart from its end tokens."""
        return LlamaModel(replace(self.config, eos_ids=eos_ids), self.weights())

    def weights(self) -> Weights:
        """The same random weights at every call."""
        config = self.config
        generator = torch.Generator().manual_seed(1)

        def matrix(rows: int, columns: int) -> torch.Tensor:
            return torch.randn(rows, columns, generator=generator) * 0.2

        keys, middle = config.kv_heads * config.head_dim, config.intermediate
        weights = {"embedding": matrix(config.vocabulary, config.hidden)}
        weights["output"] = weights["embedding"]
        weights["output_norm"] = torch.ones(config.hidden)
        for i in range(config.layers):
            weights[f"{i}.query"] = matrix(config.hidden, config.hidden)
            weights[f"{i}.key"] = matrix(keys, config.hidden)
            weights[f"{i}.value"] = matrix(keys, config.hidden)
            weights[f"{i}.attention_out"] = matrix(config.hidden, config.hidden)
            weights[f"{i}.gate"] = matrix(middle, config.hidden)
            weights[f"{i}.up"] = matrix(middle, config.hidden)
            weights[f"{i}.down"] = matrix(config.hidden, middle)
            weights[f"{i}.attention_norm"] = torch.ones(config.hidden)
            weights[f"{i}.mlp_norm"] = torch.ones(config.hidden)
        return weights

    def cache(self, kv_blocks: int = 32, block_tokens: int = 4) -> KvCache:
        """An empty cache."""
        size = CacheSize(kv_blocks, block_tokens)
        return KvCache(self.config, size, torch.float32, torch.device("cpu"))

    def runner(self, eos_ids: tuple[int, ...] = (), kv_blocks: int = 32) -> Runner:
        """A runner with blocks of 4 tokens."""
        forward = TorchForward(self.model(eos_ids), self.cache(kv_blocks))
        return Runner(forward, MonotonicClock())

    def gate(self) -> Gate:
        """A runner that holds every step."""
        return Gate(self.runner())

    def engine(
        self,
        runner: Any,
        policy: str = "continuous",
        window_ms: float | None = None,
        log: LineWriter | None = None,
        queue: QueueLimits = NO_LIMITS,
        codec: Any = CODEC,
        **limits: Any,
    ) -> InhouseEngine:
        """An engine of two slots and 32 blocks of 4 tokens, unless `limits` say otherwise."""
        window_ns = None if window_ms is None else ms_to_ns(window_ms)
        plain = Limits(slots=2, kv_blocks=32, block_tokens=4, pad_prompts=True)
        clock = MonotonicClock()
        scheduler = Scheduler(make_policy(policy, window_ns), replace(plain, **limits))
        facts = EngineFacts(model="tiny", context_tokens=96)
        served = Served(codec, facts, RequestLimits(96, 64, 128))
        return InhouseEngine(Worker(scheduler, runner, clock), served, queue, clock, log)


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    return Tiny()


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """So small a model gains nothing from threads, which on a busy machine wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
