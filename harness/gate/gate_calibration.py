"""How noisy are pairs of an engine with itself, and which margins can a gate hold them to?

Pairs that set a margin must not be judged by it: gate with others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import stdev

from scipy import special

from harness.analyzer.intervals import resolvable_margin
from harness.analyzer.metrics import find_metric
from harness.analyzer.summary import Summary, Validity
from harness.core.errors import NotComparable, UsageError
from harness.gate import formatting
from harness.gate.cells import Align, Cell, Column, Table, Tone
from harness.gate.comparison import compare, context_of
from harness.gate.decision import Pair
from harness.gate.rules import FAILURES, GateRules, MetricRule

FEWEST_PAIRS = 10
# The standard deviation of few pairs is uncertain: margins are set by what it stays below so often.
CONFIDENCE = 0.80
# So often an engine that has not changed should pass.
POWER = 0.98
# Above it, pairs are too noisy for the usual margins.
NOISY = 0.04
# Margins are proposed in steps of half a percent.
STEPS = 200


@dataclass(frozen=True, slots=True)
class Noise:
    """One metric over A/A pairs, under the load where it is noisiest; standard deviations of logs.

    `sd_upper` is what `sd_pair` stays below with 80 % confidence. `margin` is the least that an
    unchanged engine passes 98 times in 100 at the last look. None where `reason` says why.
    """

    metric: str
    sd_pair: float | None
    sd_upper: float | None
    margin: float | None
    reason: str | None = None

    @property
    def is_noisy(self) -> bool:
        """True when the usual margins are too narrow for it."""
        return self.sd_upper is not None and self.sd_upper > NOISY


@dataclass(frozen=True, slots=True)
class GateCalibration:
    """What A/A pairs say about this machine: `pairs` of them, and each metric's noise."""

    context: str
    pairs: int
    rules: GateRules
    noises: tuple[Noise, ...]


def calibrate_gate(pairs: Sequence[Pair], rules: GateRules) -> GateCalibration:
    """The noise of each gated ratio over `pairs`, which are of an engine with itself.

    Pairs with an INVALID run are left out. Raises UsageError when fewer than 10 are left, and
    when the two sides of one are not the same.
    """
    sound = [
        p for p in pairs if Validity.INVALID not in (p.baseline.validity, p.candidate.validity)
    ]
    if len(sound) < FEWEST_PAIRS:
        msg = (
            f"{len(sound)} A/A pairs can be used, {FEWEST_PAIRS} are needed; measure more with "
            f"`batchmark duel A A --pairs {FEWEST_PAIRS}`"
        )
        raise UsageError(msg)
    levels = dict.fromkeys(pair.baseline.manifest.workload.title for pair in sound)
    by_level = [[p for p in sound if p.baseline.manifest.workload.title == lv] for lv in levels]
    for of_level in by_level:
        _require_same(of_level)
    gated = [rule for rule in rules.metrics if rule.metric != FAILURES]
    return GateCalibration(
        context=context_of(sound[0].baseline.manifest),
        pairs=len(sound),
        rules=rules,
        noises=tuple(_noisiest(rule, by_level, rules) for rule in gated),
    )


def _require_same(pairs: Sequence[Pair]) -> None:
    base, cand = [p.baseline for p in pairs], [p.candidate for p in pairs]
    try:
        factors = compare("A", base, "A again", cand, paired=True).factors
    except NotComparable as error:
        raise UsageError(f"these are no A/A pairs: {error}") from error
    if factors:
        msg = f"these are no A/A pairs: {', '.join(factors)}; run an engine against itself"
        raise UsageError(msg)


def _noisiest(rule: MetricRule, by_level: Sequence[Sequence[Pair]], rules: GateRules) -> Noise:
    found = [_noise(rule.metric, pairs, rules) for pairs in by_level]
    if missing := [noise for noise in found if noise.sd_upper is None]:
        return missing[0]
    return max(found, key=lambda noise: noise.sd_upper or 0.0)


def _noise(metric: str, pairs: Sequence[Pair], rules: GateRules) -> Noise:
    if len(pairs) < FEWEST_PAIRS:
        return Noise(metric, None, None, None, f"{len(pairs)} pairs under one load are too few")
    values = [(_value(p.baseline, metric), _value(p.candidate, metric)) for p in pairs]
    diffs = [math.log(c) - math.log(b) for b, c in values if b is not None and c is not None]
    if len(diffs) < len(pairs):
        without = len(pairs) - len(diffs)
        return Noise(metric, None, None, None, f"{without} of {len(pairs)} pairs have no ratio")
    sd = stdev(diffs)
    upper = sd * upper_factor(len(diffs))
    margin = resolvable_margin(upper, rules.pairs[-1], rules.alpha_per_look, POWER)
    rounded = max(math.ceil(margin * STEPS), 1) / STEPS
    if rounded > 1:
        return Noise(metric, sd, upper, None, "no margin up to 100 % can be held: leave it out")
    return Noise(metric, sd, upper, rounded)


def _value(run: Summary, metric: str) -> float | None:
    value = next((v.value for v in run.values if v.metric == metric), None)
    return value if value is not None and 0 < value < math.inf else None


def upper_factor(pairs: int) -> float:
    """What a standard deviation of `pairs` values is multiplied by for its 80 % upper bound.

    By the chi-square distribution: 1.56 for 5, 1.29 for 10, 1.18 for 20.
    """
    half = (pairs - 1) / 2
    return math.sqrt(half / float(special.gammaincinv(half, 1 - CONFIDENCE)))


def calibration_table(found: GateCalibration) -> Table:
    """The noise of each metric, the margin to use, and what to do where it is too noisy."""
    rows = tuple(
        (
            Cell(find_metric(noise.metric).title),
            Cell(formatting.share(noise.sd_pair)),
            Cell(formatting.share(noise.sd_upper)),
            Cell("none" if noise.margin is None else formatting.share(noise.margin)),
            Cell(_advice(noise), tone=Tone.WARN),
        )
        for noise in found.noises
    )
    columns = (
        Column("Metric"),
        Column("Noise of a pair", Align.RIGHT),
        Column("At most (80 %)", Align.RIGHT),
        Column("Margin to use", Align.RIGHT),
        Column(""),
    )
    return Table(f"{found.pairs} A/A pairs ({found.context})", columns, rows)


def _advice(noise: Noise) -> str:
    if noise.reason is not None:
        return noise.reason
    return "noisy: keep to this wide margin, use longer runs, or leave it out" * noise.is_noisy


def proposal(found: GateCalibration) -> str:
    """The table [gate] of a batchmark.toml with these margins."""
    return "\n".join(_proposed(found)) + "\n"


def _proposed(found: GateCalibration) -> Iterator[str]:
    yield f"# from {found.pairs} A/A pairs: {formatting.one_line(found.context)}"
    yield "[gate]"
    yield f"alpha = {found.rules.alpha:g}"
    yield f"pairs = {list(found.rules.pairs)}"
    for noise in found.noises:
        yield ""
        if noise.margin is None:
            yield f"# {noise.metric}: {formatting.one_line(noise.reason or '')}"
            continue
        advice = f"; {_advice(noise)}" if noise.is_noisy else ""
        yield f"# a pair varies by {formatting.share(noise.sd_pair)}{advice}"
        yield f"[gate.metrics.{noise.metric}]"
        yield f"margin = {noise.margin:g}"
