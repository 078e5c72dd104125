"""What a page and a terminal both show: one function per table, each yielding plain strings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from harness.analyzer.metric import Better, Metric
from harness.analyzer.metrics import METRICS
from harness.analyzer.summary import Check, CheckVerdict, MetricValue, Summary, Validity
from harness.core.cautions import Caution
from harness.core.manifest import Counts, RunManifest
from harness.core.record import RequestRecord
from harness.gate import formatting
from harness.gate.cells import Align, Cell, Column, Reasons, Table, Tone

VERDICT_TONES = {
    CheckVerdict.PASS: Tone.GOOD,
    CheckVerdict.WARN: Tone.WARN,
    CheckVerdict.INVALID: Tone.BAD,
    CheckVerdict.SKIPPED: Tone.MUTED,
}
UNBOUNDED = (
    "not bounded by this run: too few of its requests are independent, or ended well, for a 95 % "
    "interval"
)
VALIDITY_TONES = {Validity.VALID: Tone.GOOD, Validity.WARN: Tone.WARN, Validity.INVALID: Tone.BAD}


def run_labels(manifests: Sequence[RunManifest]) -> tuple[str, ...]:
    """What each run is called: its engine's name, numbered when the engine has several runs."""
    names = [manifest.engine.name for manifest in manifests]
    totals = Counter(names)
    return tuple(
        f"{name} #{names[: i + 1].count(name)}" if totals[name] > 1 else name
        for i, name in enumerate(names)
    )


def says_more(metric: Metric, sides: Sequence[Mapping[str, float | None]]) -> bool:
    """Whether a table has a row for `metric`.

    Not for one that refines another and on no side has another value than that, nor for an optional
    one, or one of the engine's steps, that no side has. `sides` are values by the name of the
    metric: of runs, or of what is compared.
    """
    if metric.is_of_steps or metric.is_optional:
        return any(side.get(metric.name) is not None for side in sides)
    if metric.refines is None:
        return True
    pairs = ((side.get(metric.name), side.get(metric.refines)) for side in sides)
    return any(value is not None and value != refined for value, refined in pairs)


def metric_table(summaries: Sequence[Summary]) -> Table:
    """Every metric that says something of its own: a row per metric, a column per run.

    Those of the engine's steps stand in `step_table`.
    """
    labels = run_labels([summary.manifest for summary in summaries])
    values = [{value.metric: value for value in summary.values} for summary in summaries]
    numbers = [{name: value.value for name, value in of_run.items()} for of_run in values]
    reasons = Reasons()
    rows = tuple(
        (metric_name(metric), *(metric_cell(metric, of_run, reasons) for of_run in values))
        for metric in METRICS
        if not metric.is_of_steps and says_more(metric, numbers)
    )
    columns = (
        Column("Metric"),
        *(Column(label, Align.RIGHT, term="run", is_mixed=True) for label in labels),
    )
    return Table("Metrics of each run", columns, rows, reasons.notes)


def metric_cell(metric: Metric, of_run: Mapping[str, MetricValue], reasons: Reasons) -> Cell:
    """The value of a metric of a run, by name, or the number of the reason why there is none."""
    found = of_run.get(metric.name)
    if found is None:
        return reasons.cell("the run was summarised by a version without this metric")
    if found.value is None:
        return reasons.cell(found.reason)
    text, note = value_text(found, metric.unit), _note_of(found, metric)
    if (within := found.ci_within) is not None:
        text = f"{text} ({formatting.span(within.lo, within.hi, metric.unit)})"
    elif found.unbounded is not None and metric.bounded is not None:
        text = reasons.cell(UNBOUNDED, text).text
    return Cell(text, note, exact=found.value)


def value_text(found: MetricValue, unit: str) -> str:
    """A value in words, rounded by its interval where it has one."""
    within = found.ci_within
    lo, hi = (None, None) if within is None else (within.lo, within.hi)
    return formatting.quantity(found.value, unit, lo, hi)


def _note_of(value: MetricValue, metric: Metric) -> str:
    """What a run says of its own value, beside it."""
    within, said = value.ci_within, []
    if within is not None:
        said.append(f"95 % within this run, {within.method}, n_eff {within.n_eff:,}")
    if value.mlperf_estimate is not None:
        estimate = formatting.quantity(value.mlperf_estimate, metric.unit)
        said.append(f"MLPerf-style estimate {estimate} (takes requests for independent)")
    return "; ".join([*said, *([value.unbounded] if value.unbounded else [])])


def metric_name(metric: Metric) -> Cell:
    """The cell that names a metric; its note is the definition."""
    better = "" if metric.better is Better.NEITHER else f" Better: {metric.better}."
    return Cell(metric.title, f"{metric.name}: {metric.definition}{better}", term=metric.name)


def validity_table(summaries: Sequence[Summary]) -> Table:
    """How far each run may be trusted: its verdict, its requests, and how many checks say what."""
    labels = run_labels([summary.manifest for summary in summaries])
    rows = tuple(
        (
            Cell(label),
            Cell(summary.validity.value, tone=VALIDITY_TONES[summary.validity]),
            Cell(_outcomes(summary.manifest.counts)),
            Cell(_verdicts(summary)),
        )
        for label, summary in zip(labels, summaries, strict=True)
    )
    columns = tuple(map(Column, ("Run", "Verdict", "Requests", "Checks")))
    return Table("Validity of each run", columns, rows)


def _outcomes(counts: Counts) -> str:
    named = (
        ("failed", counts.failed),
        ("cancelled", counts.cancelled),
        ("unfinished", counts.unfinished),
        ("not sent", counts.planned - counts.sent),
    )
    others = [f"{formatting.count(number)} {name}" for name, number in named if number > 0]
    well = f"{formatting.count(counts.ok)} of {formatting.count(counts.planned)} ok"
    return ", ".join([well, *others])


def _verdicts(summary: Summary) -> str:
    words = (
        (CheckVerdict.INVALID, "invalid"),
        (CheckVerdict.WARN, "warn"),
        (CheckVerdict.PASS, "passed"),
        (CheckVerdict.SKIPPED, "had nothing to check"),
    )
    numbers = Counter(check.verdict for check in summary.checks)
    said = [f"{numbers[verdict]} {word}" for verdict, word in words if numbers[verdict]]
    return ", ".join(said) or "none"


def check_table(summaries: Sequence[Summary], *, everything: bool = False) -> Table:
    """The checks that warn or fail, worst first, and in which runs; or `everything`."""
    order = (CheckVerdict.INVALID, CheckVerdict.WARN, CheckVerdict.SKIPPED, CheckVerdict.PASS)
    labels = run_labels([summary.manifest for summary in summaries])
    found: dict[Check, list[str]] = {}
    for label, summary in zip(labels, summaries, strict=True):
        for check in summary.checks:
            found.setdefault(check, []).append(label)
    rows = tuple(
        (
            Cell(f"{check.id} {check.title}"),
            Cell(check.verdict.value, tone=VERDICT_TONES[check.verdict]),
            Cell(check.value),
            Cell(check.limit),
            Cell(_listed(runs, len(labels))),
        )
        for verdict in (order if everything else order[:2])
        for check, runs in found.items()
        if check.verdict is verdict
    )
    columns = tuple(map(Column, ("Check", "Verdict", "Seen", "Allowed", "In")))
    return Table("Checks" if everything else "Checks that did not pass", columns, rows)


def _listed(labels: Sequence[str], total: int) -> str:
    return f"all {total} runs" if len(labels) == total > 1 else ", ".join(labels)


def error_table(runs: Iterable[tuple[str, Sequence[RequestRecord]]]) -> Table:
    """The errors of each run by kind, most frequent first, each kind with its first message."""
    rows = []
    for label, requests in runs:
        errors = [request.error for request in requests if request.error is not None]
        first = {error.kind: error.message for error in reversed(errors)}
        rows += [
            (
                Cell(label),
                Cell(kind),
                Cell(formatting.count(number), tone=Tone.BAD, exact=number),
                Cell(formatting.one_line(first[kind])),
            )
            for kind, number in Counter(error.kind for error in errors).most_common()
        ]
    columns = (
        Column("Run"),
        Column("Error"),
        Column("Requests", Align.RIGHT),
        Column("First message"),
    )
    return Table("Errors", columns, tuple(rows))


def caution_table(sources: Sequence[tuple[str, Sequence[Caution]]], runs: int) -> Table:
    """Each caution once, with its remedy and what it is about.

    `sources` are (about what, cautions); the last `runs` of them are all the runs there are.
    """
    about: dict[Caution, list[str]] = {}
    for source, cautions in sources:
        for caution in dict.fromkeys(cautions):
            about.setdefault(caution, []).append(source)
    rows = tuple(
        (
            Cell(caution.code, tone=Tone.WARN),
            Cell(caution.message),
            Cell(caution.remedy),
            Cell(_listed(subjects, runs)),
        )
        for caution, subjects in about.items()
    )
    return Table("Cautions", tuple(map(Column, ("Code", "What", "Remedy", "About"))), rows)


def runs_table(manifests: Sequence[RunManifest]) -> Table:
    """A list of runs, one a row."""
    columns = (
        Column("Run", is_id=True),
        Column("Status"),
        Column("Engine"),
        Column("Workload"),
        Column("OK", Align.RIGHT),
        Column("Started (UTC)"),
    )
    rows = tuple(
        (
            Cell(m.run_id),
            Cell(m.status.value),
            Cell(m.engine.name),
            Cell(m.workload.title),
            Cell(f"{m.counts.ok}/{m.counts.planned}"),
            Cell(m.created_utc),
        )
        for m in manifests
    )
    return Table("Runs", columns, rows)
