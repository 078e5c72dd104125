"""The scheduler against a slow one, which keeps nothing between steps that it can count again.

The slow one is written from the rules of engines/scheduling/DESIGN.md alone: one line of people in
order of arrival, and cells of memory that are looked at one by one. It knows no prefix cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import settings as run_with
from hypothesis import strategies as st

from engines.scheduling.limits import CAPACITIES, KV_LAYOUTS, ORDERS, Limits
from engines.scheduling.policies import POLICY_NAMES, make_policy
from engines.scheduling.scheduler import Scheduler
from engines.scheduling.sequence import Sequence
from engines.scheduling.step import StepResult

WINDOW_NS = 3
FOUND_NS = 10_000


@dataclass
class Person:
    """A request: W(aits), R(eads), D(ecodes), P(ads the batch)."""

    id: int
    prompt: int
    answer: int
    arrived_ns: int
    made: int = 0
    stored: int = 0
    state: str = "W"
    cells: list[int] = field(default_factory=list)


@dataclass
class Slow:
    """One line of people: those in front hold a slot."""

    policy: str
    limits: Limits
    line: list[Person] = field(default_factory=list)

    def step(self, now_ns: int, *, is_draining: bool) -> tuple[object, ...]:
        """Plan and carry out a step; what it did, and how memory stood."""
        self.prefills: list[tuple[int, int, int, int]] = []
        self.decodes: list[tuple[int, int, bool]] = []
        self.preempted: list[int] = []
        begins = self.begins(now_ns, is_draining)
        if self.limits.order == "decode_first":
            self.decode()
        self.read(begins)
        if self.limits.order == "prefill_first" and not self.prefills:
            self.decode()
        used = sum(len(p.cells) for p in self.line)
        seen = (self.prefills, self.decodes, self.preempted, len(self.of("W")), used)
        self.carry_out()
        return seen

    def of(self, states: str) -> list[Person]:
        return [p for p in self.line if p.state in states]

    def begins(self, now_ns: int, is_draining: bool) -> int:
        """How many may begin, whatever the memory and the budget say."""
        waiting, held = self.of("W"), self.of("RDP")
        if self.policy == "continuous":
            return self.limits.slots  # in `read`, slots are counted again
        is_due = (
            self.policy == "dynamic" and waiting and now_ns >= waiting[0].arrived_ns + WINDOW_NS
        )
        is_full = len(waiting) >= self.limits.slots
        return self.limits.slots if not held and (is_due or is_full or is_draining) else 0

    def decode(self) -> None:
        for person in self.of("DP"):
            if person.state == "P":
                self.decodes.append((person.id, person.stored - 1, True))
            elif person.state == "D" and self.room(person, person.stored + 1):
                self.decodes.append((person.id, person.stored, False))

    def read(self, begins: int) -> None:
        is_batch = self.policy != "continuous"
        if is_batch and begins:
            for person in self.of("W")[: self.limits.slots]:
                if not self.enters(person):
                    break
        for person in self.of("R"):
            if not self.read_some(person):
                return
        while begins and not is_batch and not self.preempted and self.of("W"):
            person = self.of("W")[0]
            is_held = len(self.of("RDP")) < self.limits.slots
            if not is_held or not self.share(person)[0] or not self.enters(person):
                return
            self.read_some(person)

    def enters(self, person: Person) -> bool:
        """Does memory let the first of those who wait begin?"""
        at_end = self.cells_for(person.prompt + person.answer - 1)
        if self.limits.kv == "reserved":
            runs = [range(i, i + at_end) for i in range(self.limits.kv_blocks - at_end + 1)]
            run = next((run for run in runs if set(run) <= set(self.free())), None)
            person.cells = list(run or [])
        elif self.policy != "continuous" or self.limits.capacity == "guaranteed_no_evict":
            everyone = [*self.of("RDP"), person]
            ends = [max(self.cells_for(p.prompt + p.answer - 1), len(p.cells)) for p in everyone]
            run = sum(ends) <= self.limits.kv_blocks
        else:
            run = self.cells_for(person.prompt + person.made) <= len(self.free())
        person.state = "R" if run else "W"
        return bool(run)

    def read_some(self, person: Person) -> bool:
        tokens, padding = self.share(person)
        if not tokens or not self.room(person, person.stored + tokens):
            return False
        self.prefills.append((person.id, person.stored, tokens, padding))
        return True

    def share(self, person: Person) -> tuple[int, int]:
        """What the budget leaves to `person`: tokens to read, and padding behind them."""
        unread = person.prompt + person.made - person.stored
        padding = 0
        if self.limits.pad_prompts and self.policy != "continuous":
            padding = max(p.prompt for p in self.of("RDP")) - person.prompt
        if self.limits.step_tokens is None:
            return unread, padding
        spent = sum(p[2] + p[3] for p in self.prefills) + len(self.decodes)
        left = self.limits.step_tokens - spent
        if self.limits.chunked_prefill:
            tokens = min(unread, left)
            return tokens, min(padding, left - unread) if tokens == unread else 0
        return (unread, padding) if unread + padding <= left or not self.prefills else (0, 0)

    def room(self, person: Person, tokens: int) -> bool:
        while len(person.cells) < self.cells_for(tokens):
            if self.free():
                person.cells.append(self.free()[0])
                continue
            last = self.of("RD")[-1]
            last.state, last.stored, last.cells = "W", 0, []
            self.preempted.append(last.id)
            if last is person:
                return False
        return True

    def free(self) -> list[int]:
        owned = {cell for p in self.line for cell in p.cells}
        return [cell for cell in range(self.limits.kv_blocks) if cell not in owned]

    def cells_for(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_tokens)

    def carry_out(self) -> None:
        by_id = {p.id: p for p in self.line}
        for person_id, first, tokens, _ in self.prefills:
            person = by_id[person_id]
            person.stored = first + tokens
            if person.stored == person.prompt + person.made:
                person.made, person.state = person.made + 1, "D"
        for person_id, position, is_padding in self.decodes:
            if not is_padding:
                by_id[person_id].stored = position + 1
                by_id[person_id].made += 1
        for person in self.line:
            if person.made == person.answer:
                person.state = "P"
        if self.policy == "continuous" or not self.of("RD"):
            self.line = self.of("WRD")


@st.composite
def scheduler_settings(draw: st.DrawFn) -> Limits:
    kv = draw(st.sampled_from(KV_LAYOUTS))
    slots = draw(st.integers(1, 4))
    step_tokens = draw(st.none() | st.integers(slots, 20))
    return Limits(
        slots,
        kv_blocks=9,
        block_tokens=3,
        pad_prompts=draw(st.booleans()),
        kv=kv,
        capacity=draw(st.sampled_from(CAPACITIES)) if kv == "paged" else "guaranteed_no_evict",
        step_tokens=step_tokens,
        chunked_prefill=step_tokens is not None and draw(st.booleans()),
        order=draw(st.sampled_from(ORDERS)),
    )


requests = st.lists(
    st.tuples(st.integers(1, 15), st.integers(1, 12), st.integers(0, 8)), min_size=1, max_size=10
)


@run_with(max_examples=300)
@given(scheduler_settings(), st.sampled_from(POLICY_NAMES), requests)
def test_every_step_is_the_one_that_a_slow_scheduler_takes(
    limits: Limits, policy: str, rows: list[tuple[int, int, int]]
) -> None:
    window_ns = WINDOW_NS if policy == "dynamic" else None
    fast, slow = Scheduler(make_policy(policy, window_ns), limits), Slow(policy, limits)
    pending = sorted(enumerate(rows), key=lambda row: row[1][2])
    for now_ns in range(FOUND_NS):
        while pending and pending[0][1][2] <= now_ns:
            index, (prompt, answer, arrived_ns) = pending.pop(0)
            fast.add(Sequence(index, prompt, answer, arrived_ns))
            slow.line.append(Person(index, prompt, answer, arrived_ns))
        fast.is_draining = not pending
        if fast.is_draining and not fast.has_work:
            break
        plan = fast.plan(now_ns)
        expected = slow.step(now_ns, is_draining=fast.is_draining)
        if plan is None:
            assert expected[:3] == ([], [], [])
            continue
        seen = (
            [(p.sequence_id, p.first, p.tokens, p.padding_tokens) for p in plan.prefills],
            [(d.sequence_id, d.position, d.is_padding) for d in plan.decodes],
            list(plan.preempted),
            plan.waiting,
            plan.kv.used,
        )
        assert seen == expected
        fast.commit(plan, StepResult())

    assert not slow.line
