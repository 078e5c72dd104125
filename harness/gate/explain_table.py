"""One run under the definitions of six tools: the numbers, why they differ, how each tool counts.

Each row of numbers has one unit. A percentile that batchmark withholds, because too few requests
support it, is shown as the other tools would print it, and marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from harness.analyzer.dialect_rules import OUR_RULES
from harness.analyzer.dialects import DIALECTS, read_dialects
from harness.analyzer.frame import frame_of
from harness.analyzer.measures import Unmeasured, is_withheld
from harness.analyzer.metrics import METRICS
from harness.analyzer.number_dialect import QUANTITIES, DialectReading, Quantity, our_metric
from harness.core.rundir import RunFolder
from harness.gate import formatting
from harness.gate.cells import Align, Cell, Column, Reasons, Table, Tone

OURS = "batchmark"
DIFFERS_FROM = 0.005
UNSUPPORTED = "*"
NONE = "-"
_DIGITS = 4
_UNITS = ((10.0, 1.0, "s"), (1e-3, 1e3, "ms"), (0.0, 1e6, "µs"))

Readings = Mapping[tuple[str, str], DialectReading]
OwnReadings = Mapping[str, float | Unmeasured]


def explain(run: RunFolder) -> tuple[Table, ...]:
    """The numbers of `run` side by side, the differences, and the rules of each tool."""
    frame = frame_of(run)
    own = {metric.name: metric.function(frame) for metric in METRICS}
    readings = read_dialects(run)
    return number_table(own, readings), difference_table(own, readings), rule_table()


def number_table(own: OwnReadings, readings: Sequence[DialectReading]) -> Table:
    """A row per number, a column per tool."""
    found = {(reading.tool, reading.quantity): reading for reading in readings}
    reasons = Reasons()
    rows = tuple(_number_row(quantity, own, found, reasons) for quantity in QUANTITIES)
    columns = (Column("Number"), *(Column(name, Align.RIGHT) for name in (OURS, *_tools())))
    versions = ", ".join(f"{dialect.name} {dialect.version}" for dialect in DIALECTS)
    is_marked = any(cell.text.endswith(UNSUPPORTED) for row in rows for cell in row)
    notes = (
        *((f"{UNSUPPORTED} more than these values support; batchmark withholds it",) * is_marked),
        *reasons.notes,
        f"definitions: {versions}",
    )
    return Table("One run, six definitions", columns, rows, notes)


def _number_row(
    quantity: Quantity, own: OwnReadings, found: Readings, reasons: Reasons
) -> tuple[Cell, ...]:
    name = our_metric(quantity.family, quantity.statistic)
    ours = own[name] if name else Unmeasured(f"batchmark has no {quantity.name}")
    others = [found.get((tool, quantity.name)) for tool in _tools()]
    known = [reading.value for reading in others if reading and reading.value is not None]
    if not isinstance(ours, Unmeasured):
        known.append(ours)
    factor, unit = _scale(quantity, known)
    mark = UNSUPPORTED if is_withheld(ours) else ""
    return (
        Cell(f"{quantity.name}{unit}", name or ""),
        _own_cell(ours, factor, reasons),
        *(_cell(reading, factor, mark, reasons) for reading in others),
    )


def _scale(quantity: Quantity, known: Sequence[float]) -> tuple[float, str]:
    """The factor that fits the largest value of a row, and its unit when the name has none."""
    if quantity.unit != "s":
        return 1.0, ""
    largest = max(known, default=0.0)
    factor, unit = next((factor, unit) for least, factor, unit in _UNITS if largest >= least)
    return factor, f", {unit}"


def _own_cell(ours: float | Unmeasured, factor: float, reasons: Reasons) -> Cell:
    if isinstance(ours, Unmeasured):
        return reasons.cell(ours.reason, "withheld" if ours.too_few else NONE)
    return Cell(formatting.significant(ours * factor, _DIGITS), tone=Tone.STRONG)


def _cell(reading: DialectReading | None, factor: float, mark: str, reasons: Reasons) -> Cell:
    if reading is None:
        return Cell(NONE, "the tool has no such number", Tone.MUTED)
    if reading.value is None:
        return reasons.cell(reading.reason, NONE)
    text = formatting.significant(reading.value * factor, _DIGITS)
    return Cell(f"{text}{mark}", reading.title, Tone.WARN if mark else Tone.PLAIN)


def difference_table(own: OwnReadings, readings: Sequence[DialectReading]) -> Table:
    """Why numbers differ: those off ours by more than 0.5 % in this run, or of another kind.

    Tools with the same number for the same reason share a row.
    """
    families = tuple(dict.fromkeys(quantity.family for quantity in QUANTITIES))
    found: dict[tuple[str, str, str], list[str]] = {}
    for family in families:
        for tool in _tools():
            of_tool = [r for r in readings if r.tool == tool and r.quantity.startswith(family)]
            if any(_is_worth_a_line(own, reading) for reading in of_tool):
                key = (family, _offs(own, family, of_tool), of_tool[0].differs)
                found.setdefault(key, []).append(tool)
    rows = tuple(
        (Cell(family), Cell(", ".join(tools)), Cell(said), Cell(why))
        for (family, said, why), tools in found.items()
    )
    columns = tuple(map(Column, ("Number", "Of", "In this run", "Why")))
    return Table(f"Why they differ from {OURS}", columns, rows)


def _is_worth_a_line(own: OwnReadings, reading: DialectReading) -> bool:
    off = _off(own, reading)
    return reading.is_other_kind or (off is not None and abs(off) > DIFFERS_FROM)


def _offs(own: OwnReadings, family: str, readings: Sequence[DialectReading]) -> str:
    """As in `mean +1.2 %, p50 +1.4 %`; a dash when there is nothing of ours to compare with."""
    said = [
        f"{reading.quantity.removeprefix(family)} {100 * off:+.1f} %".strip()
        for reading in readings
        if (off := _off(own, reading)) is not None
    ]
    return ", ".join(said) or NONE


def _off(own: OwnReadings, reading: DialectReading) -> float | None:
    """How far the value is above ours, as a share; None when one of the two is missing."""
    ours = own[reading.beside] if reading.beside else None
    if reading.value is None or ours is None or isinstance(ours, Unmeasured) or ours == 0:
        return None
    return round(reading.value / ours - 1, 4) + 0.0  # + 0.0 turns -0.0 into 0.0


def rule_table() -> Table:
    """How each tool counts: a row per question, a column per tool."""
    sides = (OUR_RULES, *(dialect.rules for dialect in DIALECTS))
    rows = tuple(
        (
            Cell(field.name.replace("_", " ")),
            *(Cell(getattr(side, field.name)) for side in sides),
        )
        for field in fields(OUR_RULES)
    )
    columns = (Column("Rule"), *(Column(name) for name in (OURS, *_tools())))
    return Table("How each tool counts", columns, rows)


def _tools() -> tuple[str, ...]:
    return tuple(dialect.name for dialect in DIALECTS)
