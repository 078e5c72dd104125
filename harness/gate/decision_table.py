"""A decision of the gate as plain strings: its headline, and a row for each gated metric."""

from __future__ import annotations

import math

from harness.analyzer.metrics import find_metric
from harness.gate import formatting
from harness.gate.allowance import allowed_line
from harness.gate.cells import Align, Cell, Column, Reasons, Table, Tone
from harness.gate.decision import Decision, metric_name
from harness.gate.metric_decision import MetricDecision
from harness.gate.verdict import Verdict

TONES = {
    Verdict.PASS: Tone.GOOD,
    Verdict.FAIL: Tone.BAD,
    Verdict.INCONCLUSIVE: Tone.WARN,
    Verdict.INVALID: Tone.BAD,
    Verdict.NOT_COMPARABLE: Tone.BAD,
}
NOT_GATED = "not gated"
NONE = "-"


def headline(decision: Decision) -> str:
    """The verdict, and who was held against whom, on what, how often."""
    sides = f"{decision.candidate_name} against {decision.baseline_name}"
    return f"{decision.verdict}: {sides} ({decision.context}), {decision.design}"


def lines_of(decision: Decision) -> tuple[str, ...]:
    """All that is said in sentences: what may differ by leave first, then the headline, and why."""
    factors = ", ".join(decision.factors)
    said = (
        allowed_line(decision.allowed),
        headline(decision),
        *(f"- {reason}" for reason in decision.reasons),
        f"what differs on purpose: {factors}" if factors else "",
        f"{decision.baseline_name} is {decision.baseline_from}" if decision.baseline_from else "",
        *(f"left out: {run}" for run in decision.left_out),
    )
    return tuple(formatting.one_line(line, 1000) for line in said if line)


def decision_table(decision: Decision) -> Table:
    """The gated metrics: both sides, by how much the candidate is worse, and the verdict."""
    reasons = Reasons()
    rows = tuple(
        (
            Cell(metric_name(metric, decision.metrics), metric.said),
            _side(metric, metric.baseline, reasons),
            _side(metric, metric.candidate, reasons),
            Cell(worse_text(metric), tone=Tone.STRONG if metric.is_clear else Tone.MUTED),
            Cell(interval_text(metric), tone=Tone.MUTED),
            Cell(NONE if metric.margin is None else formatting.share(metric.margin)),
            Cell(formatting.p_value(metric.p_fail_holm)),
            Cell(formatting.p_value(metric.sign_flip_p)),
            Cell(resolvable_text(metric)),
            verdict_cell(metric),
        )
        for metric in decision.metrics
    )
    confidence = 1 - 2 * decision.rules.alpha_per_look
    columns = (
        Column("Metric"),
        Column(decision.baseline_name, Align.RIGHT, term="baseline"),
        Column(decision.candidate_name, Align.RIGHT, term="candidate"),
        Column("Worse by", Align.RIGHT),
        Column(f"{100 * confidence:g} % interval", Align.RIGHT, term="interval of the gate"),
        Column("Margin", Align.RIGHT),
        Column("p of FAIL", Align.RIGHT),
        Column("p by signs", Align.RIGHT),
        Column("Can resolve", Align.RIGHT),
        Column("Verdict"),
    )
    return Table("", columns, rows, (*reasons.notes, *notes_of(decision)))


def _side(metric: MetricDecision, value: float | None, reasons: Reasons) -> Cell:
    text = side_text(metric, value)
    return reasons.cell(metric.said, text) if value is None else Cell(text)


def notes_of(decision: Decision) -> tuple[str, ...]:
    """What the columns mean, and which rules were asked."""
    if not decision.metrics:
        return ()
    what = "pairs" if decision.is_paired else "runs a side"
    reading = (
        "Worse by: the ratio of the sides less 1, taken so that + is worse; ~ no difference was "
        "shown. p of FAIL: how likely so bad a result is at the margin, "
        "corrected for all metrics (Holm). p by signs: a second opinion on any change for the "
        f"worse. Can resolve: the margin that {decision.runs} {what} of this noise rule out 9 "
        "times in 10 when nothing has changed."
    )
    rules = decision.rules
    looks = f"alpha {rules.alpha:g} in {len(rules.pairs)} look(s)"
    return reading, f"rules {decision.rules_digest[:12]}: {looks}"


def side_text(metric: MetricDecision, value: float | None) -> str:
    """The value of one side, in the metric's unit; `-` where the decision rests on none."""
    return NONE if value is None else formatting.quantity(value, find_metric(metric.metric).unit)


def worse_text(metric: MetricDecision) -> str:
    """Such as `+3.9 %` where the candidate is worse, and `~ -0.4 %` where that may be chance."""
    if metric.evidence is None:
        return NONE
    return f"{'' if metric.is_clear else '~ '}{percent(metric.evidence.d)}"


def interval_text(metric: MetricDecision) -> str:
    """Such as `-0.3 % to +0.4 %`; positive is worse."""
    if metric.evidence is None:
        return NONE
    return f"{percent(metric.evidence.lo)} to {percent(metric.evidence.hi)}"


def percent(log: float) -> str:
    """A logarithm of a ratio as the signed change that it is, such as `+3.9 %`."""
    change = 100 * math.expm1(min(log, 100.0))
    return f"{round(change, 1) + 0.0:+.1f} %" if abs(change) < 1000 else f"{change:+.3g} %"


def resolvable_text(metric: MetricDecision) -> str:
    """Such as `3.3 %`: the least margin that as many runs of this noise can rule out."""
    if metric.evidence is None or metric.evidence.resolvable_margin_90 is None:
        return NONE
    return formatting.share(metric.evidence.resolvable_margin_90)


def verdict_cell(metric: MetricDecision) -> Cell:
    """The verdict of a metric, and why."""
    if metric.verdict is None:
        return Cell(NOT_GATED, metric.said, Tone.MUTED)
    leaning = f" ({metric.leaning})" if metric.leaning else ""
    return Cell(f"{metric.verdict}{leaning}", metric.said, TONES[metric.verdict])
