"""The thread that does the work: plan, execute, commit.

Only this thread touches the scheduler and the runner. Orders reach it through a queue and are taken
between steps, so nothing changes under a plan that is being executed.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from engines.inhouse.accounting import Totals, gauges
from engines.inhouse.runner import Runner, StepOutput
from engines.scheduling.scheduler import Scheduler
from engines.scheduling.sequence import Sequence
from engines.scheduling.step import StepPlan
from engines.serving.generation import GeneratedToken, GenerationRequest
from engines.step_log import StepTimes, step_record
from harness.core.clock import Clock
from harness.core.rundir import LineWriter
from harness.core.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class Arrival:
    """Begin a sequence for `request`."""

    sequence_id: int
    request: GenerationRequest
    arrived_ns: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a sequence whose caller has gone; unknown and ended ones are left alone."""

    sequence_id: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Take no further step."""


Order = Arrival | Cancel | Stop
Tokens = Mapping[int, GeneratedToken]


@dataclass(frozen=True, slots=True)
class Reports:
    """Whom the thread tells: `made` the tokens of each step, and once `failed` why it has ended.

    Both are called on the worker's thread.
    """

    made: Callable[[Tokens], None]
    failed: Callable[[str], None]


class Worker:
    """Executes the plans of `scheduler` on `runner` until told to stop."""

    def __init__(
        self, scheduler: Scheduler, runner: Runner, clock: Clock, step_log: LineWriter | None
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._clock = clock
        self._step_log = step_log
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._over: set[int] = set()
        self._totals = Totals()
        self._gauges = gauges(self._totals, scheduler)
        self._thread: threading.Thread | None = None

    def start(self, reports: Reports) -> None:
        """Begin to take orders, on a thread of its own."""
        self._thread = threading.Thread(
            target=self._work, args=(reports,), name="inhouse-worker", daemon=True
        )
        self._thread.start()

    def order(self, order: Order) -> None:
        """Have `order` carried out before the next step; from any thread, returns at once."""
        self._orders.put(order)

    def stop(self) -> None:
        """End the thread after the step in progress, and wait for that."""
        self._orders.put(Stop())
        if self._thread is not None:
            self._thread.join()

    def gauges(self) -> Mapping[str, float]:
        """Sample names to values after the latest step; orders not yet taken count as waiting."""
        latest = self._gauges
        return {**latest, "requests_waiting": latest["requests_waiting"] + self._orders.qsize()}

    def _work(self, reports: Reports) -> None:
        plan: StepPlan | None = None
        try:
            while self._take_orders(is_idle=plan is None):
                started_ns = self._clock.now_ns()
                plan = self._scheduler.plan(started_ns)
                if plan is None:
                    continue
                output = self._runner.execute(plan)
                ended = self._scheduler.commit(plan, output.result)
                reports.made(_tokens(output, ended))
                self._account(plan, output, len(ended), started_ns)
                self._forget(ended)
        except Exception as error:  # noqa: BLE001 - whatever it is, no request may wait for ever
            reports.failed(f"the engine failed: {type(error).__name__}: {error}")

    def _take_orders(self, *, is_idle: bool) -> bool:
        """Carry out what has come in, waiting for something when idle; False when told to stop."""
        for order in self._pending_orders(is_idle=is_idle):
            match order:
                case Stop():
                    return False
                case Cancel(sequence_id):
                    self._scheduler.cancel(sequence_id)
                    self._forget((sequence_id,))
                case Arrival(sequence_id, request, arrived_ns):
                    prompt = request.prompt_token_ids
                    self._runner.add(sequence_id, prompt, ignore_eos=request.ignore_eos)
                    sequence = Sequence(sequence_id, len(prompt), request.max_tokens, arrived_ns)
                    self._scheduler.add(sequence)
            self._gauges = gauges(self._totals, self._scheduler)
        return True

    def _pending_orders(self, *, is_idle: bool) -> Iterator[Order]:
        with contextlib.suppress(queue.Empty):
            if is_idle:
                yield self._orders.get(timeout=self._idle_s())
            while True:
                yield self._orders.get_nowait()

    def _idle_s(self) -> float | None:
        """How long only an order can bring work; None for as long as it takes."""
        now_ns = self._clock.now_ns()
        wake_ns = self._scheduler.wake_ns(now_ns)
        return None if wake_ns is None else max(0, wake_ns - now_ns) / NS_PER_S

    def _account(self, plan: StepPlan, output: StepOutput, ended: int, started_ns: int) -> None:
        duration_ns = self._clock.now_ns() - started_ns
        self._totals.add(plan, output, ended)
        self._gauges = gauges(self._totals, self._scheduler)
        if self._step_log is not None:
            times = StepTimes(started_ns, duration_ns, output.prefill_ns, output.decode_ns)
            self._step_log.append(step_record(plan, times))

    def _forget(self, ended: tuple[int, ...]) -> None:
        """Drop the tokens of what is over, once it is no longer computed as padding either."""
        self._over.update(ended)
        held = {sequence.id for sequence in self._scheduler.held}
        for sequence_id in self._over - held:
            self._runner.forget(sequence_id)
        self._over &= held


def _tokens(output: StepOutput, ended: tuple[int, ...]) -> Tokens:
    tokens = {}
    for sequence_id, token_id in output.token_ids.items():
        reason = None
        if sequence_id in ended:
            reason = "stop" if sequence_id in output.result.stopped else "length"
        tokens[sequence_id] = GeneratedToken(token_id, reason)
    return tokens
