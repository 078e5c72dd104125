"""What `gate` is given, read: duels, run folders of two sides, or a saved baseline's name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from harness.analyzer.summarize import summarize
from harness.analyzer.summary import Summary
from harness.commands.duel import DUEL
from harness.commands.judging import cut_alike, open_baseline, read_reported
from harness.commands.kept import read_kept
from harness.core.clock import utc_now
from harness.core.errors import UsageError
from harness.core.rundir import MANIFEST, read_manifest
from harness.gate.agreement import agreement
from harness.gate.attempt import FAILED, NOT_RUN
from harness.gate.baseline import age_cautions, origin, retirement
from harness.gate.decision import (
    Decision,
    Pair,
    decide,
    is_fit,
    is_fit_to_fail,
    load_name,
    with_answers,
)
from harness.gate.duel import Duel
from harness.gate.rules import GateRules
from harness.gate.unpaired_gate import decide_stored, decide_unpaired
from reports.page import ReportedRun


@dataclass(frozen=True, slots=True)
class Sides:
    """Where both sides of a gate are. `baseline` is empty when `runs` are duels."""

    runs: tuple[Path, ...]
    baseline: tuple[str, ...]
    reruns: tuple[Path, ...]
    store: Path
    allowed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunsOfPair:
    """The two runs of a pair of a duel, read, and the pair that they are."""

    baseline: ReportedRun
    candidate: ReportedRun
    pair: Pair


def decide_sides(sides: Sides, rules: GateRules) -> Decision:
    """The decision on `sides`. Raises UsageError when they name nothing, or no two sides."""
    if not sides.runs:
        msg = "there is nothing to gate; name a duel's folder, or run folders and their --baseline"
        raise UsageError(msg)
    duels = [path for path in sides.runs if (path / DUEL).is_file()]
    if not duels:
        return _decide_runs(sides, rules)
    if len(duels) < len(sides.runs) or sides.baseline or sides.reruns:
        msg = (
            f"{duels[0]} is a duel, which has both sides; give no run folder or --baseline with it"
        )
        raise UsageError(msg)
    read = read_pairs(duels)
    if not read:
        raise UsageError(f"{duels[0]} has no pair that was run to its end; run the duel again")
    first = read_duel(duels[0])
    found = decide(
        [of_pair.pair for of_pair in read],
        rules,
        is_last_look=len(read) >= rules.pairs[-1],
        allowed=sides.allowed,
        names=(first.baseline.name, first.candidate.name),
    )
    return _with_answers(found, [p.baseline for p in read], [p.candidate for p in read])


def commands_of(sides: Sides) -> tuple[tuple[str, ...], ...]:
    """The commands that made what is judged, each once."""
    commands = []
    for path in sides.runs:
        if (path / DUEL).is_file():
            commands.append(read_duel(path).command)
        else:
            commands += [read_manifest(folder).command for folder in _run_folders(path)]
    return tuple(dict.fromkeys(commands))


def read_pairs(duels: Sequence[Path]) -> list[RunsOfPair]:
    """Every pair of the duels in these folders whose two runs came to their end.

    Those that can be judged are cut alike. Raises RunFolderError when a duel or a run of it cannot
    be read.
    """
    found = []
    for path in duels:
        for pair in read_duel(path).pairs:
            if {pair.baseline.outcome, pair.candidate.outcome} & {FAILED, NOT_RUN}:
                continue
            base, cand = (read_reported(path / run.run) for run in (pair.baseline, pair.candidate))
            sides = Pair(base.summary, cand.summary, pair.seed, pair.baseline_first)
            found.append(RunsOfPair(base, cand, sides))
    cut = _cut_by_load([(of.baseline, of.candidate) for of in found])
    return [
        RunsOfPair(b, c, replace(of.pair, baseline=b.summary, candidate=c.summary))
        for of, (b, c) in zip(found, cut, strict=True)
    ]


def _cut_by_load(
    rows: Sequence[tuple[ReportedRun, ...]], allowed: Collection[str] = ()
) -> list[tuple[ReportedRun, ...]]:
    """`rows`, of a pair or of one run each, with all runs under one load cut alike.

    Those that are left out of a decision stay as they are.
    """
    under: dict[str, list[int]] = {}
    for at, (*base, last) in enumerate(rows):
        if all(is_fit(run.summary) for run in base) and is_fit_to_fail(last.summary):
            under.setdefault(load_name(rows[at][0].summary, allowed), []).append(at)
    cut = list(rows)
    for places in under.values():
        runs = iter(cut_alike([run for at in places for run in rows[at]]))
        for at in places:
            cut[at] = tuple(islice(runs, len(rows[at])))
    return cut


def read_duel(path: Path) -> Duel:
    """The duel in the folder `path`. Raises RunFolderError when it cannot be read."""
    return read_kept(Duel, path, DUEL, "duel")


def _decide_runs(sides: Sides, rules: GateRules) -> Decision:
    runs = _read(sides.runs)
    if not sides.baseline:
        msg = "no side is the baseline; say which with --baseline: an engine, runs or a saved name"
        raise UsageError(msg)
    (name, *more) = sides.baseline
    is_engine = not more and name in {_engine(run) for run in runs}
    folders = [Path(word) for word in sides.baseline if _run_folders(Path(word))]
    if not is_engine and not folders and not more:
        return _decide_saved(name, runs, sides, rules)
    if sides.reruns:
        raise UsageError("--rerun is for a saved baseline alone; leave it out")
    if is_engine:
        base = [run for run in runs if _engine(run) == name]
        runs = [run for run in runs if _engine(run) != name]
    elif len(folders) == len(sides.baseline):
        base = _read(folders)
    else:
        msg = f"--baseline {' '.join(sides.baseline)!r} mixes names and folders; give one name"
        raise UsageError(msg)
    before, after = _numbers((base, runs), sides.allowed)
    found = decide_unpaired(before, after, rules, allowed=sides.allowed)
    return _with_answers(found, base, runs)


def _decide_saved(
    name: str, runs: Sequence[ReportedRun], sides: Sides, rules: GateRules
) -> Decision:
    saved = open_baseline(sides.store, name, sides.allowed)
    base = [ReportedRun(folder, summarize(folder)) for folder in saved.read()]
    before, after, again = _numbers((base, runs, _read(sides.reruns)), sides.allowed)
    found = decide_stored(
        before,
        after,
        again,
        rules,
        allowed=sides.allowed,
        names=(saved.name, _engine(runs[0])),
    )
    now = utc_now()
    found = replace(
        found,
        allowed=(*found.allowed, *retirement(saved, sides.allowed)),
        baseline_from=origin(saved, now),
        cautions=(*found.cautions, *age_cautions(saved, now)),
    )
    return _with_answers(found, base, runs)


def _with_answers(
    decision: Decision, baseline: Sequence[ReportedRun], candidate: Sequence[ReportedRun]
) -> Decision:
    """`decision` after the answers of the two sides were compared."""
    found = agreement([run.folder for run in baseline], [run.folder for run in candidate])
    return with_answers(decision, found)


def _engine(run: ReportedRun) -> str:
    return run.summary.manifest.engine.name


def _numbers(
    groups: Sequence[Sequence[ReportedRun]], allowed: Collection[str]
) -> list[list[Summary]]:
    """Each group in numbers; the runs of all groups that can be judged are cut alike."""
    cut = iter(_cut_by_load([(run,) for run in chain(*groups)], allowed))
    return [[run.summary for (run,) in islice(cut, len(group))] for group in groups]


def _read(paths: Sequence[Path]) -> list[ReportedRun]:
    """The runs at `paths`, each once; a folder of run folders stands for all of them."""
    for path in paths:
        if not _run_folders(path):
            read_manifest(path)  # raises, and says what is wrong with it
    folders = dict.fromkeys(folder for path in paths for folder in _run_folders(path))
    return [read_reported(folder) for folder in folders]


def _run_folders(path: Path) -> list[Path]:
    """The run folder `path`, or those in it; none when there are none."""
    files = [path / MANIFEST] if (path / MANIFEST).is_file() else sorted(path.glob(f"*/{MANIFEST}"))
    return [file.parent.resolve() for file in files]
