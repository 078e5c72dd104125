"""The scheduler in virtual time: what a policy would do on an engine of known cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from engines.scheduling.policies import Policy
from engines.scheduling.scheduler import Limits, Scheduler
from engines.scheduling.sequence import Sequence
from engines.scheduling.step import StepPlan, StepResult
from engines.simulator.cost_model import CostModel
from engines.step_log import StepTimes, step_record
from harness.core.record import StepRecord
from harness.core.turns import LaterTurns
from harness.core.units import NS_PER_MS
from harness.core.workload import After

# A client that has read the end of an answer needs about so long to have its next request at the
# engine. By then the step that follows that end has begun, so the request joins the one after it.
TURNAROUND_NS = NS_PER_MS


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """A request of the simulation: its lengths in tokens, and when it arrives.

    With `after`, whose index counts the requests as they are given, it arrives at `due_ns` at the
    earliest, and not before `after` allows it. `block_keys` are as in Sequence: what the prefix
    cache, where there is one, knows it by.
    """

    label: str
    prompt_tokens: int
    output_tokens: int
    due_ns: int = 0
    block_keys: tuple[bytes, ...] = ()
    after: After | None = None


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
    what they admitted has started. `requests` may be endless when there is a window; then none may
    wait for another. With `in_flight_most` the loop is closed: whatever they say, so many requests
    are due at 0, and the next one `TURNAROUND_NS` after one has ended; a later turn that is due
    goes before those that wait for no other. The client counts a delay from that instant too.
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
    """Feeds arrivals to a scheduler; of an endless backlog, a batch and one more at a time.

    `_next` holds the requests that are known to arrive, and when. In an open loop these are one
    that waits for no other, and the later turns whose waiting is over; in a closed one, those that
    have a slot, of which `_free` are left.
    """

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
        self._indices: list[int] = []
        self._later = LaterTurns()
        self._waiting: dict[int, SimulatedRequest] = {}
        numbered = enumerate(requests)
        self._source = iter(numbered if is_endless else self._without_later_turns(numbered))
        self._following = next(self._source, None)
        self._next: list[tuple[int, int, SimulatedRequest]] = []
        self._free = in_flight_most
        if self._free is None:
            self._take_following()
        else:
            self._fill_slots(0)

    def receive(self, now_ns: int) -> None:
        """Hand over what is due."""
        while self._next and self._next[0][0] <= now_ns:
            if self._most_waiting is not None and self.scheduler.waiting >= self._most_waiting:
                return
            _, index, request = heappop(self._next)
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
            self._indices.append(index)
            if self._free is None and request.after is None:
                self._take_following()
        self.scheduler.is_draining = not (self._next or self._following or self._later)

    def next_event_ns(self, now_ns: int) -> int | None:
        """When something happens though no step runs: an arrival, or the end of a window."""
        instants = [self.scheduler.wake_ns(now_ns), self._next[0][0] if self._next else None]
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
        """An answer is whole: what waited for it arrives, and in a closed loop its slot is free."""
        self.traces[sequence_id].completed_ns = now_ns
        at_ns = now_ns + TURNAROUND_NS
        self._later.release(self._indices[sequence_id], at_ns)
        if self._free is not None:
            self._free += 1
            self._fill_slots(at_ns)
            return
        while self._later.next_ns is not None:
            self._take_later(at_ns)

    def _without_later_turns(
        self, numbered: Iterable[tuple[int, SimulatedRequest]]
    ) -> Iterable[tuple[int, SimulatedRequest]]:
        """Those that wait for no other; the others are kept until their waiting is over."""
        firsts = []
        for index, request in numbered:
            if request.after is None:
                firsts.append((index, request))
            else:
                self._waiting[index] = request
                self._later.hold(index, request.due_ns, request.after)
        return firsts

    def _fill_slots(self, at_ns: int) -> None:
        """Give each free slot to a later turn that is due at `at_ns`, or to the next of the source.

        When the source is empty, it waits for the later turn that is due first.
        """
        while self._free:
            later_ns = self._later.next_ns
            if later_ns is not None and (later_ns <= at_ns or self._following is None):
                self._take_later(at_ns)
            elif self._following is not None:
                self._take_following(at_ns)
            else:
                return
            self._free -= 1

    def _take_later(self, least_ns: int) -> None:
        index, due_ns = self._later.pop()
        self._let_arrive(index, self._waiting.pop(index), max(due_ns, least_ns))

    def _take_following(self, due_ns: int | None = None) -> None:
        """The next of the source, if there is one, arrives at `due_ns`, or else when it says."""
        if self._following is not None:
            index, request = self._following
            self._following = next(self._source, None)
            self._let_arrive(index, request, request.due_ns if due_ns is None else due_ns)

    def _let_arrive(self, index: int, request: SimulatedRequest, due_ns: int) -> None:
        heappush(self._next, (due_ns, index, replace(request, due_ns=due_ns)))
