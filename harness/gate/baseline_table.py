"""Named baselines as plain strings: a list of them, and all that is known of one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from harness.core.errors import UsageError
from harness.gate.baseline import OLD_AFTER_DAYS, Baseline, age_days
from harness.gate.cells import Align, Cell, Column, Table, Tone
from harness.gate.formatting import count


def baseline_table(found: Mapping[str, Baseline | UsageError], now: datetime) -> Table:
    """A list of baselines, a row each; of one that cannot be used only why."""
    columns = (
        Column("Baseline", is_id=True),
        Column("Runs", Align.RIGHT),
        *map(Column, ("Engine", "Model", "Workload", "Machine", "Saved", "State")),
    )
    rows = tuple(_row(name, entry, now) for name, entry in found.items())
    return Table("Baselines", columns, rows)


def _row(name: str, entry: Baseline | UsageError, now: datetime) -> tuple[Cell, ...]:
    if isinstance(entry, UsageError):
        nothing = (Cell(""),) * 6
        return (Cell(name), *nothing, Cell(f"not usable: {entry}", tone=Tone.BAD))
    manifest = entry.manifest()
    return (
        Cell(name),
        Cell(count(len(entry.label.runs))),
        Cell(manifest.engine.name),
        Cell(manifest.model_title),
        Cell(manifest.workload.title),
        Cell(manifest.machine.title),
        Cell(str(entry.label.saved)),
        state_of(entry, now),
    )


def baseline_facts(baseline: Baseline, now: datetime) -> Table:
    """What a baseline is, who saved it, when and why; its numbers are in its runs."""
    label, manifest = baseline.label, baseline.manifest()
    facts = (
        ("State", state_of(baseline, now)),
        ("Saved", Cell(str(label.saved))),
        ("Measured", Cell(f"{label.measured_utc}, {age_days(baseline, now)} days ago")),
        ("Runs", Cell(", ".join(label.runs))),
        ("Engine", Cell(f"{manifest.engine.name} {manifest.facts.version or ''}".strip())),
        ("Model", Cell(manifest.model_title)),
        ("Workload", Cell(manifest.workload.title)),
        ("Machine", Cell(manifest.machine.title)),
        ("Batchmark", Cell(f"{label.tool_version}, format {label.format_version}")),
        ("Files", Cell(f"{len(label.files)}, all as they were saved")),
        ("Digest", Cell(f"sha256 {label.digest}")),
    )
    rows = tuple((Cell(name), cell) for name, cell in facts)
    return Table(f"Baseline {baseline.name}", (Column("What"), Column("Value")), rows)


def state_of(baseline: Baseline, now: datetime) -> Cell:
    """Whether a baseline, whose files are as they were saved, may be compared with."""
    if baseline.label.retired is not None:
        return Cell(f"retired on {baseline.label.retired}", tone=Tone.MUTED)
    days = age_days(baseline, now)
    if days > OLD_AFTER_DAYS:
        return Cell(f"old: measured {days} days ago", tone=Tone.WARN)
    return Cell("usable", tone=Tone.GOOD)
