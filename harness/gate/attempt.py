"""One run of a command that makes many: what it left behind, and whether its numbers count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.analyzer.experiment import summarize_alike
from harness.analyzer.summary import CheckVerdict, MetricValue, Summary, Validity
from harness.core.cautions import Caution
from harness.core.manifest import RunStatus
from harness.core.rundir import RunFolder

FAILED, NOT_RUN = "FAILED", "NOT RUN"


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run came out. `outcome` is VALID or WARN, or it does not count, and `why` says why."""

    run: str
    outcome: str
    why: str | None = None

    @property
    def counts(self) -> bool:
        """True when the numbers of the run are used."""
        return self.outcome in (Validity.VALID.value, Validity.WARN.value)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run that was asked for: what it left behind, if anything, and why it failed, if so."""

    run: str
    folder: RunFolder | None = None
    summary: Summary | None = None
    failure: str | None = None

    @property
    def outcome(self) -> RunOutcome:
        """How the run came out, and why it does not count, if so."""
        if self.summary is None:
            return RunOutcome(self.run, FAILED if self.failure else NOT_RUN, self.failure)
        manifest = self.summary.manifest
        if self.failure is not None or manifest.status is not RunStatus.COMPLETE:
            why = self.failure or manifest.failure or f"it is {manifest.status.value}"
            return RunOutcome(self.run, FAILED, why)
        failed = (c for c in self.summary.checks if c.verdict is CheckVerdict.INVALID)
        why = ", ".join(f"{c.id} {c.title}: {c.value}" for c in failed)
        return RunOutcome(self.run, self.summary.validity.value, why or None)

    @property
    def is_whole(self) -> bool:
        """True when the run came to its end, whether its numbers count or not."""
        return self.outcome.outcome not in (FAILED, NOT_RUN)

    @property
    def counted(self) -> Summary | None:
        """The numbers of the run, when they count."""
        return self.summary if self.outcome.counts else None

    def value(self, metric: str) -> MetricValue:
        """`metric` of the run, or why there is none."""
        if self.counted is None:
            outcome = self.outcome
            said = outcome.outcome if outcome.why is None else f"{outcome.outcome}: {outcome.why}"
            return MetricValue(metric, None, said)
        return next(value for value in self.counted.values if value.metric == metric)


def cut_alike(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """`attempts`, whose numbers are held against each other, with one beginning left out of all.

    Raises ValueError when one of them left nothing.
    """
    folders = [run.folder for run in attempts if run.folder is not None]
    cut = summarize_alike(folders, [run.summary for run in attempts if run.summary is not None])
    return tuple(replace(run, summary=alike) for run, alike in zip(attempts, cut, strict=True))


def cautions_of_runs(attempts: Iterable[Attempt]) -> tuple[Caution, ...]:
    """Of doubts about runs that only differ in a number, the first: `show` has those of a run."""
    summaries = (attempt.summary for attempt in attempts if attempt.summary is not None)
    first: dict[tuple[str, str], Caution] = {}
    for doubt in (doubt for summary in summaries for doubt in summary.cautions):
        first.setdefault((doubt.code, doubt.remedy), doubt)
    return tuple(first.values())
