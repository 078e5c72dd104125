"""A run of another tool in numbers: what was recomputed, what is claimed, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.analyzer.estimators import floor_n
from harness.analyzer.grading import graded, invalid_if
from harness.analyzer.summary import Check, CheckVerdict, MetricValue, Summary, Validity
from harness.core.cautions import Caution, Code, caution
from harness.core.imported import Imported

# What the requests of a file can be checked for, as far as it has them.
_CHECKED = ("V01", "V02", "V15", "V16")
# The doubts of ours that hold for an imported run too.
_SHARED = (Code.REQUESTS_FAILED, Code.TOO_FEW_REQUESTS, Code.STREAM_LOOKS_BUFFERED)
_FLOORS = "p50 6, p90 36, p99 368 requests"


def as_imported(summary: Summary, imported: Imported) -> Summary:
    """`summary`, which was made of the requests in the run folder, as the file allows it.

    A metric has its value from these requests where they say enough, else the one that the file
    claims, else none. A claimed percentile of too few requests is withheld, as one of ours is.
    """
    claims = {metric.metric: metric.value for metric in imported.metrics if metric.metric}
    values = tuple(
        value
        if value.metric in imported.recomputed
        else _claimed(value.metric, claims.get(value.metric), imported)
        for value in summary.values
    )
    checks = tuple(_checks(summary, imported, values))
    return replace(
        summary,
        validity=_overall(checks),
        checks=checks,
        values=values,
        steps=None,
        cautions=tuple(dict.fromkeys((*imported.cautions, *_doubts(summary, imported)))),
    )


def _claimed(metric: str, value: float | None, imported: Imported) -> MetricValue:
    if value is None:
        return MetricValue(metric, None, f"the file of {imported.tool} does not say")
    percent = _percent_of(metric)
    if percent is not None and imported.requests is not None:
        needed = floor_n(percent)
        if imported.requests < needed:
            reason = (
                f"{imported.requests} requests cannot support p{percent} ({needed} needed); "
                f"{imported.tool} says {value:.4g}"
            )
            return MetricValue(metric, None, reason)
    return MetricValue(metric, value)


def _percent_of(metric: str) -> int | None:
    word = metric.rpartition("_p")[2]
    return int(word) if word.isdigit() else None


def _checks(
    summary: Summary, imported: Imported, values: tuple[MetricValue, ...]
) -> Iterator[Check]:
    said = "; ".join(imported.faults[:2]) or "nothing against itself"
    more = f" and {len(imported.faults) - 2} more" if len(imported.faults) > 2 else ""
    verdict = invalid_if(imported.faults)
    yield Check("I01", "file agrees with itself", said + more, "0 contradictions", verdict)
    counts = summary.manifest.counts
    if imported.recomputed:
        yield from (check for check in summary.checks if check.id in _CHECKED)
    elif counts.sent:
        share = counts.failed / counts.sent
        value = f"{counts.failed} of {counts.sent} ({share:.2%})"
        title, limit = "requests failed", "0 WARN, 1 % INVALID"
        yield Check("V15", title, value, limit, graded(share, 0.0, 0.01))
    else:
        yield Check("V15", "requests ended well", "none", "1", CheckVerdict.INVALID)
    withheld = [v.metric for v in values if "cannot support" in (v.reason or "")]
    value = f"withheld: {', '.join(withheld)}" if withheld else "none withheld"
    is_short = CheckVerdict.WARN if withheld else CheckVerdict.PASS
    yield Check("V05", "percentiles supported", value, _FLOORS, is_short)


def _overall(checks: tuple[Check, ...]) -> Validity:
    """The worst that `checks` say; never VALID, because of how it was measured nothing is known."""
    if any(check.verdict is CheckVerdict.INVALID for check in checks):
        return Validity.INVALID
    return Validity.WARN


def _doubts(summary: Summary, imported: Imported) -> Iterator[Caution]:
    shared = {code.value for code in _SHARED}
    yield from (doubt for doubt in summary.cautions if doubt.code in shared)
    if imported.recomputed or not imported.requests:
        return
    for percent in (50, 90, 99):
        if imported.requests < (needed := floor_n(percent)):
            yield caution(
                Code.TOO_FEW_REQUESTS,
                requests=imported.requests,
                percentile=f"p{percent}",
                needed=needed,
            )
