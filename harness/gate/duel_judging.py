"""From the runs of a duel to its result: which pairs count, what they say, what is doubtful."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.analyzer.summary import Summary
from harness.core.cautions import Caution, Code, caution
from harness.core.manifest import RunManifest
from harness.gate.attempt import Attempt, cautions_of_runs, cut_alike
from harness.gate.comparison import ComparisonTable, compare, with_agreement
from harness.gate.decision import Decision, Pair
from harness.gate.duel import DuelPair, DuelSide, Place
from harness.gate.metric_decision import fails_by_failures_alone

# Said of a comparison by itself, in words that are of no use to a duel.
_SAID_OTHERWISE = {Code.TOO_FEW_RUNS.value}


@dataclass(frozen=True, slots=True)
class PairRuns:
    """One pair as it was run: its place, its seed, and what both runs left behind."""

    place: Place
    seed: int
    baseline: Attempt
    candidate: Attempt

    @property
    def stored(self) -> DuelPair:
        """The pair as it is kept."""
        return DuelPair(
            number=self.place.number,
            attempt=self.place.attempt,
            seed=self.seed,
            baseline_first=self.place.baseline_first,
            baseline=self.baseline.outcome,
            candidate=self.candidate.outcome,
            counts=self.counted is not None,
            digest=next(iter(self.digests)) if len(self.digests) == 1 else None,
        )

    @property
    def digests(self) -> frozenset[str]:
        """Those of what the runs were to send; more than one where it was not the same."""
        runs = (self.baseline.folder, self.candidate.folder)
        return frozenset(run.manifest.workload.digest for run in runs if run is not None)

    @property
    def counted(self) -> Pair | None:
        """The numbers of the pair; None unless both runs were sent the same and can be judged."""
        baseline, candidate = self.baseline.counted, judged(self.candidate)
        if baseline is None or candidate is None or len(self.digests) > 1:
            return None
        return Pair(baseline, candidate, self.seed, self.place.baseline_first)


def judged(candidate: Attempt) -> Summary | None:
    """The numbers of a candidate's run: when they count, or when only its requests are at fault."""
    summary = candidate.summary if candidate.is_whole else None
    is_failing = summary is not None and fails_by_failures_alone(summary)
    return summary if is_failing else candidate.counted


def counted_of(pairs: Sequence[PairRuns]) -> tuple[Pair, ...]:
    """The pairs that count."""
    return tuple(pair.counted for pair in pairs if pair.counted is not None)


def sent_one_schedule(pairs: Sequence[PairRuns]) -> bool:
    """True when there are several pairs, and all runs were sent the same bytes at the same times.

    So it is with a locked schedule, and with a trace of texts: no seed changes them.
    """
    sent = frozenset[str]().union(*(pair.digests for pair in pairs))
    return len({pair.place.number for pair in pairs if pair.digests}) > 1 and len(sent) == 1


def with_one_cut(pairs: Sequence[PairRuns]) -> list[PairRuns]:
    """`pairs`, with the runs of those that count cut alike."""
    counted = [pair for pair in pairs if pair.counted is not None]
    cut = iter(cut_alike([run for pair in counted for run in (pair.baseline, pair.candidate)]))
    return [
        pair if pair.counted is None else replace(pair, baseline=next(cut), candidate=next(cut))
        for pair in pairs
    ]


def compare_sides(
    sides: tuple[DuelSide, DuelSide], pairs: Sequence[PairRuns], allowed: Collection[str]
) -> ComparisonTable | None:
    """What the two sides have in common, and whether they did the same work; None without a pair.

    `allowed` are keys that may differ. Raises NotComparable when any two of the runs are not alike.
    """
    counted = [pair for pair in pairs if pair.counted is not None]
    if not counted:
        return None
    base, cand = [pair.baseline for pair in counted], [pair.candidate for pair in counted]
    summaries = [[run.summary for run in side if run.summary] for side in (base, cand)]
    folders = [[run.folder for run in side if run.folder] for side in (base, cand)]
    names = [side.name for side in sides]
    table = compare(names[0], summaries[0], names[1], summaries[1], paired=True, allowed=allowed)
    return with_agreement(table, *folders)


def cautions_of(
    pairs: Sequence[PairRuns],
    table: ComparisonTable | None,
    decision: Decision | None,
    *,
    is_locked: bool,
) -> tuple[Caution, ...]:
    """What is doubtful about the whole, each doubt once. `is_locked`: all pairs sent the same."""
    found = [] if table is None else [c for c in table.cautions if c.code not in _SAID_OTHERWISE]
    if is_locked and len(pairs) > 1:
        found.append(caution(Code.ONE_SCHEDULE))
    sides = ([pair.baseline for pair in pairs], [pair.candidate for pair in pairs])
    found.extend(cautions_of_runs(run for side in sides for run in side))
    said = {doubt.code for doubt in found}
    of_gate = () if decision is None else decision.cautions
    return tuple(dict.fromkeys((*(c for c in of_gate if c.code not in said), *found)))


def manifests_of(pairs: Sequence[PairRuns]) -> tuple[RunManifest, ...]:
    """That of one run of each side, of one that counts, if there is any."""
    sides = ([pair.baseline for pair in pairs], [pair.candidate for pair in pairs])
    return tuple(manifest for side in sides for manifest in _chosen(side))


def _chosen(runs: Sequence[Attempt]) -> Iterator[RunManifest]:
    known = [(run.counted is not None, run.folder) for run in runs if run.folder is not None]
    if known:
        yield max(known, key=lambda pair: pair[0])[1].manifest
