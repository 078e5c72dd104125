"""What a probe of `batchmark capacity` was, how it is answered, and what all of them come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.analyzer.frame import frame_of
from harness.analyzer.summary import Check, CheckVerdict, MetricValue, Summary
from harness.core.cautions import Caution
from harness.core.load_points import Axis
from harness.core.manifest import RunStatus
from harness.core.objectives import Objective
from harness.gate import formatting
from harness.gate.attempt import Attempt
from harness.gate.capacity import Answer, Bracket, Probe, Search, Tried, bracket, next_probe
from harness.gate.finding import Finding, find

# History of capacity.json:
#   1  first version
SCHEMA_VERSION = 1
METRICS = ("output_tok_s", "ttft_s_p50", "ttft_s_p99", "tpot_s_p50", "tpot_s_p99")
KEPT_UP, NO_FAILURES = "V13", "V15"
# Checks that are INVALID where the engine is at fault, or the run only too short: V03 and V04.
_NO_FAULTS = ("V03", "V04", NO_FAILURES)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One probe as measured: the run, what it shows of each objective, the answer, and why."""

    run: str
    level: float
    attempt: int
    seed: int
    outcome: str
    answer: Answer
    why: str
    findings: tuple[Finding, ...]
    values: tuple[MetricValue, ...]

    @property
    def tried(self) -> Tried:
        """What the search needs to know of it."""
        return Tried(self.level, self.answer)


@dataclass(frozen=True, slots=True)
class Capacity:
    """The highest load that met every objective, and the lowest that did not.

    `bracket` is in the unit of `axis`. `context` names the model, the machine and the mix;
    `command` repeats the search. `ended` says why it ended where the bracket is not narrow.
    """

    axis: Axis
    engine: str
    context: str
    objectives: tuple[str, ...]
    search: Search
    bracket: Bracket
    ended: str
    probes: tuple[ProbeResult, ...]
    command: tuple[str, ...]
    tool_version: str
    created_utc: str
    cautions: tuple[Caution, ...]
    schema_version: int = SCHEMA_VERSION

    @property
    def is_answered(self) -> bool:
        """True when the bracket is narrow, or the highest load that was to be tried met."""
        is_at_top = self.bracket.met is not None and self.bracket.met == self.search.most
        return self.bracket.is_narrow or is_at_top


def judge_probe(
    probe: Probe, seed: int, attempt: Attempt, objectives: Sequence[Objective]
) -> ProbeResult:
    """What the run of `attempt`, which has a folder and a summary, says of the probe's level.

    Every request that was due counts, also of a beginning that had not settled: the run is held
    against limits, not against another run, and what is slow at first is slow for somebody. V12
    says where it had not settled.
    """
    if attempt.folder is None or attempt.summary is None:
        msg = f"{attempt.run} left nothing to judge"
        raise ValueError(msg)
    frame = frame_of(attempt.folder)
    findings = tuple(find(objective, frame) for objective in objectives)
    answer, why = next(_reasons(attempt.summary, findings), (Answer.MET, ""))
    of_metrics = {value.metric: value for value in attempt.summary.values}
    return ProbeResult(
        run=attempt.run,
        level=probe.level,
        attempt=probe.attempt,
        seed=seed,
        outcome=attempt.outcome.outcome,
        answer=answer,
        why=why,
        findings=findings,
        values=tuple(of_metrics[name] for name in METRICS),
    )


def _reasons(summary: Summary, findings: Sequence[Finding]) -> Iterator[tuple[Answer, str]]:
    """Every reason not to say that the load was met, with its answer; the first one decides.

    Nothing is said of an engine by a run whose measuring was at fault. One that is only too short
    may show that an objective is not met, never that it is.
    """
    invalid = {c.id: c for c in summary.checks if c.verdict is CheckVerdict.INVALID}
    if faults := [check for check_id, check in invalid.items() if check_id not in _NO_FAULTS]:
        yield Answer.UNRESOLVED, f"the run is INVALID: {_listed(faults)}"
    if summary.manifest.status is RunStatus.FAILED:
        yield Answer.NOT_MET, f"the engine failed: {summary.manifest.failure}"
    if NO_FAILURES in invalid:
        yield Answer.NOT_MET, invalid[NO_FAILURES].value
    for check in summary.checks:
        if check.id == KEPT_UP and check.verdict is CheckVerdict.WARN:
            yield Answer.NOT_MET, check.value
    for answer in (Answer.NOT_MET, Answer.UNRESOLVED):
        if answer is Answer.UNRESOLVED and invalid:
            yield answer, f"too short to be sure: {_listed(invalid.values())}"
        if said := [said_of(finding) for finding in findings if finding.answer is answer]:
            yield answer, ", ".join(said)


def _listed(checks: Iterable[Check]) -> str:
    return ", ".join(f"{check.id} {check.title}: {check.value}" for check in checks)


def said_of(finding: Finding) -> str:
    """A finding in words: how many met the objective, the interval, and how many should."""
    interval = f"{formatting.share(finding.lo)} to {formatting.share(finding.hi)}"
    met = f"met by {formatting.share(finding.met / finding.due)} ({interval})"
    return f"{finding.objective} {met}, {formatting.share(finding.needed)} needed"


def why_ended(tried: Sequence[Tried], search: Search) -> str:
    """Why there is no narrow bracket after `tried`; empty when there is one."""
    known = bracket(tried, search)
    if known.is_narrow:
        return ""
    if len(tried) >= search.probes:
        return f"the search ended after {len(tried)} probes; begin nearer with --from"
    if next_probe(tried, search) is not None:
        return "the search was cut short; repeat it"
    if known.unresolved:
        return "probes between the two stayed unresolved; make them longer with --tries"
    if known.met is None:
        return "no load met the objectives; begin lower with --from"
    return "every load met the objectives; look higher with --to"
