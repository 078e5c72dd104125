"""The engine: one thread that plans, executes and commits, fed by an event loop.

Requests and cancellations reach the thread through a queue and are taken between steps; the tokens
of a step go back in one call. Only the thread touches the scheduler and the runner.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass

from engines.inhouse.runner import Runner, StepOutput
from engines.scheduling.scheduler import Scheduler
from engines.scheduling.sequence import Sequence
from engines.scheduling.step import StepPlan
from engines.serving.generation import (
    GeneratedToken,
    GenerationRequest,
    RequestRefused,
    TextCodec,
)
from harness.core.clock import Clock
from harness.core.engine import EngineFacts
from harness.core.record import StepRecord
from harness.core.rundir import LineWriter
from harness.core.units import NS_PER_S, ns_to_s


@dataclass(frozen=True, slots=True)
class EngineParts:
    """What an engine is made of. `vocabulary` bounds the token ids of prompts."""

    scheduler: Scheduler
    runner: Runner
    codec: TextCodec
    facts: EngineFacts
    context_tokens: int
    vocabulary: int


@dataclass(frozen=True, slots=True)
class _Arrival:
    sequence_id: int
    request: GenerationRequest
    arrived_ns: int


@dataclass(frozen=True, slots=True)
class _Cancel:
    sequence_id: int


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


_Order = _Arrival | _Cancel | _Stop
_Token = GeneratedToken | RuntimeError


class InhouseEngine:
    """A TokenEngine that batches by the policy of its scheduler."""

    def __init__(self, parts: EngineParts, clock: Clock, step_log: LineWriter | None) -> None:
        self._parts = parts
        self._scheduler = parts.scheduler
        self._runner = parts.runner
        self._clock = clock
        self._step_log = step_log
        self._orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()
        self._inboxes: dict[int, asyncio.Queue[_Token]] = {}
        self._ids = itertools.count(1)
        self._thread = threading.Thread(target=self._work, name="inhouse-engine", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: str | None = None
        self._totals = _Totals()
        self._gauges = self._totals.gauges(self._scheduler)

    @property
    def codec(self) -> TextCodec:
        """The tokenizer of the model."""
        return self._parts.codec

    def facts(self) -> EngineFacts:
        """What the engine is: model, dtype, limits and settings."""
        return self._parts.facts

    def gauges(self) -> Mapping[str, float]:
        """Prometheus sample names to their values after the latest step."""
        gauges = self._gauges
        waiting = gauges["requests_waiting"] + self._orders.qsize()
        return {**gauges, "requests_waiting": waiting}

    def start(self) -> None:
        """Begin to work, on a thread of the engine's own; called with an event loop running."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def stop(self) -> None:
        """End the work after the step in progress; requests in flight fail."""
        if self._thread.is_alive():
            self._orders.put(_Stop())
            await asyncio.to_thread(self._thread.join)
        self._end("the engine was stopped")

    async def generate(self, request: GenerationRequest) -> AsyncIterator[GeneratedToken]:
        """Tokens of the answer as they are made. Closing the iterator cancels the request.

        Raises RequestRefused before the first token when the request can never be served, and
        RuntimeError when the engine has failed or was stopped.
        """
        self._refuse_impossible(request)
        if self._over is not None:
            raise RuntimeError(self._over)
        sequence_id = next(self._ids)
        inbox: asyncio.Queue[_Token] = asyncio.Queue()
        self._inboxes[sequence_id] = inbox
        self._orders.put(_Arrival(sequence_id, request, self._clock.now_ns()))
        is_ended = False
        try:
            while not is_ended:
                token = await inbox.get()
                if isinstance(token, RuntimeError):
                    raise token
                is_ended = token.finish_reason is not None
                yield token
        finally:
            del self._inboxes[sequence_id]
            if not is_ended:
                self._orders.put(_Cancel(sequence_id))

    def _refuse_impossible(self, request: GenerationRequest) -> None:
        prompt, limits = request.prompt_token_ids, self._parts
        if not prompt or request.max_tokens < 1:
            msg = f"prompt of {len(prompt)} tokens, max_tokens {request.max_tokens}: at least 1 each"
            raise RequestRefused(msg)
        for token_id in prompt:
            if not 0 <= token_id < limits.vocabulary:
                msg = f"token id {token_id} is not in 0 to {limits.vocabulary - 1}"
                raise RequestRefused(msg)
        most, reason = limits.context_tokens, "the model's context"
        if self._scheduler.most_tokens + 1 < most:  # the last token needs no room in the cache
            most, reason = self._scheduler.most_tokens + 1, "the KV cache with the token after it"
        if len(prompt) + request.max_tokens > most:
            asked = f"{len(prompt)} prompt tokens and max_tokens {request.max_tokens}"
            msg = f"{asked} are {len(prompt) + request.max_tokens}; {reason} is {most}"
            raise RequestRefused(msg)

    def _work(self) -> None:
        """The worker thread: plan, execute, commit, until told to stop."""
        try:
            plan: StepPlan | None = None
            while self._take_orders(is_idle=plan is None):
                started_ns = self._clock.now_ns()
                plan = self._scheduler.plan(started_ns)
                if plan is None:
                    continue
                output = self._runner.execute(plan)
                ended = self._scheduler.commit(plan, output.result)
                self._account(plan, output, started_ns)
                self._publish(output, ended)
        except Exception as error:  # noqa: BLE001 - whatever it is, no request may wait for ever
            self._call(self._end, f"the engine failed: {type(error).__name__}: {error}")

    def _take_orders(self, *, is_idle: bool) -> bool:
        """Apply what has come in, waiting for something when idle; False when told to stop."""
        for order in self._pending_orders(is_idle=is_idle):
            match order:
                case _Stop():
                    return False
                case _Cancel(sequence_id):
                    self._scheduler.cancel(sequence_id)
                    self._forget_ended()
                case _Arrival(sequence_id, request, arrived_ns):
                    prompt = request.prompt_token_ids
                    self._runner.add(sequence_id, prompt, ignore_eos=request.ignore_eos)
                    self._scheduler.add(
                        Sequence(sequence_id, len(prompt), request.max_tokens, arrived_ns)
                    )
        self._gauges = self._totals.gauges(self._scheduler)
        return True

    def _pending_orders(self, *, is_idle: bool) -> Iterator[_Order]:
        with contextlib.suppress(queue.Empty):
            if is_idle:
                yield self._orders.get(timeout=self._idle_s())
            while True:
                yield self._orders.get_nowait()

    def _idle_s(self) -> float | None:
        now_ns = self._clock.now_ns()
        wake_ns = self._scheduler.wake_ns(now_ns)
        return None if wake_ns is None else max(0, wake_ns - now_ns) / NS_PER_S

    def _account(self, plan: StepPlan, output: StepOutput, started_ns: int) -> None:
        self._forget_ended()
        self._totals.add(plan, output)
        self._gauges = self._totals.gauges(self._scheduler)
        if self._step_log is not None:
            duration_ns = self._clock.now_ns() - started_ns
            self._step_log.append(_step_record(plan, output, started_ns, duration_ns))

    def _forget_ended(self) -> None:
        """Drop the tokens of sequences that neither wait nor hold a slot."""
        ...

    def _publish(self, output: StepOutput, ended: tuple[int, ...]) -> None:
        tokens = {}
        for sequence_id, token_id in output.token_ids.items():
            reason = None
            if sequence_id in ended:
                reason = "stop" if sequence_id in output.result.stopped else "length"
            tokens[sequence_id] = GeneratedToken(token_id, reason)
        self._call(self._deliver, tokens)
