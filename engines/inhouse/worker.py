"""The thread that does the work: plan, execute, commit.

Only this thread touches the scheduler and the runner. Orders reach it through a queue and are taken
between steps, so nothing changes under a plan that is being executed. Between two steps it does
only what the next one needs: text, HTTP, counting and the step log are the event loop's, which has
time for them while the model computes.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from engines.inhouse.accounting import DoneStep, standing_of
from engines.inhouse.runner import Runner
from engines.scheduling.limits import Limits
from engines.scheduling.scheduler import Scheduler
from engines.scheduling.sequence import Sequence
from engines.scheduling.step import StepPlan
from engines.serving.generation import GenerationRequest
from harness.core.clock import Clock
from harness.core.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class Arrival:
    """Begin a sequence for `request`; `block_keys` name the full blocks of its prompt."""

    sequence_id: int
    request: GenerationRequest
    arrived_ns: int
    block_keys: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a sequence whose caller has gone; unknown and ended ones are left alone."""

    sequence_id: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Let no sequence wait for others to come."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Take no further step."""


Order = Arrival | Cancel | Drain | Stop


@dataclass(frozen=True, slots=True)
class News:
    """What is told right before a step: the step before, and what was planned at `planned_ns`.

    Either may be None: nothing came before without a pause, or nothing is to be done now.
    """

    done: DoneStep | None
    plan: StepPlan | None
    planned_ns: int


@dataclass(frozen=True, slots=True)
class Reports:
    """Whom the thread tells: `stepped` before each step, and once `failed` why it has ended.

    Both are called on the worker's thread.
    """

    stepped: Callable[[News], None]
    failed: Callable[[str], None]


class Worker:
    """Executes the plans of `scheduler` on `runner` until told to stop.

    `standing` is how the scheduler stands in the step that is being executed, or since the last.
    """

    def __init__(self, scheduler: Scheduler, runner: Runner, clock: Clock) -> None:
        self.standing = standing_of(scheduler)
        self._scheduler = scheduler
        self._runner = runner
        self._clock = clock
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._over: set[int] = set()
        self._thread: threading.Thread | None = None

    @property
    def limits(self) -> Limits:
        """What bounds a step."""
        return self._scheduler.limits

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

    def _work(self, reports: Reports) -> None:
        done: DoneStep | None = None
        try:
            while self._take_orders(is_idle=done is None):
                done = self._step(done, reports)
            self.standing = standing_of(self._scheduler)
            reports.stepped(News(done, None, self._clock.now_ns()))
        except Exception as error:  # noqa: BLE001 - whatever it is, no request may wait for ever
            reports.failed(f"the engine failed: {type(error).__name__}: {error}")

    def _step(self, before: DoneStep | None, reports: Reports) -> DoneStep | None:
        """Execute the next step, which is what comes back; None when nothing is to be done now.

        The step before is told of only here, with the model about to compute: told of any earlier,
        the event loop would take the interpreter while this thread still needs it.
        """
        planned_ns = self._clock.now_ns()
        plan = self._scheduler.plan(planned_ns)
        self.standing = standing_of(self._scheduler)
        if before is not None or plan is not None:
            reports.stepped(News(before, plan, planned_ns))
        if plan is None:
            return None
        output = self._runner.execute(plan)
        ended = self._scheduler.commit(plan, output.result)
        self._forget(ended)
        started_ns = planned_ns if before is None else before.ended_ns
        return DoneStep(plan, output, frozenset(ended), started_ns, self._clock.now_ns())

    def _take_orders(self, *, is_idle: bool) -> bool:
        """Carry out what has come in, waiting for something when idle; False when told to stop."""
        while is_idle or not self._orders.empty():
            try:
                order = self._orders.get(timeout=self._idle_s() if is_idle else None)
            except queue.Empty:
                break
            if isinstance(order, Stop):
                return False
            self._carry_out(order)
            is_idle = False
        return True

    def _carry_out(self, order: Order) -> None:
        match order:
            case Drain():
                self._scheduler.is_draining = True
            case Cancel(sequence_id):
                self._scheduler.cancel(sequence_id)
                self._forget((sequence_id,))
            case Arrival():
                self._begin(order)

    def _begin(self, arrival: Arrival) -> None:
        request = arrival.request
        prompt = request.prompt_token_ids
        self._runner.add(arrival.sequence_id, prompt, ignore_eos=request.ignore_eos)
        self._scheduler.add(
            Sequence(
                arrival.sequence_id,
                len(prompt),
                request.max_tokens,
                arrival.arrived_ns,
                arrival.block_keys,
            )
        )

    def _idle_s(self) -> float | None:
        """How long only an order can bring work; None for as long as it takes."""
        now_ns = self._clock.now_ns()
        wake_ns = self._scheduler.wake_ns(now_ns)
        return None if wake_ns is None else max(0, wake_ns - now_ns) / NS_PER_S

    def _forget(self, ended: tuple[int, ...]) -> None:
        """Drop the tokens of what is over, once it is no longer computed as padding either.

        A preempted sequence is not over: its tokens are read again when it gets a slot.
        """
        self._over.update(ended)
        if not self._over:
            return
        held = {sequence.id for sequence in self._scheduler.held}
        for sequence_id in self._over - held:
            self._runner.forget(sequence_id)
        self._over &= held
