"""Random workloads under every setting: what must hold whatever arrives, ends and is cancelled.

Plans are carried out on a cache of token ids, so that a block that is shared, moved or written
wrongly shows as a wrong token.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engines.scheduling.limits import CAPACITIES, KV_LAYOUTS, ORDERS, Limits
from engines.scheduling.policies import POLICY_NAMES, make_policy
from engines.scheduling.scheduler import Scheduler
from engines.scheduling.sequence import Sequence, SequenceState
from engines.scheduling.step import StepPlan, StepResult

BLOCK_TOKENS = 4
KV_BLOCKS = 12


@st.composite
def settings(draw: st.DrawFn) -> Limits:
    """Any settings that do not contradict each other."""
    kv = draw(st.sampled_from(KV_LAYOUTS))
    slots = draw(st.integers(1, 5))
    step_tokens = draw(st.none() | st.integers(slots, 24))
    return Limits(
        slots,
        KV_BLOCKS,
        BLOCK_TOKENS,
        pad_prompts=draw(st.booleans()),
        kv=kv,
        capacity=draw(st.sampled_from(CAPACITIES)) if kv == "paged" else "guaranteed_no_evict",
        step_tokens=step_tokens,
        chunked_prefill=step_tokens is not None and draw(st.booleans()),
        order=draw(st.sampled_from(ORDERS)),
        prefix_cache=kv == "paged" and draw(st.booleans()),
    )


rows = st.lists(
    st.tuples(  # prompt, answer, arrival, and which of three texts the prompt begins like
        st.integers(1, 30), st.integers(1, 15), st.integers(0, 10), st.integers(0, 2)
    ),
    min_size=1,
    max_size=16,
)
Row = tuple[int, int, int, int]


def text_of(row: Row) -> list[int]:
    """The tokens of a prompt; prompts of one text are alike up to the shorter one's end."""
    return [1000 * row[3] + i for i in range(row[0])]


def sequence_of(index: int, row: Row) -> Sequence:
    text = text_of(row)
    ends = range(BLOCK_TOKENS, len(text) + 1, BLOCK_TOKENS)
    keys = tuple(repr(text[:end]).encode() for end in ends)
    return Sequence(index, row[0], row[1], row[2], keys)


@dataclass
class World:
    """A scheduler, the tokens of all sequences, and a cache of token ids."""

    limits: Limits
    policy: str
    rows: list[Row]
    rng: random.Random
    cancels: bool = True
    plans: list[StepPlan] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    stopped: set[int] = field(default_factory=set)
    cancelled: set[int] = field(default_factory=set)

    def run(self) -> None:
        self.scheduler = Scheduler(make_policy(self.policy), self.limits)
        self.sequences = [sequence_of(i, row) for i, row in enumerate(self.rows)]
        self.tokens = [text_of(row) for row in self.rows]
        self.cache: dict[tuple[int, int], int] = {}
        pending = sorted(self.sequences, key=lambda s: s.arrived_ns)
        self.order = [s.id for s in pending]
        for now_ns in range(3000):
            while pending and pending[0].arrived_ns <= now_ns:
                self.scheduler.add(pending.pop(0))
            self.scheduler.is_draining = not pending
            if not pending and not self.scheduler.has_work:
                return
            plan = self.scheduler.plan(now_ns)
            if plan is not None:
                self.take(plan)
            arrived = [s.id for s in self.sequences if s.arrived_ns <= now_ns]
            if arrived and self.cancels and self.rng.random() < 0.05:
                gone = self.rng.choice(arrived)
                self.cancelled.add(gone)
                self.scheduler.cancel(gone)
        raise AssertionError("the work does not end")

    def take(self, plan: StepPlan) -> None:
        """Carry out a plan, with some answers that end early."""
        self.check(plan)
        self.plans.append(plan)
        for prefill in plan.prefills:
            if prefill.sequence_id not in self.started:
                self.started.append(prefill.sequence_id)
        rows = [(p.sequence_id, p.blocks, p.first, p.tokens) for p in plan.prefills]
        rows += [(d.sequence_id, d.blocks, d.position, 1) for d in plan.decodes]
        stored = [self.stored(*row) for row in rows]  # all is read before anything is written
        for tokens in stored:
            self.cache |= tokens
        for sequence_id in plan.producing:
            self.tokens[sequence_id].append(self.rng.randrange(10**6))
        met_end = {i for i in plan.producing if self.cancels and self.rng.random() < 0.05}
        self.stopped |= met_end
        ended = self.scheduler.commit(plan, StepResult(frozenset(met_end)))
        assert met_end <= set(ended) <= set(plan.producing)

    def stored(
        self, sequence_id: int, blocks: tuple[int, ...], first: int, count: int
    ) -> dict[tuple[int, int], int]:
        """Where `count` tokens go; all tokens before them must be where the blocks say."""
        places = [(block, offset) for block in blocks for offset in range(BLOCK_TOKENS)]
        known = self.tokens[sequence_id]
        assert [self.cache[place] for place in places[:first]] == known[:first]
        end = first + count
        return dict(zip(places[first:end], known[first:end], strict=True))

    def check(self, plan: StepPlan) -> None:
        held = self.scheduler.held
        assert len(held) <= self.limits.slots
        assert plan.running > 0, "a step that helps no answer is wasted"
        assert [s.id for s in held] == [i for i in self.order if i in {s.id for s in held}]
        self.check_memory(plan, held)
        self.check_budget(plan)
        if self.policy != "continuous" or self.limits.capacity == "guaranteed_no_evict":
            assert not plan.preempted
        if self.limits.order == "prefill_first":
            assert not plan.prefills or not plan.decodes
        else:
            decoding = {s.id for s in held if s.state is SequenceState.DECODING}
            assert decoding <= {d.sequence_id for d in plan.decodes}

    def check_memory(self, plan: StepPlan, held: tuple[Sequence, ...]) -> None:
        owners = Counter(block for s in held for block in s.blocks)
        assert len(owners) == plan.kv.used == self.scheduler.kv_blocks_used
        for block in (b for b, count in owners.items() if count > 1):
            assert self.limits.prefix_cache
            names = {
                (s.blocks.index(block), prefix_name(s, block)) for s in held if block in s.blocks
            }
            assert len(names) == 1, "only what is the same is shared"
        for s in held:
            assert s.stored <= len(s.blocks) * BLOCK_TOKENS
        stored = plan.kv.tokens_stored + plan.kv.tokens_unfilled + plan.kv.tokens_over_reserved
        assert stored == plan.kv.used * BLOCK_TOKENS
        assert min(plan.kv.tokens_stored, plan.kv.tokens_unfilled) >= 0
        assert 0 <= plan.kv.cached <= plan.kv.total - plan.kv.used
        if self.limits.kv == "paged":
            assert plan.kv.tokens_over_reserved == plan.kv.stranded == 0
        else:
            assert all(s.blocks == tuple(range(s.blocks[0], s.blocks[-1] + 1)) for s in held)

    def check_budget(self, plan: StepPlan) -> None:
        if self.limits.step_tokens is None:
            return
        reading = [p.tokens + p.padding_tokens for p in plan.prefills]
        computed = sum(reading) + len(plan.decodes)
        may_pass = not self.limits.chunked_prefill and len(reading) == 1
        assert computed <= self.limits.step_tokens or may_pass


def prefix_name(sequence: Sequence, block: int) -> bytes:
    return sequence.block_keys[sequence.blocks.index(block)]


def world(limits: Limits, policy: str, all_rows: list[Row], seed: int, **changes: Any) -> World:
    fitting = [row for row in all_rows if row[0] + row[1] - 1 <= KV_BLOCKS * BLOCK_TOKENS]
    made = World(limits, policy, fitting, random.Random(seed), **changes)
    made.run()
    return made


@given(settings(), st.sampled_from(POLICY_NAMES), rows, st.integers(0, 10**6))
def test_every_request_ends_and_every_token_is_where_the_plan_says(
    limits: Limits, policy: str, all_rows: list[Row], seed: int
) -> None:
    seen = world(limits, policy, all_rows, seed)

    for sequence in seen.sequences:
        assert sequence.state is SequenceState.ENDED
        if sequence.id not in seen.stopped | seen.cancelled:
            assert sequence.generated == sequence.max_tokens


@given(settings(), st.sampled_from(POLICY_NAMES), rows, st.integers(0, 10**6))
def test_the_first_to_come_is_the_first_to_start(
    limits: Limits, policy: str, all_rows: list[Row], seed: int
) -> None:
    seen = world(limits, policy, all_rows, seed)

    assert seen.started == [i for i in seen.order if i in set(seen.started)]


@given(settings(), st.sampled_from(POLICY_NAMES), rows, st.integers(0, 10**6))
def test_no_block_is_lost_for_those_who_come_later(
    limits: Limits, policy: str, all_rows: list[Row], seed: int
) -> None:
    target = world(limits, policy, all_rows, seed).scheduler

    assert (target.kv_use.used, target.kv_use.tokens_stored, target.waiting_tokens) == (0, 0, 0)
    whole_cache = Sequence(999, target.most_tokens, 1, 9999)
    target.add(whole_cache)
    target.is_draining = True
    while target.has_work:
        plan = target.plan(9999)
        assert plan is not None
        target.commit(plan, StepResult())
    assert whole_cache.generated == 1


@given(settings(), st.sampled_from(POLICY_NAMES), rows, st.integers(0, 10**6))
def test_the_same_settings_and_inputs_make_the_same_plans(
    limits: Limits, policy: str, all_rows: list[Row], seed: int
) -> None:
    first, second = (world(limits, policy, all_rows, seed).plans for _ in range(2))

    assert first == second


@given(settings().filter(lambda limits: limits.kv == "paged"), rows, st.integers(0, 10**6))
def test_whoever_is_preempted_still_gets_exactly_the_tokens_asked_for(
    limits: Limits, all_rows: list[Row], seed: int
) -> None:
    scarce = replace(limits, capacity="max_utilization")
    seen = world(scarce, "continuous", all_rows, seed, cancels=False)

    produced = Counter(i for plan in seen.plans for i in plan.producing)
    assert produced == {i: row[1] for i, row in enumerate(seen.rows)}
    gave_way = Counter(i for plan in seen.plans for i in plan.preempted)
    assert gave_way == {s.id: s.preemptions for s in seen.sequences if s.preemptions}
