"""Runs in numbers that a gate judges, made by hand or drawn from a seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from harness.analyzer.metrics import METRICS
from harness.analyzer.summary import Check, CheckVerdict, MetricValue, Summary, Validity
from harness.core.manifest import Counts
from harness.gate.decision import Pair

PLAIN = {
    "output_tok_s": 100.0,
    "ttft_s_p50": 0.1,
    "tpot_s_p50": 0.01,
    "ttft_s_p99": 0.3,
}
TOKENS_EACH = 10.0
# What a slower engine has less of, and what it has more of.
RATES, TIMES = ("output_tok_s",), ("ttft_s_p50", "tpot_s_p50", "ttft_s_p99")


class Gating:
    """Functions that make runs and pairs."""

    def __init__(self, build: Any) -> None:
        self.build = build

    def run(
        self,
        values: Mapping[str, float | None] | None = None,
        *,
        is_candidate: bool = False,
        failed: int = 0,
        sent: int = 100,
        invalid: Sequence[str] = (),
        **changes: Any,
    ) -> Summary:
        """A valid run of an engine, or of the same with another policy; `invalid` are checks."""
        manifest = self.build.manifest(**changes)
        if is_candidate:
            engine = replace(manifest.engine, name="inhouse-continuous", policy="continuous")
            manifest = replace(manifest, engine=engine)
        counts = Counts(planned=sent, sent=sent, ok=sent - failed, failed=failed)
        tokens = TOKENS_EACH * (sent - failed)
        known = {**PLAIN, "output_tokens": tokens, "failure_rate": failed / sent, **(values or {})}
        return Summary(
            manifest=replace(manifest, counts=counts),
            validity=Validity.INVALID if invalid else Validity.VALID,
            checks=tuple(Check(i, "a check", "1", "0", CheckVerdict.INVALID) for i in invalid),
            values=tuple(
                MetricValue(m.name, known.get(m.name), None if m.name in known else "not there")
                for m in METRICS
            ),
            steps=None,
            cautions=(),
        )

    def pair(self, baseline: Summary | None = None, candidate: Summary | None = None) -> Pair:
        """Two runs, plain ones unless given."""
        return Pair(
            baseline or self.run(), candidate or self.run(is_candidate=True), 1, baseline_first=True
        )

    def pairs(self, metric: str, ratios: Sequence[float], **changes: Any) -> list[Pair]:
        """A pair for each ratio, candidate over baseline, of one metric; the others are equal."""
        base = PLAIN[metric]
        return [
            self.pair(
                self.run(**changes), self.run({metric: base * r}, is_candidate=True, **changes)
            )
            for r in ratios
        ]

    def noisy(self, rng: Random, pairs: int, noise: float, slower: float = 0.0) -> list[Pair]:
        """Pairs whose log ratios vary by `noise`, of a candidate that is `slower` (0.1 is 10 %)."""
        return [self._noisy(rng, noise, math.log1p(slower)) for _ in range(pairs)]

    def _noisy(self, rng: Random, noise: float, worse: float) -> Pair:
        """One; what the machine does to a run it does to all of its metrics, more or less."""
        mood = rng.gauss(0, 0.2)
        each = noise / math.sqrt(2)

        def values(shift: float) -> dict[str, float]:
            of_run = rng.gauss(0, each * math.sqrt(0.7))
            drift = {
                m: mood + of_run + rng.gauss(0, each * math.sqrt(0.3)) + shift
                for m in (*RATES, *TIMES)
            }
            return {m: PLAIN[m] * math.exp(-d if m in RATES else d) for m, d in drift.items()}

        return self.pair(self.run(values(0.0)), self.run(values(worse), is_candidate=True))


@pytest.fixture(scope="session")
def gating(build: Any) -> Gating:
    """Makers of runs and pairs for a gate."""
    return Gating(build)
