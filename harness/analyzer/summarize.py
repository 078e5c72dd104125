"""A run folder in, its Summary out: the one way from what was measured to numbers."""

from __future__ import annotations

from harness.analyzer.frame import RunFrame, frame_of
from harness.analyzer.imported_summary import as_imported
from harness.analyzer.measures import Unmeasured, is_withheld
from harness.analyzer.metric import Metric
from harness.analyzer.metrics import METRICS
from harness.analyzer.run_cautions import run_cautions
from harness.analyzer.sessions import session_totals
from harness.analyzer.steady_checks import can_be_cut, settled_s
from harness.analyzer.steps import step_totals
from harness.analyzer.summary import MetricValue, Summary
from harness.analyzer.validity import check_run, overall_validity
from harness.analyzer.within import Bounded
from harness.core.rundir import RunFolder


def summarize(run: RunFolder, cut_s: float = 0.0) -> Summary:
    """`run` in numbers. An empty run has no values, but it has its checks and reasons.

    Where its requests come at one rate, latencies and rates leave out what is before the instant
    `cut_s` of the run; checks and the shares of failed and good requests do not.
    """
    frame = frame_of(run, cut_s if can_be_cut(run.manifest) else 0.0)
    readings = {metric.name: metric.function(frame) for metric in METRICS}
    withheld = [
        metric.name
        for metric in METRICS
        if metric.refines is None and not metric.is_of_steps and is_withheld(readings[metric.name])
    ]
    checks = check_run(frame, withheld)
    summary = Summary(
        manifest=run.manifest,
        validity=overall_validity(checks),
        checks=checks,
        values=tuple(_value(frame, metric, readings[metric.name]) for metric in METRICS),
        steps=step_totals(frame.steps),
        cautions=run_cautions(run, frame, checks),
        sessions=session_totals(frame),
        settled_s=settled_s(frame),
        cut_s=frame.cut_s,
        left_out=int((~frame.is_settled).sum()),
    )
    return summary if run.imported is None else as_imported(summary, run.imported)


def _value(frame: RunFrame, metric: Metric, reading: float | Unmeasured) -> MetricValue:
    if isinstance(reading, Unmeasured):
        return MetricValue(metric.name, None, reading.reason)
    known = Bounded() if metric.bounded is None else metric.bounded(frame)
    return MetricValue(
        metric.name, float(reading), None, known.ci_within, known.mlperf_estimate, known.reason
    )
