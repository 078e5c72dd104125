"""One HTML file that says what was compared with what, how sure that is, and how it was measured.

Self-contained: style and figures are inside, nothing is fetched, and it needs no script.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.analyzer.columns import records_with_error
from harness.analyzer.frame import RunFrame, frame_of
from harness.analyzer.summary import StepTotals, Summary, Validity
from harness.core.cautions import Caution
from harness.core.rundir import RunFolder
from harness.gate import formatting, tables
from harness.gate.agreement_table import agreement_table
from harness.gate.allowance import allowed_line
from harness.gate.comparison import ComparisonTable, phrase
from harness.gate.comparison_table import certainty, comparison_table, headlines
from harness.gate.step_table import step_table
from reports import figures
from reports.method import method_tables
from reports.published import claim_table, fitting
from reports.server_timeline import server_timeline, sides_of
from reports.slots import Slots, slots_over_time


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """A run as the page needs it: its records, and the numbers made of them."""

    folder: RunFolder
    summary: Summary


@dataclass(frozen=True, slots=True)
class Claim:
    """A ratio in words: the ratio, the rest of its phrase, and how sure it is."""

    ratio: str
    rest: str
    certainty: str


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


def write_page(path: Path, text: str) -> None:
    """Write `text` to `path`, which holds the old page or the whole new one, never a part."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


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
    labels = tables.run_labels(manifests)
    return fill(
        "report.html.j2",
        title=_listed(manifest.workload.title for manifest in manifests),
        model=_listed(manifest.model_title for manifest in manifests),
        machine=_listed(manifest.machine.title for manifest in manifests),
        allowed=allowed_line(tuple(dict.fromkeys(w for t in comparisons for w in t.allowed))),
        claims=[(table.candidate_name, _claims(table)) for table in comparisons],
        verdicts=Counter(summary.validity for summary in summaries),
        is_invalid=any(summary.validity is Validity.INVALID for summary in summaries),
        validity=tables.validity_table(summaries),
        checks=tables.check_table(summaries),
        errors=tables.error_table(
            (label, records_with_error(run.folder.requests))
            for label, run in zip(labels, runs, strict=True)
        ),
        comparisons=[(table, comparison_table(table)) for table in comparisons],
        published=claim_table(fitting(comparisons, manifests)),
        agreement=agreement_table(comparisons),
        figures=_figures(runs),
        steps=step_table(summaries, simulated or {}),
        metrics=tables.metric_table(summaries),
        cautions=tables.caution_table(_cautions(labels, summaries, comparisons), len(runs)),
        method=method_tables(manifests),
        definitions=tables.definition_table(),
    )


def fill(template: str, **values: object) -> str:
    """The page of that template; text in `values` is shown as it is, never as markup."""
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = Markup
    return environment.get_template(template).render(**values)


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
        ratio = formatting.ratio(row.ratio)
        rest = phrase(table, row).removeprefix(ratio).strip()
        claims.append(Claim(ratio, rest, certainty(row)))
    return claims


def _figures(runs: Sequence[ReportedRun]) -> list[figures.Figure]:
    engines = [run.summary.manifest.engine.name for run in runs]
    colours = figures.engine_colours(engines)
    frames = [frame_of(run.folder) for run in runs]
    first = _first_runs(engines, frames)
    times = [
        figures.distribution(
            name,
            title,
            [
                figures.Samples(engine, of_run.requests[column].to_numpy(dtype=float))
                for engine, of_run in zip(engines, frames, strict=True)
            ],
            colours,
        )
        for name, title, column in (
            ("ttft", "Time to first token", "ttft_s"),
            ("e2e", "Time to last token", "e2e_s"),
        )
    ]
    rates = [
        (engine, run.summary.value("output_tok_s"))
        for engine, run in zip(engines, runs, strict=True)
    ]
    return [
        figures.throughput("rate", "Output rate", rates, colours),
        figures.time_split("time-split", "Time inside the steps", _time_parts(runs), colours),
        *times,
        slots_over_time(
            "slots", "Slots over time", [Slots(e, f.steps) for e, f in first.items()], colours
        ),
        server_timeline(
            "server",
            "In flight, by client and engine",
            [sides_of(e, f) for e, f in first.items()],
            colours,
        ),
    ]


def _time_parts(runs: Sequence[ReportedRun]) -> list[figures.TimeParts]:
    """The time split of each engine's first run that has one."""
    first: dict[str, figures.TimeParts] = {}
    for run in runs:
        engine, steps = run.summary.manifest.engine.name, run.summary.steps
        if steps is not None and engine not in first:
            first[engine] = figures.TimeParts(
                engine, steps.prefill_s, steps.decode_s, steps.other_s
            )
    return list(first.values())


def _first_runs(engines: Sequence[str], frames: Sequence[RunFrame]) -> dict[str, RunFrame]:
    """The first run of each engine: repeats look alike over time, and each needs a row."""
    first: dict[str, RunFrame] = {}
    for engine, of_run in zip(engines, frames, strict=True):
        first.setdefault(engine, of_run)
    return first
