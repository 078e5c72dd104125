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


def method_tables(manifests: Sequence[RunManifest]) -> tuple[Table, ...]:
    """What all runs share, then what differs between them; a table without rows is left out."""
    by_run = [_facts(manifest) for manifest in manifests]
    names = list(dict.fromkeys(name for facts in by_run for name in facts))
    rows = [(name, [facts.get(name, NOT_SAID) for facts in by_run]) for name in names]
    shared = tuple((Cell(name), _cell(texts[0])) for name, texts in rows if len(set(texts)) == 1)
    differing = tuple(
        (Cell(name), *(_cell(text) for text in texts))
        for name, texts in rows
        if len(set(texts)) > 1
    )
    labels = run_labels(manifests)
    every = "This run" if len(manifests) == 1 else f"The same in all {len(manifests)} runs"
    tables = (
        Table(every, (Column("What"), Column("Value")), shared),
        Table("What differs", (Column("What"), *map(Column, labels)), differing),
    )
    return tuple(table for table in tables if table.rows)


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
