"""A search for capacity as plain strings: its answer in a sentence, and a row a probe."""

from __future__ import annotations

from harness.analyzer.metrics import find_metric
from harness.analyzer.summary import MetricValue
from harness.core.load_points import name_of
from harness.gate import formatting
from harness.gate.capacity import Answer
from harness.gate.cells import Align, Cell, Column, Reasons, Table, Tone
from harness.gate.finding import Finding
from harness.gate.probing import METRICS, Capacity, ProbeResult

READING = (
    "A probe met an objective when the whole 95 % interval of the share of requests that kept to "
    "it (Wilson's, for as many independent requests as they are worth) is not below the share "
    "needed, and did not when the whole interval is below it. In between it is unresolved, and was "
    "repeated with twice the requests. A load that the engine did not keep up with is not met. "
    "Each probe is one run with a seed of its own; an engine that batchmark launches is launched "
    "afresh for it. Every request that was due counts, also before the run had settled."
)
_TONES = {Answer.MET: Tone.GOOD, Answer.NOT_MET: Tone.BAD, Answer.UNRESOLVED: Tone.WARN}


def title_of(found: Capacity) -> str:
    """What was asked, of what."""
    return f"{found.engine} with {', '.join(found.objectives)} ({found.context})"


def bracket_text(found: Capacity) -> str:
    """The bracket in words, such as `3.17 req/s met, 3.46 req/s did not`."""
    known = found.bracket
    parts = []
    if known.met is not None:
        parts.append(f"{name_of(found.axis, known.met)} met")
    if known.unresolved:
        listed = ", ".join(name_of(found.axis, level) for level in known.unresolved)
        parts.append(f"{listed} unresolved")
    if known.not_met is not None:
        parts.append(f"{name_of(found.axis, known.not_met)} did not")
    return ", ".join(parts) or "no load was tried"


def answer_of(found: Capacity) -> str:
    """The answer as one line: what it is, of what, and why it is no narrow bracket."""
    ended = f"; {found.ended}" if found.ended else ""
    return f"{bracket_text(found)}: {title_of(found)}{ended}"


def probe_table(found: Capacity) -> Table:
    """Every probe in the order in which it was made."""
    columns = (
        Column("Load"),
        Column("Answer"),
        Column("Requests", Align.RIGHT),
        *(
            Column(f"Within {objective}", Align.RIGHT, term="within")
            for objective in found.objectives
        ),
        *(Column(find_metric(name).title, Align.RIGHT, term=name) for name in METRICS),
        Column("Why"),
    )
    reasons = Reasons()
    rows = tuple(_row(found, probe, reasons) for probe in found.probes)
    return Table("Probes", columns, rows, reasons.notes)


def _row(found: Capacity, probe: ProbeResult, reasons: Reasons) -> tuple[Cell, ...]:
    again = f", try {probe.attempt + 1}" if probe.attempt else ""
    return (
        Cell(name_of(found.axis, probe.level) + again, f"{probe.run}, seed {probe.seed}"),
        Cell(probe.answer.value, f"the run is {probe.outcome}", _TONES[probe.answer]),
        Cell(formatting.count(probe.findings[0].due)),
        *map(_share, probe.findings),
        *(_value(value, reasons) for value in probe.values),
        Cell(probe.why),
    )


def _value(value: MetricValue, reasons: Reasons) -> Cell:
    if value.value is None:
        return reasons.cell(value.reason)
    text = formatting.quantity(value.value, find_metric(value.metric).unit)
    return Cell(text, exact=value.value)


def _share(finding: Finding) -> Cell:
    interval = f"{100 * finding.lo:.1f} to {formatting.share(finding.hi)}"
    text = f"{formatting.share(finding.met / finding.due)} ({interval})"
    reached = (
        "" if finding.reached_s is None else f"{formatting.seconds(finding.reached_s)} reached; "
    )
    worth = f"{finding.tau:.1f} requests are worth one independent one"
    note = f"{reached}{finding.met} of {finding.due}; {worth}"
    return Cell(text, note, _TONES[finding.answer], finding.met / finding.due)
