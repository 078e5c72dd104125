"""Runs that are held against each other, in numbers that leave out the same beginning of each.

Were each run cut where it settled itself, the side with more to hide would be cleaned more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.analyzer.steady_checks import can_be_cut
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import Summary
from harness.core.cautions import Caution, Code, caution
from harness.core.imported import DEFINITIONS
from harness.core.rundir import RunFolder


def shared_cut_s(runs: Sequence[Summary]) -> float:
    """The one cut of an experiment: where the last of all its runs, of both sides, had settled.

    A cut that one of them has already is kept to as well. 0 where one of them cannot be cut.
    """
    if not all(can_be_cut(run.manifest) for run in runs):
        return 0.0
    return max((max(run.settled_s, run.cut_s) for run in runs), default=0.0)


def summarize_alike(folders: Sequence[RunFolder], runs: Sequence[Summary]) -> tuple[Summary, ...]:
    """`runs`, the summaries of `folders`, with the cut that they share.

    Where they share none because of one that cannot be cut, the others say so as a caution.
    """
    cut_s = shared_cut_s(runs)
    cut = (
        run if run.cut_s == cut_s else summarize(folder, cut_s)
        for folder, run in zip(folders, runs, strict=True)
    )
    uncut = next((run for run in runs if not can_be_cut(run.manifest)), None)
    if uncut is None:
        return tuple(cut)
    return tuple(
        replace(run, cautions=tuple(dict.fromkeys((*run.cautions, *_kept(run, uncut)))))
        for run in cut
    )


def _kept(run: Summary, uncut: Summary) -> Iterator[Caution]:
    if run.settled_s > 0:
        is_imported = DEFINITIONS in uncut.manifest.labels
        load = uncut.manifest.workload.load
        yield caution(
            Code.BEGINNING_KEPT,
            run=run.manifest.run_id,
            settled_s=run.settled_s,
            other=uncut.manifest.run_id,
            why="a result of another tool" if is_imported else f"as its load is {load}",
        )
