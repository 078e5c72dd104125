"""What `batchmark doctor` found, as plain strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.fitness import Finding, Fitness
from harness.core.manifest import Ceilings, MachineFacts
from harness.gate import formatting
from harness.gate.cells import Cell, Column, Table, Tone

FITNESS_TONES = {Fitness.FIT: Tone.GOOD, Fitness.WARN: Tone.WARN, Fitness.UNFIT: Tone.BAD}
_TERA = 1e12


def finding_table(machine: MachineFacts, findings: Sequence[Finding]) -> Table:
    """What was looked at, one thing a row, with what to do about it."""
    rows = tuple(
        (
            Cell(finding.what),
            Cell(finding.fitness.value, tone=FITNESS_TONES[finding.fitness]),
            Cell(finding.seen),
            Cell(finding.remedy),
        )
        for finding in findings
    )
    columns = tuple(map(Column, ("Look at", "Verdict", "Seen", "What to do")))
    return Table(f"{machine.title}, {machine.memory_gib} GiB, {machine.os}", columns, rows)


def ceiling_table(ceilings: Sequence[Ceilings], notes: Sequence[str]) -> Table:
    """The ceilings of each device; `notes` say what became of them."""
    rows = tuple(
        (Cell(f"{of.device}, {what}"), Cell(rate), Cell(_words(of)))
        for of in ceilings
        for what, rate in ceiling_rates(of).items()
    )
    how = "by `batchmark doctor` without --quick; it needs torch"
    none = (Cell("all"), Cell(formatting.NOT_MEASURED, tone=Tone.MUTED), Cell(how))
    columns = tuple(map(Column, ("Ceiling", "Reached", "How")))
    return Table("Ceilings", columns, rows or (none,), tuple(notes))


def ceiling_rates(ceilings: Ceilings) -> Mapping[str, str]:
    """Each rate of `ceilings` in words, by what it is of."""
    products = {f"{dtype} products": _flops(rate) for dtype, rate in ceilings.flops_per_s.items()}
    return {"memory reads": _bytes(ceilings.read_bytes_per_s), **products}


def fitness_line(findings: Sequence[Finding]) -> str:
    """The verdict over all of `findings` in a line."""
    names = {f: ", ".join(x.what for x in findings if x.fitness is f) for f in Fitness}
    doubts = f"doubts: {names[Fitness.WARN] or 'none'}"
    if names[Fitness.UNFIT]:
        return f"RUNNER_UNFIT: {names[Fitness.UNFIT]}; {doubts}"
    return f"fit to measure on; {doubts}"


def _words(ceilings: Ceilings) -> str:
    threads = "1 thread" if ceilings.threads == 1 else f"{ceilings.threads} threads"
    return f"{threads}, {ceilings.measured_utc}"


def _bytes(per_s: float) -> str:
    return f"{formatting.significant(per_s / 1e9)} GB/s"


def _flops(per_s: float) -> str:
    if per_s >= _TERA:
        return f"{formatting.significant(per_s / _TERA)} TFLOP/s"
    return f"{formatting.significant(per_s / 1e9)} GFLOP/s"
