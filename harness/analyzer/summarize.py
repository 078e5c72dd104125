"""A run folder in, its Summary out: the one way from what was measured to numbers."""

from __future__ import annotations

from harness.analyzer.frame import frame_of
from harness.analyzer.measures import Unmeasured, is_withheld
from harness.analyzer.metrics import METRICS
from harness.analyzer.run_cautions import run_cautions
from harness.analyzer.steps import step_totals
from harness.analyzer.summary import MetricValue, Summary
from harness.analyzer.validity import check_run, overall_validity
from harness.core.rundir import RunFolder


def summarize(run: RunFolder) -> Summary:
    """`run` in numbers. An empty run has no values, but it has its checks and reasons."""
    frame = frame_of(run)
    readings = {metric.name: metric.function(frame) for metric in METRICS}
    withheld = [
        metric.name
        for metric in METRICS
        if metric.refines is None and not metric.is_of_steps and is_withheld(readings[metric.name])
    ]
    checks = check_run(frame, withheld)
    return Summary(
        manifest=run.manifest,
        validity=overall_validity(checks),
        checks=checks,
        values=tuple(_value(name, reading) for name, reading in readings.items()),
        steps=step_totals(frame.steps),
        cautions=run_cautions(run, frame, checks),
    )


def _value(name: str, reading: float | Unmeasured) -> MetricValue:
    if isinstance(reading, Unmeasured):
        return MetricValue(name, None, reading.reason)
    return MetricValue(name, float(reading))
