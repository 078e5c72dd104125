"""`batchmark workload`: what is sent, and when."""

from __future__ import annotations

from harness import console
from harness.core.errors import ExitCode
from harness.core.manifest import workload_facts
from harness.core.workload import Load
from workloads import catalog


def list_workloads() -> ExitCode:
    """Print the workloads that ship with batchmark."""
    specs = [catalog.load_spec(name) for name in catalog.names()]
    console.print_table(
        "Workloads",
        ("name", "requests", "prompt tokens", "output tokens", "what it is"),
        [
            (
                spec.name,
                str(len(spec.requests)),
                str(sum(r.prompt_tokens for r in spec.requests)),
                str(sum(r.output_tokens for r in spec.requests)),
                spec.description,
            )
            for spec in specs
        ],
    )
    return ExitCode.OK


def show(name: str, load: Load, repeat_mix: int, seed: int) -> ExitCode:
    """Print every arrival of a workload, and its digests."""
    workload = catalog.build_workload(catalog.load_spec(name), load, repeat_mix, seed)
    facts = workload_facts(workload)
    console.print_table(
        f"{workload.title}, seed {seed}",
        ("request", "label", "due s", "prompt tokens", "output tokens"),
        [
            (
                str(a.request.index),
                a.request.label,
                f"{a.due_ns / 1e9:.3f}",
                str(len(a.request.prompt_token_ids)),
                str(a.request.max_tokens),
            )
            for a in workload.arrivals
        ],
    )
    console.print_line(f"digest        {facts.digest}")
    console.print_line(f"shape digest  {facts.shape_digest}")
    return ExitCode.OK
