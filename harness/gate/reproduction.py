"""A run that is to be made again: what is not as it was, before anything is started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.core.errors import NotComparable
from harness.core.manifest import MachineFacts, RunManifest, WorkloadFacts
from harness.gate.cells import Cell, Column, Table, Tone


@dataclass(frozen=True, slots=True)
class Present:
    """What a run would be made with now. `model_digest` is None where no file here tells."""

    tool_version: str
    machine: MachineFacts
    workload: WorkloadFacts
    model_digest: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was another when the run was made."""

    what: str
    then: str
    now: str


def changes(manifest: RunManifest, present: Present) -> tuple[Change, ...]:
    """What differs between the run of `manifest` and one of `present`; empty when nothing does."""
    return tuple(_changes(manifest, present))


def require_same_bytes(manifest: RunManifest, present: Present) -> None:
    """Raise NotComparable unless the same bytes would be sent at the same instants."""
    then, now = manifest.workload, present.workload
    if then.digest == now.digest:
        return
    msg = f"the workload of {manifest.run_id} cannot be made again: its digest was"
    msg = f"{msg} {then.digest[:16]}, now it is {now.digest[:16]}"
    if then.source is not None and now.source is not None:
        which = "is another" if then.source.sha256 != now.source.sha256 else "is the same"
        msg = f"{msg}, and {now.source.file} {which}"
    raise NotComparable(f"{msg}; restore it, or use batchmark {manifest.tool_version}")


def changes_table(found: tuple[Change, ...]) -> Table:
    """`found` as a table; it has no rows when there is nothing to say."""
    columns = (Column("What differs"), Column("then"), Column("now"))
    rows = tuple(
        (Cell(change.what), Cell(change.then), Cell(change.now, tone=Tone.WARN)) for change in found
    )
    return Table("", columns, rows)


def _changes(manifest: RunManifest, present: Present) -> Iterator[Change]:
    yield from _unequal("workload digest", manifest.workload.digest, present.workload.digest)
    yield from _unequal("batchmark", manifest.tool_version, present.tool_version)
    if None not in (manifest.facts.model_digest, present.model_digest):
        yield from _unequal("model digest", manifest.facts.model_digest, present.model_digest)
    then, now = manifest.machine, present.machine
    for what, before, after in (
        ("CPU", then.cpu_model, now.cpu_model),
        ("cores", then.cores, now.cores),
        ("memory", f"{then.memory_gib} GiB", f"{now.memory_gib} GiB"),
        ("GPUs", ", ".join(then.gpus) or "none", ", ".join(now.gpus) or "none"),
        ("system", then.os, now.os),
        ("Python", then.python, now.python),
    ):
        yield from _unequal(what, before, after)


def _unequal(what: str, then: object, now: object) -> Iterator[Change]:
    if then != now:
        yield Change(what, *(_shown(value) for value in (then, now)))


def _shown(value: object) -> str:
    text = str(value)
    return f"{text[:16]}…" if len(text) == 64 else text
