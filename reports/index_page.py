"""One HTML file on many runs: to find runs, and to see how metrics moved over time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.analyzer.change_points import FALSE_ALARMS, LEAST_POINTS, LEAST_SIDE
from harness.analyzer.metrics import find_metric
from harness.analyzer.run_index import RunIndex
from harness.gate.index_table import (
    METRICS,
    SUBJECT,
    broken_table,
    change_table,
    change_text,
    index_table,
    when,
)
from harness.gate.trends import (
    MOST_RUNS,
    Change,
    Trend,
    changes,
    stretches,
    subjects,
    trends,
)
from reports.filling import SCRIPT, fill

# The pages that commands write beside runs, or in the folder above them.
PAGES = ("report.html", "duel.html", "ablation.html", "sweep.html", "capacity.html")
INDEX = "index.html"
# Fewer runs make no line.
LEAST_DRAWN = 3


def render_index(index: RunIndex, at: Path) -> str:
    """The page as text, for the folder `at`; the same input gives the same text."""
    about = subjects(index.runs)
    found = trends(index.runs)
    moved = [change for trend in found for metric in METRICS for change in changes(trend, metric)]
    series = list(_series(found, {run.name: row for row, run in enumerate(index.runs)}))
    lengths = [len(trend.series(metric)) for trend in found for metric in METRICS]
    return fill(
        "index.html.j2",
        scripts=(SCRIPT, "index.js"),
        title=f"Runs in {index.folder}",
        verdicts=Counter(str(run.validity or "not summarised") for run in index.runs),
        engines=len({subject.engine for subject in about}),
        runs=index_table(index.runs, about, _links(index, at)),
        broken=broken_table(index.broken),
        changes=change_table(moved),
        doubts=_doubts(sum(n >= LEAST_POINTS for n in lengths), len(moved)),
        choices=dict(zip(SUBJECT, _choices(map(astuple, about)), strict=True)),
        metrics=[find_metric(name).title for name in METRICS],
        least_drawn=LEAST_DRAWN,
        trends={"subject": SUBJECT, "trends": series},
    )


def _choices(about: Iterator[tuple[str, ...]]) -> Iterator[list[str]]:
    """What there is to choose from in each column."""
    columns: list[set[str]] = [set() for _ in SUBJECT]
    for subject in about:
        for column, text in zip(columns, subject, strict=True):
            column.add(text)
    return map(sorted, columns)


def _links(index: RunIndex, at: Path) -> dict[str, str]:
    """Where the page of each run is that has one, from the folder `at`."""
    found, seen = {}, dict[Path, Path | None]()
    for run in index.runs:
        folder = index.folder / run.name
        for place in (folder, folder.parent):
            if place not in seen:
                seen[place] = next((p for p in map(place.joinpath, PAGES) if p.is_file()), None)
            if (page := seen[place]) is not None:
                found[run.name] = quote(Path(os.path.relpath(page, at)).as_posix())
                break
    return found


def _series(found: Sequence[Trend], rows: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """What the script draws: of each trend the metrics with runs enough, as rows of the table."""
    for trend in found:
        counted = (metric for metric in METRICS if len(trend.series(metric)) >= LEAST_DRAWN)
        series = [_line(trend, metric, rows) for metric in counted]
        if series:
            yield {"row": rows[trend.runs[-1].name], "series": series}


def _line(trend: Trend, metric: str, rows: Mapping[str, int]) -> dict[str, Any]:
    moved = list(changes(trend, metric))
    texts = ["", *map(change_text, moved)]
    return {
        "metric": find_metric(metric).title,
        "said": _said(trend, metric, moved),
        "stretches": [
            {
                "rows": [rows[run.name] for run in part.runs],
                "level": part.level,
                "moved": text,
            }
            for part, text in zip(stretches(trend, metric), texts, strict=True)
        ],
    }


def _said(trend: Trend, metric: str, moved: Sequence[Change]) -> str:
    """What is seen in the picture, in words."""
    counted = len(trend.series(metric))
    of = f" of the latest {MOST_RUNS}" if len(trend.runs) == MOST_RUNS else ""
    said = [f"{counted}{of} runs"]
    if left_out := sum(metric in run.values for run in trend.runs) - counted:
        said.append(f"{left_out} left out that did not end well or are INVALID")
    if counted < LEAST_POINTS:
        said.append(f"changes are sought from {LEAST_POINTS} on")
    elif not moved:
        said.append("no change found")
    for change in moved:
        first = change.after.runs[0]
        said.append(f"{change_text(change)} from {when(first.manifest.created_utc)} on")
    return ", ".join(said)


def _doubts(looked_at: int, moved: int) -> str:
    """How far the changes may be believed."""
    said = (
        f"Sought by E-divisive with a permutation test, in series of at least {LEAST_POINTS} runs "
        f"that ended well and are not INVALID; a change has {LEAST_SIDE} runs on each side at "
        "least. Levels are medians."
    )
    if looked_at:
        said += (
            f" Series looked at: {looked_at}; changes found: {moved}. With no change at all "
            f"about {looked_at * FALSE_ALARMS:.2g} series would show one, more if runs depend on "
            "the ones before. A change is a question, not a verdict: batchmark compare judges."
        )
    return said
