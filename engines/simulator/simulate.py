"""The scheduler in virtual time: what a policy would do on an engine of known cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from engines.scheduling.policies import Policy
from engines.scheduling.scheduler import Limits, Scheduler
from engines.scheduling.sequence import Sequence
from engines.scheduling.step import StepPlan, StepResult
from engines.simulator.cost_model import CostModel
from engines.step_log import StepTimes, step_record
from harness.core.record import StepRecord
from harness.core.units import NS_PER_MS

# A client that has read the end of an answer needs about so long to have its next request at the
# engine. By then the step that follows that end has begun, so the request joins the one after it.
TURNAROUND_NS = NS_PER_MS


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """A request of the simulation: its lengths in tokens, and when it arrives.

    `block_keys` are as in Sequence: what the prefix cache, where there is one, knows it by.
    """

    label: str
    prompt_tokens: int
    output_tokens: int
    due_ns: int = 0
    block_keys: tuple[bytes, ...] = ()


@dataclass(slots=True)
class Trace:
    """What happened to one request; instants are virtual ns, None when it had not happened yet.

    `token_ns` holds the instant of each of its tokens. `admitted_ns` is when it first started:
    `preemptions` times it had to start again.
    """

    request: SimulatedRequest
    admitted_ns: int | None = None
    token_ns: list[int] | None = None
    completed_ns: int | None = None
    preemptions: int = 0


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

    @property
    def preemptions(self) -> int:
        """How often a request lost its blocks to another and had to be read again."""
        return sum(t.preemptions for t in self.traces)


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
    in_flight_most: int | None = None,
) -> Simulation:
    """Run `requests`, given in order of arrival, through `policy` in virtual time.

    Ends when all have ended, or at `window_ns`: steps that would end after it are not counted, but
    what they admitted has started. `requests` may be endless when there is a window. With
    `in_flight_most` the loop is closed: whatever they say, so many requests are due at 0, and the
    next one `TURNAROUND_NS` after one has ended.
    """
    scheduler = Scheduler(policy, limits)
    run = _Run(requests, scheduler, in_flight_most, is_endless=window_ns is not None)
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
        run.note_planned(plan, now_ns)
        step_ns = cost_model.step_ns(plan)
        if window_ns is not None and now_ns + step_ns > window_ns:
            now_ns = window_ns
            break
        prefill_ns = cost_model.prefill_ns(plan)
        times = StepTimes(now_ns, step_ns, prefill_ns, cost_model.decode_ns(plan))
        steps.append(step_record(plan, times))
        now_ns += step_ns
        run.note_produced(plan, now_ns)
        for sequence_id in run.scheduler.commit(plan, StepResult()):
            run.note_ended(sequence_id, now_ns)
    return Simulation(tuple(run.traces), tuple(steps), now_ns)


class _Run:
    """Feeds arrivals to a scheduler; of an endless backlog, a batch and one more at a time."""

    def __init__(
        self,
        requests: Iterable[SimulatedRequest],
        scheduler: Scheduler,
        in_flight_most: int | None,
        *,
        is_endless: bool,
    ) -> None:
        self.scheduler = scheduler
        self._most_waiting = scheduler.limits.slots + 1 if is_endless else None
        self.traces: list[Trace] = []
        self._source = iter(requests)
        self._following = _take_one(self._source)
        self._is_closed = in_flight_most is not None
        self._next: deque[SimulatedRequest] = deque()
        for _ in range(in_flight_most or 1):
            self._next.extend(self._take_following(due_ns=0))

    def receive(self, now_ns: int) -> None:
        """Hand over what is due."""
        while self._next and self._next[0].due_ns <= now_ns:
            if self._most_waiting is not None and self.scheduler.waiting >= self._most_waiting:
                return
            request = self._next.popleft()
            self.scheduler.add(
                Sequence(
                    len(self.traces),
                    request.prompt_tokens,
                    request.output_tokens,
                    request.due_ns,
                    request.block_keys,
                )
            )
            self.traces.append(Trace(request, token_ns=[]))
            if not self._is_closed:
                self._next.extend(self._take_following())
        self.scheduler.is_draining = not self._next and not self._following

    def next_event_ns(self, now_ns: int) -> int | None:
        """When something happens though no step runs: an arrival, or the end of a window."""
        instants = [self.scheduler.wake_ns(now_ns), self._next[0].due_ns if self._next else None]
        return min((i for i in instants if i is not None), default=None)

    def note_planned(self, plan: StepPlan, now_ns: int) -> None:
        """Who starts with `plan`, and who gives way to it."""
        for prefill in plan.prefills:
            trace = self.traces[prefill.sequence_id]
            if trace.admitted_ns is None:
                trace.admitted_ns = now_ns
        for sequence_id in plan.preempted:
            self.traces[sequence_id].preemptions += 1

    def note_produced(self, plan: StepPlan, now_ns: int) -> None:
        """Whom an executed `plan` gave a token."""
        for sequence_id in plan.producing:
            tokens = self.traces[sequence_id].token_ns
            if tokens is not None:
                tokens.append(now_ns)

    def note_ended(self, sequence_id: int, now_ns: int) -> None:
        """An answer is whole; in a closed loop its place is taken by the next request."""
        self.traces[sequence_id].completed_ns = now_ns
        if self._is_closed:
            self._next.extend(self._take_following(due_ns=now_ns + TURNAROUND_NS))

    def _take_following(self, due_ns: int = 0) -> list[SimulatedRequest]:
        """The next request of the source, if there is one; in a closed loop due at `due_ns`."""
        taken, self._following = self._following, _take_one(self._source)
        return [replace(request, due_ns=due_ns) for request in taken] if self._is_closed else taken


def _take_one(source: Iterator[SimulatedRequest]) -> list[SimulatedRequest]:
    request = next(source, None)
    return [] if request is None else [request]
