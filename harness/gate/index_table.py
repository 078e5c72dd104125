"""Many runs as plain strings: one a row, those that cannot be read, and where metrics changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.analyzer.metric import Better
from harness.analyzer.metrics import find_metric
from harness.analyzer.run_index import BrokenRun, IndexedRun
from harness.core.manifest import RunStatus
from harness.gate import formatting
from harness.gate.cells import Align, Cell, Column, Reasons, Table, Tone
from harness.gate.tables import VALIDITY_TONES
from harness.gate.trends import Change, Subject

# The metrics of a row: what each run is looked up for, not all that it has.
METRICS = (
    "output_tok_s",
    "ttft_s_p50",
    "ttft_s_p99",
    "tpot_s_p50",
    "e2e_s_p50",
    "e2e_s_p99",
    "failure_rate",
)
SUBJECT = ("Engine", "Model", "Workload", "Hardware")
_NO_VALUE = "\u2013"
_DATE_CHARS = len("2030-01-01T00:00")


def when(created_utc: str) -> str:
    """The minute of an instant in UTC, such as `2030-01-01 00:00`."""
    return created_utc[:_DATE_CHARS].replace("T", " ")


def index_table(
    runs: Sequence[IndexedRun], about: Sequence[Subject], links: Mapping[str, str]
) -> Table:
    """A run a row, as they come. `about` says what each is about, `links` where its page is."""
    metrics = [find_metric(name) for name in METRICS]
    reasons = Reasons()
    columns = (
        Column("Run", is_id=True),
        Column("Started (UTC)"),
        *map(Column, SUBJECT),
        Column("Verdict"),
        *(Column(m.title, Align.RIGHT, term=m.name) for m in metrics),
    )
    rows = tuple(
        (
            Cell(run.name, link=links.get(run.name, "")),
            Cell(when(run.manifest.created_utc)),
            *_subject_cells(subject),
            _verdict(run),
            *(_value(run, name, reasons) for name in METRICS),
        )
        for run, subject in zip(runs, about, strict=True)
    )
    return Table("Runs", columns, rows, reasons.notes)


def _subject_cells(subject: Subject) -> tuple[Cell, ...]:
    return (
        Cell(subject.engine),
        Cell(subject.model),
        Cell(subject.workload),
        Cell(subject.hardware),
    )


def _verdict(run: IndexedRun) -> Cell:
    status = run.manifest.status
    if run.validity is None:
        said = "running" if status is RunStatus.RUNNING else f"{status}, no numbers"
        return Cell(said, run.doubt or "", Tone.WARN)
    said = run.validity.value if status is RunStatus.COMPLETE else f"{run.validity}, {status}"
    return Cell(said, run.manifest.failure or "", VALIDITY_TONES[run.validity])


def _value(run: IndexedRun, metric: str, reasons: Reasons) -> Cell:
    value = run.values.get(metric)
    if value is None:
        return reasons.cell(run.reasons.get(metric) or run.doubt, _NO_VALUE)
    return Cell(formatting.quantity(value, find_metric(metric).unit), exact=value)


def broken_table(broken: Sequence[BrokenRun]) -> Table:
    """The folders that cannot be read, and why."""
    rows = tuple((Cell(b.name), Cell(b.reason, tone=Tone.WARN)) for b in broken)
    return Table("Folders that cannot be read", (Column("Folder"), Column("Reason")), rows)


def change_table(found: Sequence[Change]) -> Table:
    """Where metrics changed, one change a row."""
    columns = (
        Column("Metric"),
        *map(Column, SUBJECT),
        Column("From run"),
        Column("Started (UTC)"),
        Column("Before", Align.RIGHT, is_mixed=True),
        Column("After", Align.RIGHT, is_mixed=True),
        Column("Change", Align.RIGHT),
        Column("p", Align.RIGHT),
        Column("What else changed there"),
    )
    return Table("Where a metric changed", columns, tuple(map(_change_cells, found)))


def _change_cells(change: Change) -> tuple[Cell, ...]:
    metric, first = find_metric(change.metric), change.after.runs[0]
    levels = (change.before.level, change.after.level)
    p = change.after.p or 0.0
    return (
        Cell(metric.title, term=metric.name),
        *_subject_cells(change.subject),
        Cell(first.name),
        Cell(when(first.manifest.created_utc)),
        *(Cell(formatting.quantity(v, metric.unit), exact=v) for v in levels),
        Cell(change_text(change), tone=_tone(change), exact=change.ratio),
        Cell(f"{p:.3f}", exact=p),
        Cell("; ".join(change.unlike) or "nothing that is recorded"),
    )


def change_text(change: Change) -> str:
    """How far the level moved, such as `+5.1 %`."""
    if change.ratio is None:
        return "from 0"
    return f"{(change.ratio - 1) * 100:+.1f} %"


def _tone(change: Change) -> Tone:
    better = find_metric(change.metric).better
    if better is Better.NEITHER:
        return Tone.PLAIN
    rose = change.after.level > change.before.level
    return Tone.GOOD if rose is (better is Better.HIGHER) else Tone.BAD
