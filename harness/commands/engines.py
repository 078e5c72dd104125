"""`batchmark engines`: which there are, and what each of a run would do, launching nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engines.registry import known_engines, open_engine, policies
from harness import console
from harness.core.clock import MonotonicClock
from harness.core.engine import Checked, Engine
from harness.core.engine_flags import EngineFlags, KnownEngines, plan_engines
from harness.core.engines_file import read_engines
from harness.core.errors import BatchmarkError, ExitCode
from harness.core.fingerprint import fingerprint
from harness.core.rundir import write_json
from harness.gate.comparison import ComparisonTable
from harness.gate.preflight import preflight

PREFLIGHT = "preflight.json"
_NOWHERE = Path("runs/RUN")


def list_engines(file: Path | None) -> ExitCode:
    """Print every kind of engine, those of plug-ins and of engines.toml included."""
    known = known_engines()
    rows = [
        (engine.kind, ", ".join(engine.policies), engine.problem or engine.title)
        for engine in known
    ]
    rows += [
        (name, "", f"{named.kind}, as {named.file} sets it")
        for name, named in read_engines(file).items()
    ]
    console.print_table("Engines", ("engine", "policies", "what it is"), rows)
    return ExitCode.OK


def plan(flags: EngineFlags) -> ExitCode:
    """Print how each engine would be launched, what it would do, and what stands against it."""
    known = KnownEngines(policies(), read_engines(flags.file))
    clock = MonotonicClock()
    specs = plan_engines(flags, known)
    engines = tuple(open_engine(spec, _NOWHERE / spec.name, clock) for spec in specs)
    for engine in engines:
        console.print_launch(engine.spec, engine.plan, _obstacle(engine))
    console.print_preflight(preflight(engines))
    return ExitCode.OK


def keep_preflight(engines: Sequence[Engine], folder: Path) -> None:
    """Write what `engines` will do, and how each is launched, into the folder of their runs."""
    plans = [
        {
            "name": engine.spec.name,
            "fingerprint": fingerprint(engine.plan, folder / engine.spec.name),
            "plan": engine.plan,
        }
        for engine in engines
    ]
    write_json(folder / PREFLIGHT, {"preflight": preflight(engines), "engines": plans})


def with_preflight(table: ComparisonTable, engines: Sequence[Engine]) -> ComparisonTable:
    """`table` with what cannot be made equal between its two sides, where both were run."""
    sides = [e for e in engines if e.spec.name in (table.baseline_name, table.candidate_name)]
    return replace(table, cautions=(*table.cautions, *preflight(sides).cautions))


def _obstacle(engine: Engine) -> str | None:
    """Why `engine` cannot be started here, as far as it is known; None when nothing is."""
    if not isinstance(engine, Checked):
        return None
    try:
        engine.check()
    except BatchmarkError as error:
        return str(error)
    return None
