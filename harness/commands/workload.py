"""`batchmark workload`: what is sent, and when."""

from __future__ import annotations

from pathlib import Path

from harness import console
from harness.core.errors import ExitCode
from harness.core.manifest import workload_facts
from harness.core.plan import LoadFlags, mix_repeats, parse_load, require_work
from harness.core.workload import Workload
from workloads import catalog
from workloads.schedule_file import read_schedule, write_schedule


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


def show(name: str | None, flags: LoadFlags, seed: int | None) -> ExitCode:
    """Print every arrival of a workload, and its digests."""
    workload = _build(name, flags, seed)
    console.print_table(
        f"{workload.title}, seed {workload.seed}",
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
    _print_digests(workload)
    return ExitCode.OK


def lock(name: str, flags: LoadFlags, seed: int, out: Path) -> ExitCode:
    """Write everything that would be sent, and when, to the new file `out`."""
    workload = _build(name, flags, seed)
    write_schedule(out, workload)
    console.print_line(f"{workload.title}, seed {seed}: {len(workload.arrivals)} requests in {out}")
    _print_digests(workload)
    return ExitCode.OK


def _build(name: str | None, flags: LoadFlags, seed: int | None) -> Workload:
    load = parse_load(flags)
    require_work(name, flags, seed)
    if flags.schedule is not None:
        return read_schedule(flags.schedule, load.speed or 1.0, name)
    return catalog.build_workload(
        catalog.load_spec(name or ""), load, mix_repeats(flags), 0 if seed is None else seed
    )


def _print_digests(workload: Workload) -> None:
    facts = workload_facts(workload)
    console.print_line(f"digest        {facts.digest}")
    console.print_line(f"shape digest  {facts.shape_digest}")
