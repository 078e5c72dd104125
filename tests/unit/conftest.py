"""A duel of hand-made runs, for the tests of its numbers, its tables and its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.summarize import summarize
from harness.core.engine import EngineSpec
from harness.core.rundir import RunFolder
from harness.core.workload import Load, LoadKind
from harness.gate.attempt import Attempt
from harness.gate.decision import decide
from harness.gate.duel import Duel, DuelSide, Place, metrics_of
from harness.gate.duel_judging import PairRuns, cautions_of, compare_sides, counted_of
from harness.gate.rules import FEWEST_PAIRS, GateRules

AT_ONE_RATE = Load(LoadKind.CONSTANT, rate_rps=10.0)
SIDES = (
    DuelSide("inhouse-static", EngineSpec("inhouse", "inhouse-static", "smollm2", policy="static")),
    DuelSide("inhouse-continuous", EngineSpec("inhouse", "inhouse-continuous", "smollm2")),
)


class DuelMaker:
    """Pairs of runs with eight requests of four tokens, and the duel that they make."""

    def __init__(self, build: Any) -> None:
        self.build = build

    def run(
        self, side: int, pair: int, speed: float, *, failed: int = 0, **changes: Any
    ) -> Attempt:
        """The run of one side; twice the `speed` takes half the time, and the last `failed` fail."""
        records = [
            self.build.record(i, [(100 * i + 50 * k) / speed for k in range(1, 5)])
            for i in range(8 - failed)
        ]
        records += [self.build.failed(i) for i in range(8 - failed, 8)]
        work = self.build.workload(seed=pair, digest=str(pair) * 64)
        given = {"engine": SIDES[side].engine, "workload": work, **changes}
        name = f"pair-{pair}-{'AB'[side]}-{SIDES[side].name}"
        run = self.build.run(records, **{"run_id": name, **given})
        return Attempt(name, run, summarize(run))

    def pairs(self, ratios: Sequence[float]) -> list[PairRuns]:
        """A pair for each ratio, the candidate's speed over the baseline's."""
        return [
            PairRuns(
                Place(i, 1), i, self.run(0, i, 1.0 + i / 50), self.run(1, i, (1.0 + i / 50) * r)
            )
            for i, r in enumerate(ratios, 1)
        ]

    def duel(self, pairs: Sequence[PairRuns], **changes: Any) -> Duel:
        """The duel of `pairs`, judged when there are enough of them."""
        counted = counted_of(pairs)
        table = compare_sides(SIDES, pairs, ())
        rules = GateRules(pairs=(max(len(counted), 1),))
        is_judged = len(counted) >= FEWEST_PAIRS
        decision = decide(counted, rules, is_last_look=True) if is_judged else None
        made = Duel(
            baseline=SIDES[0],
            candidate=SIDES[1],
            context="SmolLM2 bf16, 2-core <AMD>, eight-agents x4 backlog",
            factors=() if table is None else table.factors,
            allowed=(),
            command=("batchmark", "duel", "inhouse-static", "inhouse", "mix", "--seed", "1"),
            tool_version="1",
            created_utc="now",
            looks=rules.pairs,
            pairs=tuple(pair.stored for pair in pairs),
            metrics=metrics_of(counted),
            decision=decision,
            stopped=None,
            agreement=None if table is None else table.agreement,
            cautions=cautions_of(pairs, table, decision, is_locked=False),
        )
        return replace(made, **changes)


@pytest.fixture(scope="session")
def settling(build: Any) -> Callable[..., RunFolder]:
    """A run with a request each 100 ms that takes 20 ms, of which the first `slow` take 80 ms."""

    def make(
        slow: int = 0, requests: int = 200, *, speed: float = 1.0, **changes: Any
    ) -> RunFolder:
        records = []
        for i in range(requests):
            took_ms = (80 if i < slow else 20) / speed
            events_ms = (100 * i + took_ms / 2, 100 * i + took_ms)
            records.append(build.record(i, events_ms, due_ms=100 * i))
        made: RunFolder = build.run(records, **{"load": AT_ONE_RATE, **changes})
        return made

    return make


@pytest.fixture(scope="session")
def duels(build: Any) -> DuelMaker:
    """Makers of duels whose truth is known."""
    return DuelMaker(build)


@pytest.fixture
def clear_duel(duels: DuelMaker) -> Callable[..., Duel]:
    """Five pairs of a candidate that is about half as fast again, with noise of a percent."""
    return lambda **changes: duels.duel(duels.pairs((1.5, 1.51, 1.49, 1.505, 1.495)), **changes)
