"""Cost models for the simulator: fitted to runs, kept in files, and said in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from engines.simulator.calibration import Calibration, cost_rows, fit_cost
from harness import console
from harness.analyzer.reading import read_run
from harness.core.errors import UsageError
from harness.core.jsonable import from_json
from harness.core.manifest import RunManifest
from harness.core.rundir import RunFolder, write_json
from harness.core.units import NS_PER_S
from harness.gate import formatting
from harness.gate.comparison import context_of


def calibrate(folders: Sequence[Path]) -> Calibration:
    """The cost model fitted to the measured steps of the runs in `folders`, taken together.

    Raises UsageError when they are of unlike engines, or say too little of their steps.
    """
    runs = [read_run(folder) for folder in folders]
    _require_alike(runs)
    steps = [step for run in runs for step in run.steps if step.started_ns >= run.manifest.start_ns]
    sources = (f"{run.path} ({context_of(run.manifest)})" for run in runs)
    return fit_cost(steps, ", ".join(sources))


def load(path: Path) -> Calibration:
    """The calibration that `save` wrote to `path`. Raises UsageError when there is none."""
    try:
        return from_json(Calibration, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        msg = (
            f"cannot read costs from {path}: {reason}; write them with --calibrate and --save-cost"
        )
        raise UsageError(msg) from error


def save(calibration: Calibration, path: Path) -> None:
    """Write `calibration` to a new file. Raises UsageError when something is there already."""
    if path.exists():
        msg = f"{path} exists already; name another file with --save-cost, or move that one away"
        raise UsageError(msg)
    try:
        write_json(path, calibration)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}; name another file with --save-cost"
        raise UsageError(msg) from error


def show(calibration: Calibration) -> None:
    """Print the fitted costs and how well they describe the steps."""
    costs = (
        (title, formatting.seconds(ns / NS_PER_S)) for title, ns in cost_rows(calibration.cost)
    )
    console.print_table(f"Costs fitted to {calibration.source}", ("what", "takes"), costs)
    fits = (
        (
            half,
            formatting.count(fit.steps),
            formatting.share(fit.miss_median),
            formatting.share(fit.held_out_miss_median),
            formatting.share(fit.predicted_share),
        )
        for half, fit in (("prefill", calibration.prefill), ("decode", calibration.decode))
    )
    headers = ("half", "steps", "median miss", "held-out miss", "predicted / measured time")
    console.print_table("How well they fit: |predicted / measured - 1| of a step", headers, fits)


def _require_alike(runs: Sequence[RunFolder]) -> None:
    first = _who(runs[0].manifest)
    for run in runs[1:]:
        if _who(run.manifest) != first:
            msg = (
                f"--calibrate names {runs[0].path} ({', '.join(first)}) and {run.path} "
                f"({', '.join(_who(run.manifest))}); one cost model describes one engine on one "
                "machine"
            )
            raise UsageError(msg)


def _who(manifest: RunManifest) -> tuple[str, ...]:
    """What decides how long a step takes, beside what it holds."""
    threads = manifest.engine.threads
    return (
        manifest.engine.kind,
        manifest.model_title,
        manifest.machine.title,
        "all threads" if threads is None else f"{threads} threads",
    )
