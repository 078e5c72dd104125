"""Hugging Face `generate` on static batches, the naive baseline, as a TokenEngine.

Requests wait until there are as many as slots, or the first has waited for the window. Then all are
answered by one call of `generate`, on a thread of its own, and no other starts before it has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, GgufConfig

from engines.hosted.options import HostedOptions
from engines.hosted.static_batch import BatchStep, StaticBatch
from engines.models.identity import describe_weights, model_digest, model_name
from engines.models.tokenizer import load_codec
from engines.scheduling.policies import Policy, QueueView, make_policy
from engines.serving.generation import GeneratedToken, GenerationRequest, TextCodec
from engines.serving.in_flight import InFlight, Served, Ticket
from engines.serving.request_limits import RequestLimits
from engines.serving.timings import Histogram
from harness.core.clock import Clock
from harness.core.engine import EngineFacts
from harness.core.errors import ModelFileError, UsageError
from harness.core.record import StepRecord
from harness.core.rundir import LineWriter
from harness.core.units import NS_PER_S, ns_to_ms, ns_to_s

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


@dataclass(slots=True)
class _Totals:
    steps: int = 0
    prefill_ns: int = 0
    decode_ns: int = 0


@dataclass(frozen=True, slots=True)
class Batching:
    """How batches are formed, of at most `slots` requests, and where their steps are logged."""

    policy: Policy
    slots: int
    step_log: LineWriter | None = None


class HuggingFaceStatic:
    """A TokenEngine that answers with `model`; `end_ids` are the tokens that end an answer."""

    def __init__(
        self,
        model: Any,
        end_ids: frozenset[int],
        served: Served,
        batching: Batching,
        clock: Clock,
    ) -> None:
        self._model = model
        self._end_ids = end_ids
        self._served = served
        self._batching = batching
        self._clock = clock
        self._in_flight = InFlight(served.limits, clock)
        self._waiting: list[Ticket] = []
        self._queue_changed = asyncio.Event()
        self._is_draining = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="huggingface-static")
        self._batch: StaticBatch | None = None
        self._totals = _Totals()
        self._driver: asyncio.Task[None] | None = None

    @property
    def codec(self) -> TextCodec:
        """The tokenizer of the model."""
        return self._served.codec

    def facts(self) -> EngineFacts:
        """What the engine is: library, model, dtype, limits and settings."""
        return self._served.facts

    def gauges(self) -> Mapping[str, float]:
        """Prometheus sample names to present values."""
        batch = self._batch
        return {
            "requests_running": batch.running if batch else 0,
            "requests_waiting": len(self._waiting),
            "slots": self._batching.slots,
            "slots_padded": batch.padded if batch else 0,
            "steps_total": self._totals.steps,
            "prefill_seconds_total": ns_to_s(self._totals.prefill_ns),
            "decode_seconds_total": ns_to_s(self._totals.decode_ns),
            **self._in_flight.totals(),
        }

    def histograms(self) -> Sequence[Histogram]:
        """None: its front times all that can be seen from outside."""
        return ()

    def drain(self) -> None:
        """Let no request wait for a full batch any more."""
        self._is_draining = True
        self._queue_changed.set()

    def start(self) -> None:
        """Begin to form batches, on the event loop that runs now; a thread generates."""
        self._driver = asyncio.get_running_loop().create_task(self._drive())

    async def stop(self) -> None:
        """End the batch after the step in progress; requests in flight fail."""
        if self._driver is not None:
            self._driver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._driver
        if self._batch is not None:
            self._batch.stop()
        await asyncio.to_thread(self._thread.shutdown)
        self._in_flight.fail("the engine was stopped")

    def generate(self, request: GenerationRequest) -> AsyncIterator[GeneratedToken]:
        """Tokens of the answer as they are made. Closing the iterator cancels the request."""
        return self._in_flight.answer(request, self._begin, self._leave)

    def _begin(self, ticket: Ticket) -> None:
        self._waiting.append(ticket)
        self._queue_changed.set()

    def _leave(self, ticket: Ticket) -> None:
        """Forget a request that has not started; in a batch it is padding until the batch ends."""
        if ticket in self._waiting:
            self._waiting.remove(ticket)

    async def _drive(self) -> None:
        loop = asyncio.get_running_loop()

        def on_step(step: BatchStep) -> None:
            loop.call_soon_threadsafe(self._take, step)

        try:
            while True:
                tickets = await self._next_batch()
                self._batch = StaticBatch(tickets, self._end_ids, on_step, self._clock)
                await loop.run_in_executor(self._thread, self._batch.run, self._model)
                self._batch = None
        except Exception as error:  # noqa: BLE001 - whatever it is, no request may wait for ever
            self._in_flight.fail(f"the engine failed: {type(error).__name__}: {error}")

    async def _next_batch(self) -> list[Ticket]:
        policy = self._batching.policy
        while not (count := policy.admit_count(self._view())):
            due_ns = policy.decision_ns(self._view())
            wait_s = None if due_ns is None else max(0, due_ns - self._clock.now_ns()) / NS_PER_S
            self._queue_changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._queue_changed.wait()
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    def _view(self) -> QueueView:
        return QueueView(
            now_ns=self._clock.now_ns(),
            waiting=len(self._waiting),
            held=0,  # it is asked between two batches only
            slots=self._batching.slots,
            oldest_arrived_ns=self._waiting[0].arrived_ns if self._waiting else None,
            is_draining=self._is_draining,
        )

    def _take(self, step: BatchStep) -> None:
        """Hand over the tokens of a step, and account for it."""
        for ticket, token in step.tokens.items():
            self._in_flight.deliver(ticket, token)
        totals = self._totals
        totals.steps += 1
        if step.prompt_tokens:
            totals.prefill_ns += step.duration_ns
        else:
            totals.decode_ns += step.duration_ns
        if self._batching.step_log is not None:
            self._batching.step_log.append(self._record(step))

    def _record(self, step: BatchStep) -> StepRecord:
        is_prefill = step.prompt_tokens > 0
        return StepRecord(
            index=self._totals.steps,
            started_ns=step.started_ns,
            duration_ns=step.duration_ns,
            slots=self._batching.slots,
            running=len(step.tokens),
            padded=step.padded,
            waiting=len(self._waiting),
            kv_blocks_used=None,
            kv_blocks_total=None,
            prefill_sequences=len(step.tokens) + step.padded if is_prefill else 0,
            prefill_tokens=step.prompt_tokens,
            prefill_padding_tokens=step.padding_tokens,
            decode_tokens=0 if is_prefill else len(step.tokens),
            prefill_ns=step.duration_ns if is_prefill else 0,
            decode_ns=0 if is_prefill else step.duration_ns,
        )


def build_engine(
    path: Path, options: HostedOptions, clock: Clock, step_log: LineWriter | None
) -> HuggingFaceStatic:
    """Load the model at `path`, a GGUF file or a Hugging Face folder, and put the engine together.

    Raises ModelFileError when the model cannot be read, UsageError when an option is wrong.
    """
    if options.dtype not in DTYPES:
        msg = f"unknown dtype {options.dtype!r}; choose from {', '.join(DTYPES)}"
        raise UsageError(msg)
    device = _device(options.device)
    torch.set_num_threads(options.cores)
    model = _load(path, DTYPES[options.dtype]).to(device).eval()
    end_ids = _end_ids(model)
    # Greedy means the likeliest token: no penalty that the checkpoint brings along may change it.
    model.generation_config = type(model.generation_config)()
    context = options.context_of(model.config.max_position_embeddings)
    facts = EngineFacts(
        version=f"transformers {transformers.__version__}",
        model=model_name(path),
        model_digest=model_digest(path),
        dtype=str(model.dtype).removeprefix("torch."),
        weights=describe_weights(path),
        context_tokens=context,
        settings={
            "policy": "static",
            "window_ms": None
            if options.batch_window_ns is None
            else ns_to_ms(options.batch_window_ns),
            "slots": options.slots,
            "pad_prompts": True,
            "threads": options.cores,
            "device": device,
            "attention": model.config._attn_implementation,  # noqa: SLF001 - nothing public says it
        },
    )
    limits = RequestLimits(context, None, model.config.vocab_size)
    batching = Batching(make_policy("static", options.batch_window_ns), options.slots, step_log)
    served = Served(load_codec(path), facts, limits)
    return HuggingFaceStatic(model, end_ids, served, batching, clock)


def _device(wanted: str | None) -> str:
    has_cuda = torch.cuda.is_available()
    if wanted not in {None, "cpu", "cuda"} or (wanted == "cuda" and not has_cuda):
        there = "cpu or cuda" if has_cuda else "cpu: torch finds no CUDA device"
        msg = f"device {wanted!r} was asked for; there is {there}"
        raise UsageError(msg)
    return wanted or ("cuda" if has_cuda else "cpu")


def _load(path: Path, dtype: torch.dtype) -> Any:
    """The model with all weights unpacked to `dtype`; nothing is fetched from a hub."""
    options: dict[str, Any] = {"dtype": dtype, "local_files_only": True}
    folder = path
    if not path.is_dir():
        folder = path.parent
        # Newer versions would else compute on the packed weights where a kernel is at hand.
        options |= {"gguf_file": path.name, "quantization_config": GgufConfig(dequantize=True)}
    try:
        return AutoModelForCausalLM.from_pretrained(folder, **options)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        said = str(error).strip().splitlines()[0]
        msg = f"transformers cannot load {path}: {said}; download it again, or use another model"
        raise ModelFileError(msg) from error


def _end_ids(model: Any) -> frozenset[int]:
    ends = model.generation_config.eos_token_id
    if ends is None:
        ends = model.config.eos_token_id
    if ends is None:
        return frozenset()
    return frozenset(ends if isinstance(ends, list) else [ends])
