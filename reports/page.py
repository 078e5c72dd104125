"""One HTML file that says what was compared with what, how sure that is, and how it was measured.

What it says first: the ratios, and whether they can be trusted. `reports.filling` makes the text.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.analyzer.columns import records_with_error
from harness.analyzer.metrics import find_metric
from harness.analyzer.summary import StepTotals, Summary
from harness.core.cautions import Caution
from harness.core.imported import DEFINITIONS
from harness.core.jsonable import to_json
from harness.core.manifest import RunManifest
from harness.core.rundir import RunFolder
from harness.gate import formatting, tables
from harness.gate.agreement_table import agreement_table
from harness.gate.allowance import allowed_line
from harness.gate.cells import Cell
from harness.gate.comparison import ComparisonTable, phrase
from harness.gate.comparison_table import (
    HEADLINES,
    certainty,
    comparison_table,
    headlines,
    reading,
)
from harness.gate.step_table import step_table
from harness.gate.tables import value_text
from harness.gate.trust import trust
from harness.gate.turn_table import turn_table
from reports.filling import fill, write_page
from reports.method import each_run_tables, unlike_table
from reports.published import claim_table, fitting
from reports.ratios import ratio_figures
from reports.run_figures import run_figures
from reports.svg import MOST_POINTS
from reports.turns import turn_figures

_MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """A run as the page needs it: its records, and the numbers made of them."""

    folder: RunFolder
    summary: Summary


@dataclass(frozen=True, slots=True)
class Claim:
    """A ratio in words: the ratio, the rest of its phrase, how sure it is, and is it good news."""

    ratio: str
    rest: str
    of_what: str
    certainty: str
    reading: Cell


def write_report(
    path: Path,
    runs: Sequence[ReportedRun],
    comparisons: Sequence[ComparisonTable],
    simulated: Mapping[str, StepTotals] | None = None,
) -> None:
    """Write the page to `path`, which holds the old page or the whole new one, never a part.

    `simulated` holds what the simulator says of the same workload, by engine name.
    """
    write_page(path, render_report(runs, comparisons, simulated))


def render_report(
    runs: Sequence[ReportedRun],
    comparisons: Sequence[ComparisonTable],
    simulated: Mapping[str, StepTotals] | None = None,
) -> str:
    """The page as text; the same input gives the same text. Raises ValueError without a run."""
    if not runs:
        msg = "a report needs at least one run"
        raise ValueError(msg)
    summaries = [run.summary for run in runs]
    manifests = [summary.manifest for summary in summaries]
    return fill(
        "report.html.j2",
        **_headline(summaries, comparisons),
        **_doubts(runs, comparisons),
        comparisons=[(table, comparison_table(table)) for table in comparisons],
        published=claim_table(fitting(comparisons, manifests)),
        agreement=agreement_table(comparisons),
        figures=run_figures([run.folder for run in runs], summaries),
        most_points=MOST_POINTS,
        steps=step_table(summaries, simulated or {}) if any(s.steps for s in summaries) else None,
        metrics=tables.metric_table(summaries),
        turns=turn_table(summaries),
        turn_figures=turn_figures(summaries),
        ratio_figures=ratio_figures(comparisons),
        method=each_run_tables(manifests),
        manifests=[(manifest.run_id, _as_json(manifest)) for manifest in manifests],
        commands=list(dict.fromkeys(shlex.join(manifest.command) for manifest in manifests)),
        again=[shlex.join(_again(run)) for run in runs if _is_repeatable(run.summary.manifest)],
    )


def _headline(
    summaries: Sequence[Summary], comparisons: Sequence[ComparisonTable]
) -> dict[str, Any]:
    """What a reader of five seconds sees."""
    manifests = [summary.manifest for summary in summaries]
    return {
        "title": _listed(manifest.workload.title for manifest in manifests),
        "model": _listed(manifest.model_title for manifest in manifests),
        "machine": _listed(manifest.machine.title for manifest in manifests),
        "allowed": allowed_line(tuple(dict.fromkeys(w for t in comparisons for w in t.allowed))),
        "claims": [(table, _claims(table)) for table in comparisons],
        "values": [] if comparisons else _values(summaries[:_MOST_NAMED]),
        "trust": trust(summaries, comparisons),
        "verdicts": Counter(summary.validity for summary in summaries),
    }


def _doubts(runs: Sequence[ReportedRun], comparisons: Sequence[ComparisonTable]) -> dict[str, Any]:
    """What is not alike, and what speaks against a number."""
    summaries = [run.summary for run in runs]
    manifests = [summary.manifest for summary in summaries]
    labels = tables.run_labels(manifests)
    errors = (
        (label, records_with_error(run.folder.requests))
        for label, run in zip(labels, runs, strict=True)
    )
    return {
        "unlike": unlike_table(manifests),
        "cautions": tables.caution_table(_cautions(labels, summaries, comparisons), len(runs)),
        "validity": tables.validity_table(summaries),
        "checks": tables.check_table(summaries),
        "errors": tables.error_table(errors),
    }


def _listed(texts: Iterable[str]) -> str:
    return formatting.one_line(", ".join(dict.fromkeys(texts)))


def _cautions(
    labels: Sequence[str], summaries: Sequence[Summary], comparisons: Sequence[ComparisonTable]
) -> list[tuple[str, Sequence[Caution]]]:
    """What each caution is about, and the cautions; the runs come last."""
    pairs = [(f"{c.candidate_name} against {c.baseline_name}", c.cautions) for c in comparisons]
    runs = [(label, run.cautions) for label, run in zip(labels, summaries, strict=True)]
    return [*pairs, *runs]


def _claims(table: ComparisonTable) -> list[Claim]:
    """The ratios that open the page: those of the headline metrics that have one."""
    claims: list[Claim] = []
    for row in headlines(table):
        rest = phrase(table, row).removeprefix(row.ratio_text).strip()
        title = find_metric(row.metric).title
        claims.append(Claim(row.ratio_text, rest, title, certainty(row), reading(row)))
    return claims


def _values(summaries: Sequence[Summary]) -> list[tuple[str, str]]:
    """What opens a page without ratios: of each run its headline metrics, as far as it has them."""
    labels = tables.run_labels([summary.manifest for summary in summaries])
    return [(label, _said(run)) for label, run in zip(labels, summaries, strict=True)]


def _said(summary: Summary) -> str:
    known = [v for v in summary.values if v.metric in HEADLINES and v.value is not None]
    metrics = ((find_metric(value.metric), value) for value in known)
    texts = (f"{metric.title} {value_text(value, metric.unit)}" for metric, value in metrics)
    return ", ".join(texts) or "no headline metric was measured"


def _as_json(manifest: RunManifest) -> str:
    return json.dumps(to_json(manifest), indent=1, ensure_ascii=False)


def _is_repeatable(manifest: RunManifest) -> bool:
    """Whether `batchmark reproduce` can make the run again: it was measured, and by batchmark."""
    return manifest.clock == "monotonic" and DEFINITIONS not in manifest.labels


def _again(run: ReportedRun) -> tuple[str, ...]:
    return ("batchmark", "reproduce", str(run.folder.path))
