"""A duel as plain strings: its verdict, its metrics, and its pairs."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analyzer.metric import Better, Metric
from harness.analyzer.metrics import find_metric
from harness.analyzer.summary import Validity
from harness.gate import formatting
from harness.gate.attempt import RunOutcome
from harness.gate.cells import Align, Cell, Column, Reasons, Table, Tone
from harness.gate.comparison import UNCLEAR
from harness.gate.comparison_table import HEADLINES
from harness.gate.decision_table import TONES
from harness.gate.duel import Duel, DuelMetric, in_vain
from harness.gate.rules import FEWEST_PAIRS
from harness.gate.tables import metric_name, says_more

NO_VERDICT = "NO VERDICT"
READING = (
    "The runs of a pair sent the same bytes, one after the other, so what they have in common "
    f"cancels out of its ratio. {UNCLEAR} where the 95 % interval holds 1: no difference was "
    "shown, which does not mean that there is none."
)


def title_of(duel: Duel) -> str:
    """Who against whom, on what, how often."""
    pairs = len(duel.counted)
    times = "1 pair" if pairs == 1 else f"{pairs} pairs"
    return f"{duel.candidate_name} against {duel.baseline_name} ({duel.context}), {times}"


def verdict_of(duel: Duel) -> tuple[str, str, Tone]:
    """The answer, why it is that one, and what it means for the reader."""
    if duel.stopped is not None:
        return NO_VERDICT, duel.stopped, Tone.BAD
    if duel.decision is None:
        need = f"a verdict takes {FEWEST_PAIRS} pairs at least, and this duel has"
        return NO_VERDICT, f"{need} {len(duel.counted)}", Tone.WARN
    decision = duel.decision
    return decision.verdict.value, "; ".join(decision.reasons), TONES[decision.verdict]


def not_counted(duel: Duel) -> str:
    """Which pairs do not count, and why; empty when all do."""
    faulty = [
        f"pair {pair.number}: {run.run} is {run.outcome}"
        for pair in duel.pairs
        for run in (pair.baseline, pair.candidate)
        if not pair.counts and not run.counts and run.why
    ]
    if not faulty:
        return ""
    return f"{in_vain(duel.pairs)} of {len(duel.pairs)} pairs do not count: {'; '.join(faulty)}"


def duel_table(duel: Duel) -> Table:
    """The metrics of both sides, and what the pairs make of them."""
    sides = [
        {metric.metric: metric.baseline for metric in duel.metrics},
        {metric.metric: metric.candidate for metric in duel.metrics},
    ]
    shown = [metric for metric in duel.metrics if says_more(find_metric(metric.metric), sides)]
    has_intervals = any(metric.p is not None for metric in shown)
    reasons = Reasons()
    rows = tuple(tuple(_cells(found, reasons, has_intervals=has_intervals)) for found in shown)
    columns = (
        Column("Metric"),
        Column(duel.baseline_name, Align.RIGHT, term="baseline", is_mixed=True),
        Column(duel.candidate_name, Align.RIGHT, term="candidate", is_mixed=True),
        Column("Ratio", Align.RIGHT),
        *((Column("95 % interval", Align.RIGHT), Column("p", Align.RIGHT)) * has_intervals),
        Column("n", Align.RIGHT),
        Column("Candidate", term="reading"),
    )
    doubts = [found.reason for found in shown if found.ratio is not None and found.reason]
    title = f"{duel.candidate_name} against {duel.baseline_name}"
    return Table(title, columns, rows, (*reasons.notes, *dict.fromkeys(doubts)))


def _cells(found: DuelMetric, reasons: Reasons, *, has_intervals: bool) -> Iterator[Cell]:
    metric = find_metric(found.metric)
    yield metric_name(metric)
    for side, value in enumerate((found.baseline, found.candidate)):
        if value is None:
            yield reasons.cell(found.reason)
        else:
            by_pair = ", ".join(formatting.quantity(v[side], metric.unit) for v in found.values)
            text = formatting.quantity(value, metric.unit)
            yield Cell(text, f"by pair: {by_pair}", exact=value)
    if found.ratio is None:
        yield reasons.cell(found.reason, "none")
    else:
        tone = Tone.STRONG if found.is_clear else Tone.MUTED
        yield Cell(ratio_text(found), tone=tone, exact=found.ratio)
    if has_intervals:
        yield Cell(interval_text(found) or "-", tone=Tone.MUTED)
        yield Cell(formatting.p_value(found.p), exact=found.p)
    yield Cell(str(len(found.values)))
    yield _reading(metric, found)


def _reading(metric: Metric, found: DuelMetric) -> Cell:
    """Whether the ratio is good news for the candidate."""
    if found.ratio is None or metric.better is Better.NEITHER:
        return Cell("")
    is_better = (found.ratio > 1) == (metric.better is Better.HIGHER)
    if found.lo is None:
        said = "equal" if found.ratio == 1 else "better?" if is_better else "worse?"
        return Cell(said, "no interval: it may be noise", Tone.MUTED)
    if not found.is_clear:
        return Cell("unclear", "the interval contains 1", Tone.MUTED)
    return Cell("better", tone=Tone.GOOD) if is_better else Cell("worse", tone=Tone.BAD)


def ratio_text(found: DuelMetric) -> str:
    """Such as `1.44x`, or `~ 1.01x` where no difference is shown."""
    text = formatting.ratio(found.ratio, found.lo, found.hi)
    return f"{UNCLEAR} {text}" if found.lo is not None and not found.is_clear else text


def interval_text(found: DuelMetric) -> str:
    """Such as `1.40x to 1.49x`; empty when there is none."""
    return formatting.ratio_span(found.lo, found.hi)


def certainty(found: DuelMetric) -> str:
    """How sure a ratio is, in words: its interval, or why there is none."""
    if found.lo is None:
        return found.reason or "no interval was computed"
    pairs, p = len(found.values), f"p = {formatting.p_value(found.p)}".replace("= <", "< ")
    return f"95 % interval {interval_text(found)}, n = {pairs} pairs, {p}"


def pair_table(duel: Duel) -> Table:
    """Every pair in the order of running: its seed, its runs, and the rates that they reached."""
    metric = find_metric("output_tok_s")
    values = iter(duel.metric(metric.name).values if duel.metrics else ())
    nothing = (None, None)
    rows = []
    for pair in duel.pairs:
        b, c = next(values, nothing) if pair.counts else nothing
        ratio = c / b if b and c else None
        runs = (pair.baseline, pair.candidate)
        rows.append(
            (
                Cell(str(pair.number) + (f", attempt {pair.attempt}" if pair.attempt > 1 else "")),
                Cell("AB" if pair.baseline_first else "BA"),
                Cell(str(pair.seed)),
                *map(_run_cell, runs if pair.baseline_first else reversed(runs)),
                Cell("-" if b is None else formatting.quantity(b, metric.unit)),
                Cell("-" if c is None else formatting.quantity(c, metric.unit)),
                Cell("-" if ratio is None else formatting.ratio(ratio)),
            )
        )
    rates = (f"{side}, {metric.title}" for side in (duel.baseline_name, duel.candidate_name))
    columns = (
        Column("Pair"),
        Column("Order"),
        Column("Seed", Align.RIGHT),
        Column("First run"),
        Column("Second run"),
        *(Column(rate, Align.RIGHT, term=metric.name) for rate in rates),
        Column("Ratio", Align.RIGHT),
    )
    return Table("Pairs, in the order of running", columns, tuple(rows))


def _run_cell(run: RunOutcome) -> Cell:
    tone = Tone.PLAIN if run.counts else Tone.BAD
    said = run.run if run.outcome == Validity.VALID.value else f"{run.run} ({run.outcome})"
    return Cell(said, run.why or "", tone)


def claims(duel: Duel) -> Iterator[tuple[str, str, str]]:
    """The headline ratios: the ratio, what it is of, and how sure; absolute values in each."""
    known = {found.metric: found for found in duel.metrics if found.ratio is not None}
    for name in HEADLINES:
        if name in known:
            yield ratio_text(known[name]), _of_what(duel, known[name]), certainty(known[name])


def _of_what(duel: Duel, found: DuelMetric) -> str:
    metric = find_metric(found.metric)
    b, c = (formatting.quantity(v, metric.unit) for v in (found.baseline, found.candidate))
    sides = f"{c} of {duel.candidate_name} vs {b} of {duel.baseline_name}"
    return f"{metric.title}, {sides} ({duel.context})"
