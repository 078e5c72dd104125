"""May what a page says be trusted? One answer, and all that speaks against it, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.analyzer.grading import is_virtual
from harness.analyzer.summary import CheckVerdict, Summary, Validity
from harness.core.cautions import Code
from harness.core.manifest import RunStatus
from harness.gate.cells import Tone
from harness.gate.comparison import INTERVAL_RUNS, ComparisonTable


@dataclass(frozen=True, slots=True)
class Trust:
    """The answer in a word or two, why it is that one, and what it means for the reader."""

    answer: str
    why: tuple[str, ...]
    tone: Tone


def trust(summaries: Sequence[Summary], comparisons: Sequence[ComparisonTable]) -> Trust:
    """How far the runs, and the ratios made of them, may be trusted; the worst comes first."""
    invalid, doubts = tuple(_invalid(summaries)), tuple(_doubts(summaries, comparisons))
    if invalid:
        return Trust("no", (*invalid, *doubts), Tone.BAD)
    if unsure := tuple(_unsure(comparisons)):
        return Trust("not yet", (*unsure, *doubts), Tone.WARN)
    if doubts:
        return Trust("with care", doubts, Tone.WARN)
    runs = _runs(len(summaries), len(summaries))
    sure = ", and every ratio has its interval" if comparisons else ""
    return Trust("yes", (f"{runs} VALID{sure}",), Tone.GOOD)


def _invalid(summaries: Sequence[Summary]) -> Iterator[str]:
    """Runs that prove nothing, and which checks say so."""
    found = [summary for summary in summaries if summary.validity is Validity.INVALID]
    if found:
        runs = _runs(len(found), len(summaries))
        checks = _titles(found, CheckVerdict.INVALID)
        yield f"{runs} INVALID ({checks}), so what is said here proves nothing"


def _unsure(comparisons: Sequence[ComparisonTable]) -> Iterator[str]:
    """Comparisons of too few runs to tell a difference from noise."""
    if any(min(t.baseline_runs, t.candidate_runs) < INTERVAL_RUNS for t in comparisons):
        yield (
            f"a ratio of fewer than {INTERVAL_RUNS} runs a side has no interval, so it may be noise"
        )


def _doubts(summaries: Sequence[Summary], comparisons: Sequence[ComparisonTable]) -> Iterator[str]:
    """What a reader has to know before believing a number that is valid."""
    if any(table.allowed for table in comparisons):
        yield "what was compared is not alike, and --allow says that it may be"
    yield from _other_work(comparisons)
    total = len(summaries)
    ended = Counter(summary.manifest.status for summary in summaries)
    for status in (RunStatus.INTERRUPTED, RunStatus.RUNNING, RunStatus.FAILED):
        if ended[status]:
            yield f"{_runs(ended[status], total)} {_ENDS[status]}"
    warned = [summary for summary in summaries if summary.validity is Validity.WARN]
    if warned:
        yield f"{_runs(len(warned), total)} WARN ({_titles(warned, CheckVerdict.WARN)})"
    if any(is_virtual(summary.manifest) for summary in summaries):
        yield "these are simulated figures, not measured ones"
    models = {summary.manifest.model_title for summary in summaries}
    if len(models) > 1:
        yield f"the runs are of {len(models)} models, which stand side by side but have no ratio"


def _other_work(comparisons: Sequence[ComparisonTable]) -> Iterator[str]:
    """Sides that did not do the same work, above all a faster one that did other work."""
    doubts = (doubt for table in comparisons for doubt in table.cautions)
    yield from (d.message for d in doubts if d.code == Code.FASTER_DID_OTHER_WORK)
    if not all(table.is_like_work for table in comparisons):
        yield "answers are not equally long, so rates and end-to-end latencies have no ratio"


_ENDS = {
    RunStatus.INTERRUPTED: "interrupted before the end",
    RunStatus.RUNNING: "not closed: still running, or killed",
    RunStatus.FAILED: "marked as failed",
}


def _runs(some: int, total: int) -> str:
    """Such as `1 of 3 runs is`, or `all 3 runs are`."""
    if total == 1:
        return "the run is"
    if some == total:
        return f"all {total} runs are"
    return f"{some} of {total} runs {'is' if some == 1 else 'are'}"


def _titles(summaries: Sequence[Summary], verdict: CheckVerdict) -> str:
    """The checks of `summaries` that say `verdict`, each once."""
    found = (
        f"{check.id} {check.title}"
        for summary in summaries
        for check in summary.checks
        if check.verdict is verdict
    )
    return ", ".join(dict.fromkeys(found))
