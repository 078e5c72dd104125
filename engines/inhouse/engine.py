"""The in-house engine as serving sees it: requests in, tokens out, on an event loop.

The work is done by `worker`; here are the requests, who waits for which tokens, and how all the
parts are put together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import torch

from engines.inhouse.accounting import DoneStep, Totals
from engines.inhouse.bucketed_decode import Bucket, BucketedDecode, Means
from engines.inhouse.capture import CudaGraphs
from engines.inhouse.forward import Forward
from engines.inhouse.herald import Herald
from engines.inhouse.kv_cache import CacheSize, KvCache, bytes_per_token
from engines.inhouse.llama_config import LlamaConfig
from engines.inhouse.model import LlamaModel
from engines.inhouse.native_forward import NativeForward, NativeOptions, load_native
from engines.inhouse.options import EngineOptions
from engines.inhouse.paged_attention import paged_attention
from engines.inhouse.prefix_keys import prefix_keys
from engines.inhouse.runner import Runner
from engines.inhouse.torch_forward import TorchForward
from engines.inhouse.weights import Weights, load_weights
from engines.inhouse.worker import Arrival, Cancel, Drain, News, Reports, Worker
from engines.models.identity import describe_weights, model_digest, model_name
from engines.models.tokenizer import load_codec
from engines.scheduling.scheduler import Scheduler
from engines.scheduling.step import StepPlan
from engines.serving.generation import GeneratedToken, GenerationRequest, TextCodec
from engines.serving.in_flight import InFlight, Served, Ticket
from engines.serving.request_limits import RequestLimits
from engines.serving.request_queue import QueueLimits, RequestQueue
from engines.serving.timings import Histogram
from harness.core.clock import Clock
from harness.core.engine import EngineFacts
from harness.core.errors import UsageError
from harness.core.rundir import LineWriter

__all__ = ["EngineOptions", "InhouseEngine", "build_engine"]


class InhouseEngine:
    """A TokenEngine that batches by the policy of its scheduler.

    All but `worker`, which has a thread of its own, belongs to the event loop.
    """

    def __init__(
        self,
        worker: Worker,
        served: Served,
        queue_limits: QueueLimits,
        clock: Clock,
        step_log: LineWriter | None,
    ) -> None:
        self._worker = worker
        self._served = served
        self._queue = RequestQueue(queue_limits)
        self._step_log = step_log
        self._in_flight = InFlight(served.limits, clock)
        self._tickets: dict[int, Ticket] = {}
        self._preempted: set[int] = set()
        self._totals = Totals()
        self._herald: Herald | None = None

    @property
    def codec(self) -> TextCodec:
        """The tokenizer of the model."""
        return self._served.codec

    def facts(self) -> EngineFacts:
        """What the engine is: model, dtype, limits and settings."""
        return self._served.facts

    def gauges(self) -> Mapping[str, float]:
        """Prometheus sample names to present values, without the `batchmark_` prefix."""
        return {
            **self._totals.gauges(self._worker.standing, self._worker.limits),
            "requests_waiting": len(self._queue) + len(self._preempted),
            "queue_tokens": self._queue.tokens,
            "requests_rejected_total": self._queue.rejected,
            **self._in_flight.totals(),
        }

    def histograms(self) -> Sequence[Histogram]:
        """How long requests waited for their slots."""
        return (self._queue.waited,)

    def start(self) -> None:
        """Begin to work, on a thread of the engine's own; called with an event loop running."""
        herald = self._herald = Herald(asyncio.get_running_loop())
        self._worker.start(
            Reports(
                stepped=lambda news: herald.tell(partial(self._take, news)),
                failed=lambda reason: herald.tell(partial(self._in_flight.fail, reason)),
            )
        )

    def drain(self) -> None:
        """Let no request wait for a full batch any more."""
        self._worker.order(Drain())

    async def stop(self) -> None:
        """End the work after the step in progress; requests in flight fail."""
        await asyncio.to_thread(self._worker.stop)
        if self._herald is not None:
            await asyncio.to_thread(self._herald.stop)
        self._in_flight.fail("the engine was stopped")

    def generate(self, request: GenerationRequest) -> AsyncIterator[GeneratedToken]:
        """Tokens of the answer as they are made. Closing the iterator cancels the request.

        Raises RequestRefused before the first token when the request can never be served, QueueFull
        when too many wait, and RuntimeError when the engine has failed or was stopped.
        """
        return self._in_flight.answer(request, self._begin, self._leave)

    def _begin(self, ticket: Ticket) -> None:
        number, request, limits = ticket.number, ticket.request, self._worker.limits
        prompt = request.prompt_token_ids
        self._queue.enter(number, len(prompt), ticket.arrived_ns)
        self._tickets[number] = ticket
        keys = prefix_keys(prompt, limits.block_tokens) if limits.prefix_cache else ()
        self._worker.order(Arrival(number, request, ticket.arrived_ns, keys))

    def _leave(self, ticket: Ticket) -> None:
        self._queue.give_up(ticket.number)
        self._preempted.discard(ticket.number)
        if self._tickets.pop(ticket.number, None) is not None:
            self._worker.order(Cancel(ticket.number))

    def _take(self, news: News) -> None:
        if news.plan is not None:
            self._admit(news.plan, news.planned_ns)
        if news.done is not None:
            self._hand_over(news.done)

    def _admit(self, plan: StepPlan, planned_ns: int) -> None:
        """Note who has come by a slot, and who has lost one."""
        self._preempted.update(id_ for id_ in plan.preempted if id_ in self._tickets)
        for prefill in plan.prefills:
            number = prefill.sequence_id
            self._preempted.discard(number)
            if self._queue.admit(number, planned_ns):
                prompt = self._tickets[number].request.prompt_token_ids
                self._totals.prefix_query_tokens += len(prompt)
                self._totals.prefix_hit_tokens += prefill.first

    def _hand_over(self, step: DoneStep) -> None:
        """Give the tokens of a step to those who wait for them, and account for it."""
        for number, token in step.tokens():
            is_last = token.finish_reason is not None
            take = self._tickets.pop if is_last else self._tickets.get
            if (ticket := take(number, None)) is not None:
                self._in_flight.deliver(ticket, token)
        self._totals.add(step)
        if self._step_log is not None:  # once those who wait have sent their tokens on
            asyncio.get_running_loop().call_soon(self._log, self._step_log, step)

    def _log(self, step_log: LineWriter, step: DoneStep) -> None:
        try:
            step_log.append_encoded(msgspec.json.encode(step.record()))
        except OSError as error:
            self._in_flight.fail(f"the engine failed: cannot write its step log: {error}")


def build_engine(
    model_path: Path, options: EngineOptions, clock: Clock, step_log: LineWriter | None
) -> InhouseEngine:
    """Load the model at `model_path` and put an engine together around it.

    Raises ModelFileError when the model cannot be read, and UsageError when an option is wrong.
    """
    policy, queue_limits = options.policy_and_queue()
    dtype, device = options.dtype_and_device()
    options = replace(options, device=device.type)
    torch.set_num_threads(options.cores)
    config, weights = load_weights(model_path, dtype)
    codec = load_codec(model_path)
    size = options.cache_size(config)
    limits = options.limits(size)
    forward = _forward(config, weights, size, options)
    scheduler = Scheduler(policy, limits)
    facts = EngineFacts(
        version=f"batchmark {options.version}".strip(),
        model=model_name(model_path),
        model_digest=model_digest(model_path),
        dtype=options.dtype,
        weights=describe_weights(model_path),
        context_tokens=config.context,
        settings={
            **options.settings(limits),
            "kv_bytes": limits.most_tokens * bytes_per_token(config, dtype),
            "kernels": forward.name,
            "weight_bytes": forward.number_bytes.weight,
            "weight_error": forward.weight_error,
        },
    )
    bounds = RequestLimits(config.context, limits.most_tokens, config.vocabulary)
    worker = Worker(scheduler, Runner(forward, clock), clock)
    return InhouseEngine(worker, Served(codec, facts, bounds), queue_limits, clock, step_log)


def _forward(
    config: LlamaConfig, weights: Weights, size: CacheSize, options: EngineOptions
) -> Forward:
    """What computes, with weights and KV cache on its device: C where it can, torch elsewhere."""
    dtype, device = options.dtype_and_device()
    why_torch = ""
    if device.type == "cpu" and dtype is torch.bfloat16:
        native = load_native(config, weights, size, NativeOptions(options.cores, options.weights))
        if isinstance(native, NativeForward):
            return native
        why_torch = native
    if options.weights != "bfloat16":
        reason = why_torch or f"this is {options.dtype} on {device.type}"
        msg = f"--weights {options.weights} needs the C kernels of bfloat16 on a CPU: {reason}"
        raise UsageError(msg)
    on_device = {name: tensor.to(device) for name, tensor in weights.items()}
    model, cache = LlamaModel(config, on_device), KvCache(config, size, dtype, device)
    if device.type != "cuda":
        return TorchForward(model, cache, reason=why_torch)
    # No sequence outgrows the model's context, nor the cache.
    most = Bucket(options.slots, min(size.kv_blocks, -(-config.context // size.block_tokens)))
    means = Means(paged_attention(device), CudaGraphs())
    return TorchForward(model, cache, BucketedDecode(model, cache, most, means))
