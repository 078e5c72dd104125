"""An ablation as plain strings: its levels, and a waterfall for each metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from harness.analyzer.metric import Better, Metric
from harness.analyzer.metrics import find_metric
from harness.analyzer.summary import Validity
from harness.gate import formatting
from harness.gate.ablation import STAND_INS, Ablation, AblationLevel, LevelValue, Worth
from harness.gate.cells import Align, Cell, Column, Reasons, Table, Tone

_TONES = {
    Validity.VALID.value: Tone.GOOD,
    Validity.WARN.value: Tone.WARN,
    Validity.INVALID.value: Tone.BAD,
    "FAILED": Tone.BAD,
}
BASELINE = "baseline"
UNCLEAR = "~"
READING = (
    "Each level is compared to the one above it, round by round, on the same bytes; the ratio is "
    f"of the geometric means. {UNCLEAR} where the 95 % interval holds 1."
)


def title_of(ablation: Ablation) -> str:
    """What was taken apart: the baseline, the model, the machine, the workload, how often."""
    rounds = len(ablation.seeds)
    times = "1 round" if rounds == 1 else f"{rounds} rounds"
    said = f"{len(ablation.levels)} levels from {ablation.baseline}"
    return f"{said} ({ablation.context}), {times}"


def not_counted(ablation: Ablation) -> str:
    """Which runs failed or are INVALID, so that they count for nothing; empty when none."""
    runs = [run for level in ablation.levels for run in level.runs]
    faulty = [f"{run.run} is {run.outcome}" for run in runs if not run.counts]
    if not faulty:
        return ""
    return f"{len(faulty)} of {len(runs)} runs do not count: {', '.join(faulty)}"


def level_table(ablation: Ablation) -> Table:
    """What each level adds, and how its runs came out; notes say which factor was not at work."""
    rows = tuple(
        (Cell(level.name), Cell(" + ".join(level.adds)), *_outcomes(level))
        for level in ablation.levels
    )
    columns = (Column("Level"), Column("Adds"), Column("Runs"), Column("Why not"))
    has_faults = any(run.why for level in ablation.levels for run in level.runs)
    cut = None if has_faults else -1
    return Table(
        "Levels", columns[:cut], tuple(row[:cut] for row in rows), tuple(remarks_of(ablation))
    )


def remarks_of(ablation: Ablation) -> Iterator[str]:
    """Which factors were not at work, each with the level that adds it."""
    for level in ablation.levels:
        yield from (f"{level.name}: {remark}" for remark in level.remarks)


def _outcomes(level: AblationLevel) -> tuple[Cell, Cell]:
    counts = Counter(run.outcome for run in level.runs)
    said = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
    worst = next((o for o in reversed(_TONES) if o in counts), "")
    whys = dict.fromkeys(f"{run.run}: {run.why}" for run in level.runs if run.why)
    return Cell(said, tone=_TONES.get(worst, Tone.MUTED)), Cell("; ".join(whys))


def waterfall_tables(ablation: Ablation) -> tuple[Table, ...]:
    """One table for each metric that is shown, a level a row."""
    return tuple(_waterfall(ablation, find_metric(name)) for name in ablation.shown)


def _waterfall(ablation: Ablation, metric: Metric) -> Table:
    reasons = Reasons()
    values = ablation.values_of(metric.name)
    has_intervals = any(v.to_before is not None and v.to_before.lo is not None for v in values)
    rows = tuple(
        (Cell(level.name), *_cells(metric, value, reasons, has_intervals))
        for level, value in zip(ablation.levels, values, strict=True)
    )
    columns = (
        Column("Level"),
        Column(metric.title, Align.RIGHT, term=metric.name),
        Column("To the one above", Align.RIGHT),
        *((Column("95 % interval", Align.RIGHT), Column("Rounds", Align.RIGHT)) * has_intervals),
        Column("To the first", Align.RIGHT),
    )
    notes = (*reasons.notes, *_why_no_interval(values), *_why_stand_in(ablation, metric.name))
    better = "" if metric.better is Better.NEITHER else f", {metric.better} is better"
    return Table(f"{metric.title} vs {ablation.baseline}{better}", columns, rows, notes)


def _cells(
    metric: Metric,
    value: LevelValue,
    reasons: Reasons,
    has_intervals: bool,  # noqa: FBT001 - one private caller
) -> Iterator[Cell]:
    if value.value is None:
        yield reasons.cell(value.reason)
    else:
        rounds = ", ".join(formatting.quantity(v, metric.unit) for v in value.rounds)
        yield Cell(formatting.quantity(value.value, metric.unit), f"by round: {rounds}")
    if value.to_before is None or value.to_first is None:
        yield from (Cell(BASELINE, tone=Tone.MUTED), *[Cell("")] * (1 + 2 * has_intervals))
        return
    yield _ratio(metric, value.to_before, reasons)
    if has_intervals:
        yield Cell(interval_text(value.to_before) or "-", tone=Tone.MUTED)
        yield Cell(str(value.to_before.rounds))
    yield _ratio(metric, value.to_first, reasons, certainty(value.to_first))


def _ratio(metric: Metric, worth: Worth, reasons: Reasons, note: str = "") -> Cell:
    if worth.ratio is None:
        return reasons.cell(worth.reason, "none")
    return Cell(ratio_text(worth), note, _tone(metric, worth))


def _tone(metric: Metric, worth: Worth) -> Tone:
    if worth.lo is None or worth.ratio is None:
        return Tone.PLAIN
    if not worth.is_clear:
        return Tone.MUTED
    return Tone.GOOD if (worth.ratio > 1) == (metric.better is Better.HIGHER) else Tone.BAD


def ratio_text(worth: Worth) -> str:
    """Such as `1.44x`, or `~ 1.01x` where the interval holds 1."""
    text = formatting.ratio(worth.ratio, worth.lo, worth.hi)
    return f"{UNCLEAR} {text}" if worth.lo is not None and not worth.is_clear else text


def interval_text(worth: Worth) -> str:
    """Such as `1.40x to 1.49x`; empty when there is none."""
    return formatting.ratio_span(worth.lo, worth.hi)


def _why_no_interval(values: tuple[LevelValue, ...]) -> tuple[str, ...]:
    """Why ratios that are there have no interval, each reason once."""
    worths = (v.to_before for v in values if v.to_before is not None)
    said = (w.reason for w in worths if w.ratio is not None and w.reason is not None)
    return tuple(dict.fromkeys(said))


def _why_stand_in(ablation: Ablation, name: str) -> Iterator[str]:
    """Which metric a stand-in is shown for, and why that one is not."""
    for wanted, stand_in in STAND_INS.items():
        if stand_in == name:
            reasons = (v.reason for v in ablation.values_of(wanted) if v.reason is not None)
            title = find_metric(wanted).title
            yield f"{title} is not known: {next(reasons, '')}; send more with --repeat-mix"


def claims(ablation: Ablation) -> Iterator[tuple[str, str, str]]:
    """The whole ladder in a sentence, then its steps: the ratio, what it is of, and how sure."""
    metric = find_metric("output_tok_s")
    *_, last = ablation.values_of(metric.name)
    name = ablation.levels[-1].name
    if last.to_first is None or last.to_first.ratio is None:
        why = last.to_first.reason if last.to_first else None
        yield "no ratio", f"of {metric.title}, {name} vs {ablation.baseline}", why or ""
        return
    rest = f"{metric.title}, {name} vs {ablation.baseline} ({ablation.context})"
    yield ratio_text(last.to_first), rest, certainty(last.to_first)
    for level, value in zip(ablation.levels, ablation.values_of(metric.name), strict=True):
        if value.to_before is not None and value.to_before.ratio is not None:
            adds = " + ".join(level.adds)
            yield ratio_text(value.to_before), f"of it by {adds}", certainty(value.to_before)


def certainty(worth: Worth) -> str:
    """How sure a ratio is, in words: its interval, or why there is none."""
    return worth.reason or f"95 % interval {interval_text(worth)}, {worth.rounds} rounds"
