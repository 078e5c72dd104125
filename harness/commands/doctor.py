"""`batchmark doctor`: is this machine fit, and what can it do at best?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from engines.installed import engine_findings, gpu_findings, what_is_missing
from harness import console
from harness.core.cache import default_cache_folder
from harness.core.ceilings import KeptCeilings, Site, keep_ceilings, read_ceilings, site_of
from harness.core.clock import Clock, MonotonicClock
from harness.core.errors import ExitCode, UsageError
from harness.core.fitness import Finding, is_fit
from harness.core.flag import require_positive
from harness.core.jsonable import to_json
from harness.core.manifest import Ceilings, MachineFacts
from harness.gate.fitness_table import ceiling_table, finding_table, fitness_line
from harness.loadgen.fitness import GIB, cpu_times, free_bytes, machine_findings
from harness.loadgen.machine import machine_facts, with_burn_in


def doctor(threads: int | None, *, is_quick: bool, as_json: bool) -> ExitCode:
    """Look at the machine, measure its ceilings unless `is_quick`, and say what was found.

    Ceilings are kept for the runs to come, unless the machine is unfit: then they are too low.
    """
    clock, machine, folder = MonotonicClock(), machine_facts(), default_cache_folder()
    site = _site(machine, threads)
    before = cpu_times()
    machine = with_burn_in(machine, clock)
    measured = () if is_quick else _measured(site, clock)
    findings = (
        *machine_findings(machine, before, cpu_times()),
        *gpu_findings(machine.gpus),
        *engine_findings(),
    )
    notes = _keep(KeptCeilings(site, measured), folder, findings)
    ceilings = measured or read_ceilings(folder).of(site)
    if as_json:
        said = {
            "fit": is_fit(findings),
            "machine": machine,
            "findings": findings,
            "ceilings": ceilings,
            "notes": notes,
        }
        console.print_line(json.dumps(to_json(said), indent=2))
    else:
        console.draw(finding_table(machine, findings))
        console.draw(ceiling_table(ceilings, notes))
        console.print_line(fitness_line(findings))
    return ExitCode.OK if is_fit(findings) else ExitCode.INVALID


def _site(machine: MachineFacts, threads: int | None) -> Site:
    if threads is not None:
        require_positive("--threads", threads)
        if threads > machine.cores:
            msg = (
                f"--threads is {threads}; only {machine.cores} core(s) are for us, ask for no more"
            )
            raise UsageError(msg)
    return site_of(machine, threads)


def _measured(site: Site, clock: Clock) -> tuple[Ceilings, ...]:
    """The ceilings of every device; none where torch is not installed."""
    if what_is_missing("inhouse") is not None:
        return ()
    from engines.inhouse import ceilings as of_torch  # noqa: PLC0415 - torch, and slow to load

    free = free_bytes() or 4 * GIB
    efforts = {device: of_torch.usual_effort(device, free) for device in of_torch.devices()}
    return tuple(
        of_torch.measure_ceilings(device, site.threads, effort, clock)
        for device, effort in efforts.items()
    )


def _keep(kept: KeptCeilings, folder: Path, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Keep what was measured, if it is good; returns what is to be said of that."""
    problem = read_ceilings(folder).problem
    notes = () if problem is None else (problem,)
    if not kept.ceilings:
        return notes
    if not is_fit(findings):
        return (*notes, "not kept: what an unfit machine reaches is no ceiling")
    path = keep_ceilings(folder, kept)
    how = "kept" if problem is None else "written anew"
    return (*notes, f"{how} in {path}; later runs say what share of them they reach")
