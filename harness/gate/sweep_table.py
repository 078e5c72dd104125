"""A sweep as plain strings: a row a point, and what the marks mean."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analyzer.metrics import find_metric
from harness.core.load_points import name_of
from harness.gate import formatting
from harness.gate.cells import Align, Cell, Column, Reasons, Table, Tone
from harness.gate.sweep import GOODPUT, LATENCIES, THROUGHPUT, Sweep, SweepPoint
from harness.gate.tables import VALIDITY_TONES

_TONES = {validity.value: tone for validity, tone in VALIDITY_TONES.items()}
CHOICE, SATURATED = "choice", "saturated"
ONE_RUN = (
    "Each point is one run with a seed of its own, so its noise is not known; an engine that "
    "batchmark launches is launched afresh for it."
)


def title_of(sweep: Sweep) -> str:
    """What was swept: over which loads, and the model, the machine and the mix."""
    levels = [point.level for point in sweep.points]
    ends = f"{min(levels):g} to {name_of(sweep.axis, max(levels))}"
    return f"{', '.join(sweep.engines)} at {ends} ({sweep.context})"


def reading(sweep: Sweep) -> str:
    """What the marks mean, in a sentence or two."""
    names = ", ".join(find_metric(name).title for name in (THROUGHPUT, *sweep.tails))
    return (
        f"A {CHOICE} is a point that no other one beats: none is at least as good in all of "
        f"{names}, and better in one. Where the engine did not keep up with the arrivals, the "
        f"point is {SATURATED}: its latency only says how long the run was, so it is no {CHOICE}."
    )


def shown_metrics(sweep: Sweep) -> tuple[str, ...]:
    """The throughput, of each latency the median and the tail, and the goodput if there is one."""
    has_goodput = any(point.value(GOODPUT) is not None for point in sweep.points)
    medians = [f"{latency}_p50" for latency in LATENCIES]
    pairs = zip(medians, sweep.tails, strict=True)
    latencies = dict.fromkeys(name for pair in pairs for name in pair)
    return (THROUGHPUT, *latencies, *([GOODPUT] * has_goodput))


def point_table(sweep: Sweep) -> Table:
    """Every point, its loads rising, one engine beside the other."""
    reasons = Reasons()
    metrics = [find_metric(name) for name in shown_metrics(sweep)]
    rows = tuple(_row(sweep, point, reasons) for point in sweep.points)
    columns = (
        Column("Load"),
        Column("Engine"),
        Column("Run", term="outcome"),
        *(Column(metric.title, Align.RIGHT, term=metric.name) for metric in metrics),
        *((Column("Cut", Align.RIGHT),) if _has_cut(sweep) else ()),
        Column("Mark"),
    )
    return Table("Points", columns, rows, (*reasons.notes, ONE_RUN))


def _row(sweep: Sweep, point: SweepPoint, reasons: Reasons) -> tuple[Cell, ...]:
    of_metrics = {value.metric: value for value in point.values}
    values = [of_metrics[name] for name in shown_metrics(sweep)]
    return (
        Cell(
            name_of(sweep.axis, point.level),
            f"{point.run.run}, seed {point.seed}",
            exact=point.level,
        ),
        Cell(point.engine),
        Cell(point.run.outcome, point.run.why or "", _TONES.get(point.run.outcome, Tone.BAD)),
        *(
            reasons.cell(value.reason) if value.value is None else _value(value.value, value.metric)
            for value in values
        ),
        *((_cut(point),) if _has_cut(sweep) else ()),
        _mark(point),
    )


def _has_cut(sweep: Sweep) -> bool:
    return any(point.cut_s > 0 for point in sweep.points)


def _cut(point: SweepPoint) -> Cell:
    return Cell(formatting.seconds(point.cut_s), "left out of all engines at this load")


def _value(value: float, metric: str) -> Cell:
    return Cell(formatting.quantity(value, find_metric(metric).unit), exact=value)


def _mark(point: SweepPoint) -> Cell:
    if point.is_saturated:
        return Cell(SATURATED, tone=Tone.WARN)
    return Cell(CHOICE, tone=Tone.GOOD) if point.is_choice else Cell("")


def not_counted(sweep: Sweep) -> str:
    """Which runs failed or are INVALID, so that they count for nothing; empty when none."""
    faulty = [f"{p.run.run} is {p.run.outcome}" for p in sweep.points if not p.run.counts]
    if not faulty:
        return ""
    return f"{len(faulty)} of {len(sweep.points)} runs do not count: {', '.join(faulty)}"


def highlights(sweep: Sweep) -> Iterator[str]:
    """Of each engine its highest throughput that is a choice, with the latency that it costs."""
    for engine in sweep.engines:
        choices = [point for point in sweep.of_engine(engine) if point.is_choice]
        best = max(choices, key=lambda point: point.value(THROUGHPUT) or 0, default=None)
        if best is None:
            yield f"{engine}: no point is a {CHOICE}"
            continue
        said = [
            f"{m.title} {formatting.quantity(best.value(m.name), m.unit)}"
            for m in map(find_metric, sweep.tails)
        ]
        rate = formatting.quantity(best.value(THROUGHPUT), "tok/s")
        yield f"{engine}: up to {rate} at {name_of(sweep.axis, best.level)}, {', '.join(said)}"
