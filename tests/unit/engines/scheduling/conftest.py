"""A scheduler on small settings, and a sequence of steps of it."""

from __future__ import annotations

from typing import Any

import pytest

from engines.scheduling.limits import Limits
from engines.scheduling.policies import make_policy
from engines.scheduling.scheduler import Scheduler
from engines.scheduling.sequence import Sequence
from engines.scheduling.step import StepPlan, StepResult


class Bench:
    """A scheduler in blocks of four tokens, with the words that its tests need."""

    def __init__(self, policy: str = "continuous", **settings: Any) -> None:
        limits = Limits(**{"slots": 4, "kv_blocks": 100, "block_tokens": 4, **settings})
        self.scheduler = Scheduler(make_policy(policy), limits)
        self.scheduler.is_draining = True
        self._ids = 0

    def add(self, prompt_tokens: int, max_tokens: int, keys: str = "") -> Sequence:
        """Queue a sequence; `keys` has one letter for each full block of its prompt."""
        block_keys = tuple(keys[: i + 1].encode() for i in range(len(keys)))
        sequence = Sequence(self._ids, prompt_tokens, max_tokens, self._ids, block_keys)
        self._ids += 1
        self.scheduler.add(sequence)
        return sequence

    def step(self, *stopped: int) -> StepPlan:
        """Plan and commit a step, in which the `stopped` sequences meet an end token."""
        plan = self.scheduler.plan(0)
        assert plan is not None
        self.scheduler.commit(plan, StepResult(frozenset(stopped)))
        return plan

    def steps(self, count: int) -> list[StepPlan]:
        """So many steps, one after the other."""
        return [self.step() for _ in range(count)]

    def steps_to_the_end(self) -> list[StepPlan]:
        """Steps until there is no more work."""
        plans = []
        while self.scheduler.has_work:
            plans.append(self.step())
        return plans


@pytest.fixture
def bench() -> type[Bench]:
    """`bench(policy, **settings)` makes a scheduler to take steps with."""
    return Bench
