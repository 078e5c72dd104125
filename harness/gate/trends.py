"""The history of one thing: runs of one engine, model, workload and machine, and where they change.

A change point is a question to ask of two runs, never a verdict: beside it stands what else is
unlike between them, such as the engine's version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import median

import numpy as np

from harness.analyzer.change_points import ChangePoint, change_points
from harness.analyzer.run_index import IndexedRun
from harness.core.imported import DEFINITIONS
from harness.core.manifest import RunManifest
from harness.gate.comparability import DIGEST_SHOWN, differences

# More runs than these are too many to draw, and to shuffle; the latest ones are looked at.
MOST_RUNS = 200
_SEED = 1


@dataclass(frozen=True, slots=True)
class Subject:
    """What a run is about, in the words that it is found by."""

    engine: str
    model: str
    workload: str
    hardware: str


@dataclass(frozen=True, slots=True)
class Trend:
    """The latest runs of one subject, the oldest first; at most MOST_RUNS of them."""

    subject: Subject
    runs: tuple[IndexedRun, ...]

    def series(self, metric: str) -> list[IndexedRun]:
        """The runs that `metric` has a value of which counts."""
        return [run for run in self.runs if run.counts and metric in run.values]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Runs between two changes of a metric, and their median. `p` is of the change at its start."""

    runs: tuple[IndexedRun, ...]
    level: float
    p: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A metric is at another level from `after.runs` on. `unlike` is what else changed there."""

    metric: str
    subject: Subject
    before: Stretch
    after: Stretch
    unlike: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        """The new level over the old one; None where that is 0."""
        return self.after.level / self.before.level if self.before.level else None


def subjects(runs: Sequence[IndexedRun]) -> list[Subject]:
    """What each run is about; workloads of one title and unlike lengths are told apart."""
    shapes: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        shapes[run.manifest.workload.title].add(run.manifest.workload.shape_digest)
    return [_subject(run.manifest, shapes[run.manifest.workload.title]) for run in runs]


def _subject(manifest: RunManifest, shapes: set[str]) -> Subject:
    work, others = manifest.workload, manifest.labels.get(DEFINITIONS)
    shape = f" [{work.shape_digest[:DIGEST_SHOWN]}]" if len(shapes) > 1 else ""
    return Subject(
        engine=manifest.engine.name + (f", as {others} counts" if others else ""),
        model=manifest.model_title,
        workload=work.title + shape,
        hardware=manifest.machine.title + (", simulated" if manifest.clock == "virtual" else ""),
    )


def trends(runs: Sequence[IndexedRun]) -> tuple[Trend, ...]:
    """The history of each subject, the one with most runs first. `runs` are the latest first."""
    of: dict[Subject, list[IndexedRun]] = defaultdict(list)
    for run, subject in zip(runs, subjects(runs), strict=True):
        of[subject].append(run)
    found = (Trend(subject, tuple(reversed(of[subject][:MOST_RUNS]))) for subject in of)
    return tuple(sorted(found, key=lambda trend: -len(trend.runs)))


def stretches(trend: Trend, metric: str) -> tuple[Stretch, ...]:
    """The runs of a trend, parted where `metric` changes; none when none has a value that counts.

    Values that are all above 0 are judged by their ratios.
    """
    runs = trend.series(metric)
    values = tuple(run.values[metric] for run in runs)
    if not runs:
        return ()
    found = _changes(values)
    starts = {0: None} | {change.index: change.p for change in found}
    return tuple(
        Stretch(tuple(runs[a:b]), median(values[a:b]), starts[a])
        for a, b in pairwise([*starts, len(runs)])
    )


@lru_cache(maxsize=4096)  # a page that is made again looks at the same series
def _changes(values: tuple[float, ...]) -> tuple[ChangePoint, ...]:
    series = np.log(values) if min(values) > 0 else np.asarray(values)
    return change_points(series.tolist(), np.random.Generator(np.random.PCG64(_SEED)))


def changes(trend: Trend, metric: str) -> Iterator[Change]:
    """Where `metric` changed, the oldest change first."""
    for before, after in pairwise(stretches(trend, metric)):
        last, first = before.runs[-1].manifest, after.runs[0].manifest
        unlike = differences(last, first)
        said = tuple(d.factor for d in (*unlike.refusals, *unlike.factors))
        yield Change(metric, trend.subject, before, after, said)
