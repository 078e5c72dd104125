"""How each run was made, as the rows of a page: all that somebody needs to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from harness.core.manifest import Ceilings, RunManifest
from harness.gate import formatting
from harness.gate.cells import Cell, Column, Table
from harness.gate.fitness_table import ceiling_rates
from harness.gate.tables import run_labels

NOT_SAID = "not said"
_MOST_NAMED = 3
_BY_NATURE = {
    "command",
    "run",
    "status",
    "started (UTC)",
    "ended (UTC)",
    "launched as",
    "label launch",
}

# What it is called, and what each run says of it.
Fact = tuple[str, list[str]]


def method_tables(manifests: Sequence[RunManifest]) -> tuple[Table, ...]:
    """What all runs share, then what differs between them; a table without rows is left out."""
    shared, differing = _split(manifests)
    tables = (_shared_table(manifests, shared), _differing_table(manifests, differing))
    return tuple(table for table in tables if table.rows)


def unlike_table(manifests: Sequence[RunManifest]) -> Table:
    """What is not alike of the things that can change a number: a column for runs alike in it.

    What tells runs apart by nature, such as their names and instants, is in `each_run_tables`.
    """
    _, differing = _split(manifests)
    rows = [(name, texts) for name, texts in differing if name not in _BY_NATURE]
    columns = list(zip(*(texts for _, texts in rows), strict=True))
    first = [columns.index(column) for column in columns]  # runs with the same texts are one column
    shown = list(dict.fromkeys(first))
    labels = run_labels(manifests)
    heads = [_together([labels[i] for i, of in enumerate(first) if of == one]) for one in shown]
    cells = tuple((Cell(name), *(_cell(texts[i]) for i in shown)) for name, texts in rows)
    return Table("What differs between the runs", (Column("What"), *map(_of_run, heads)), cells)


def each_run_tables(manifests: Sequence[RunManifest]) -> tuple[Table, ...]:
    """What all runs share, then what tells each apart by nature."""
    shared, differing = _split(manifests)
    rows = [(name, texts) for name, texts in differing if name in _BY_NATURE]
    tables = (_shared_table(manifests, shared), _differing_table(manifests, rows, "Each run"))
    return tuple(table for table in tables if table.rows)


def _split(manifests: Sequence[RunManifest]) -> tuple[list[Fact], list[Fact]]:
    """What has the same text in all runs, and what has not."""
    by_run = [_facts(manifest) for manifest in manifests]
    names = dict.fromkeys(name for facts in by_run for name in facts)
    facts = [(name, [of_run.get(name, NOT_SAID) for of_run in by_run]) for name in names]
    return (
        [fact for fact in facts if len(set(fact[1])) == 1],
        [fact for fact in facts if len(set(fact[1])) > 1],
    )


def _shared_table(manifests: Sequence[RunManifest], facts: Sequence[Fact]) -> Table:
    title = "This run" if len(manifests) == 1 else f"The same in all {len(manifests)} runs"
    rows = tuple((Cell(name), _cell(texts[0])) for name, texts in facts)
    return Table(title, (Column("What"), Column("Value")), rows)


def _differing_table(
    manifests: Sequence[RunManifest], facts: Sequence[Fact], title: str = "What differs"
) -> Table:
    rows = tuple((Cell(name), *map(_cell, texts)) for name, texts in facts)
    return Table(title, (Column("What"), *map(_of_run, run_labels(manifests))), rows)


def _of_run(head: str) -> Column:
    return Column(head, term="run")


def _together(labels: Sequence[str]) -> str:
    """One head for runs that are alike; those of a longer list are counted."""
    if len(labels) <= _MOST_NAMED:
        return ", ".join(labels)
    return f"{labels[0]} and {len(labels) - 1} more"


def _cell(text: str) -> Cell:
    return Cell(text or "none")


def _facts(manifest: RunManifest) -> dict[str, str]:
    return {
        **_workload_facts(manifest),
        **_engine_facts(manifest),
        "machine": manifest.machine.title,
        "memory": f"{manifest.machine.memory_gib} GiB",
        "ceilings": _ceilings(manifest.ceilings),
        "operating system": manifest.machine.os,
        "Python": manifest.machine.python,
        "batchmark": manifest.tool_version,
        "command": shlex.join(manifest.command),
        "clock": manifest.clock,
        "run": manifest.run_id,
        "status": manifest.status.value + (f": {manifest.failure}" if manifest.failure else ""),
        "started (UTC)": manifest.created_utc,
        "ended (UTC)": manifest.ended_utc or NOT_SAID,
        **{f"label {name}": text for name, text in sorted(manifest.labels.items())},
    }


def _workload_facts(manifest: RunManifest) -> dict[str, str]:
    workload = manifest.workload
    repeats = workload.repeat_mix
    times = "as often as the stages last" if repeats is None else f"{repeats} times"
    distinct = workload.distinct_prompts
    return {
        "workload": f"{workload.name}, mix repeated {times}",
        "load": str(workload.load),
        "seed": str(workload.seed),
        "requests": formatting.count(workload.requests),
        "distinct prompts": NOT_SAID if distinct is None else formatting.count(distinct),
        "prompt tokens": formatting.count(workload.prompt_tokens),
        "output tokens asked": formatting.count(workload.output_tokens),
        "workload digest": workload.digest,
        "workload shape digest": workload.shape_digest,
        "warm-up": f"{manifest.warmup_requests} requests, not counted",
        "limits of goodput": ", ".join(map(str, manifest.slos)),
    }


def _engine_facts(manifest: RunManifest) -> dict[str, str]:
    spec, facts = manifest.engine, manifest.facts
    context = facts.context_tokens
    return {
        "model": manifest.model_title,
        "model digest": facts.model_digest or NOT_SAID,
        "weights": facts.weights or NOT_SAID,
        "context": NOT_SAID if context is None else f"{formatting.count(context)} tokens",
        "engine": f"{spec.name} ({spec.kind})",
        "engine version": facts.version or NOT_SAID,
        "policy": spec.policy or "the engine's own",
        "slots": str(spec.slots),
        "threads": "all cores" if spec.threads is None else str(spec.threads),
        "prompts padded": "yes" if spec.pad_prompts else "no",
        "batch window": _milliseconds(spec.batch_window_ms),
        **{f"setting {name}": str(value) for name, value in sorted(facts.settings.items())},
        "launched as": shlex.join(manifest.launch) or "not launched: attached to a running server",
    }


def _ceilings(ceilings: Ceilings | None) -> str:
    if ceilings is None:
        return NOT_SAID
    rates = ", ".join(f"{what} {rate}" for what, rate in ceiling_rates(ceilings).items())
    return f"{rates} ({ceilings.device}, {ceilings.threads} threads, {ceilings.measured_utc})"


def _milliseconds(value: float | None) -> str:
    return "the policy's own" if value is None else formatting.seconds(value / 1000)
