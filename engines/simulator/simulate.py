"""The scheduler in virtual time: what a policy would do on an engine of known cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engines.scheduling.policies import Policy
from engines.scheduling.scheduler import Limits, Scheduler
from engines.scheduling.sequence import Sequence
from engines.scheduling.step import StepPlan, StepResult
from engines.simulator.cost_model import CostModel
from engines.step_log import StepTimes, step_record
from harness.core.record import StepRecord


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """A request of the simulation: its lengths in tokens, and when it arrives."""

    label: str
    prompt_tokens: int
    output_tokens: int
    due_ns: int = 0


@dataclass(slots=True)
class Trace:
    """What happened to one request; instants are virtual ns, None when it had not happened yet.

    `token_ns` holds the instant of each of its tokens.
    """

    request: SimulatedRequest
    admitted_ns: int | None = None
    token_ns: list[int] | None = None
    completed_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Simulation:
    """The outcome: a trace per request that arrived, a record per step, and the virtual end."""

    traces: tuple[Trace, ...]
    steps: tuple[StepRecord, ...]
    ended_ns: int

    @property
    def tokens(self) -> int:
        """Tokens of answers that came out."""
        return sum(len(t.token_ns or ()) for t in self.traces)

    @property
    def started(self) -> int:
        """Requests that were admitted."""
        return sum(t.admitted_ns is not None for t in self.traces)

    @property
    def completed(self) -> int:
        """Requests whose answer is whole."""
        return sum(t.completed_ns is not None for t in self.traces)


def repeat_forever(mix: tuple[SimulatedRequest, ...]) -> Iterator[SimulatedRequest]:
    """A backlog that never runs empty: `mix` over and over, all due at 0."""
    while True:
        yield from mix


def simulate(
    requests: Iterable[SimulatedRequest],
    policy: Policy,
    limits: Limits,
    cost_model: CostModel,
    window_ns: int | None = None,
) -> Simulation:
    """Run `requests`, given in order of arrival, through `policy` in virtual time.

    Ends when all have ended, or at `window_ns`: steps that would end after it are not counted, but
    what they admitted has started. `requests` may be endless when there is a window.
    """
    run = _Run(requests, Scheduler(policy, limits), is_endless=window_ns is not None)
    now_ns = 0
    steps: list[StepRecord] = []
    while window_ns is None or now_ns < window_ns:
        run.receive(now_ns)
        plan = run.scheduler.plan(now_ns)
        if plan is None:
            wake_ns = run.next_event_ns(now_ns)
            if wake_ns is None:
                break
            now_ns = max(wake_ns, now_ns)
            continue
        run.note_admitted(plan, now_ns)
        step_ns = cost_model.step_ns(plan)
        if window_ns is not None and now_ns + step_ns > window_ns:
            now_ns = window_ns
            break
        prefill_ns = cost_model.prefill_ns(plan)
        times = StepTimes(now_ns, step_ns, prefill_ns, step_ns - prefill_ns)
        steps.append(step_record(plan, times))
        now_ns += step_ns
        run.note_produced(plan, now_ns)
        for sequence_id in run.scheduler.commit(plan, StepResult()):
            run.traces[sequence_id].completed_ns = now_ns
    return Simulation(tuple(run.traces), tuple(steps), now_ns)


class _Run:
    """Feeds arrivals to a scheduler; of an endless backlog, a batch and one more at a time."""

    def __init__(
        self, requests: Iterable[SimulatedRequest], scheduler: Scheduler, *, is_endless: bool
    ) -> None:
        self.scheduler = scheduler
        self._most_waiting = scheduler.limits.slots + 1 if is_endless else None
        self.traces: list[Trace] = []
        self._source = iter(requests)
        self._next = deque(_take_one(self._source))

    def receive(self, now_ns: int) -> None:
        """Hand over what is due."""
        while self._next and self._next[0].due_ns <= now_ns:
            if self.scheduler.waiting == self._most_waiting:
                return
            request = self._next.popleft()
            sequence = Sequence(
                len(self.traces), request.prompt_tokens, request.output_tokens, request.due_ns
            )
            self.scheduler.add(sequence)
            self.traces.append(Trace(request, token_ns=[]))
            self._next.extend(_take_one(self._source))
        self.scheduler.is_draining = not self._next

    def next_event_ns(self, now_ns: int) -> int | None:
        """When something happens though no step runs: an arrival, or the end of a window."""
        instants = [self.scheduler.wake_ns(now_ns), self._next[0].due_ns if self._next else None]
        return min((i for i in instants if i is not None), default=None)

    def note_admitted(self, plan: StepPlan, now_ns: int) -> None:
        for prefill in plan.prefills:
            self.traces[prefill.sequence_id].admitted_ns = now_ns

    def note_produced(self, plan: StepPlan, now_ns: int) -> None:
        produced = [p.sequence_id for p in plan.prefills]
        produced += [d.sequence_id for d in plan.decodes if not d.is_padding]
        for sequence_id in produced:
            tokens = self.traces[sequence_id].token_ns
            if tokens is not None:
                tokens.append(now_ns)


def _take_one(source: Iterator[SimulatedRequest]) -> list[SimulatedRequest]:
    request = next(source, None)
    return [] if request is None else [request]
