"""`batchmark baseline`: name runs to compare against."""

from __future__ import annotations

from pathlib import Path

from harness import console
from harness.core.clock import utc_now
from harness.core.errors import ExitCode
from harness.gate.baseline import list_baselines, save_baseline


def save(name: str, run_path: Path, store: Path, *, replace: bool) -> ExitCode:
    """Keep the run at `run_path` under `name`."""
    saved = save_baseline(store, name, run_path, utc_now(), replace=replace)
    console.print_line(f"saved baseline {saved.name} in {saved.path}")
    return ExitCode.OK


def list_saved(store: Path) -> ExitCode:
    """Print the saved baselines, or how to save one."""
    saved = list_baselines(store)
    if saved:
        console.print_baselines([(baseline, baseline.read().manifest) for baseline in saved])
    else:
        hint = "save one with `batchmark baseline save NAME RUN`"
        console.print_line(f"there are no baselines in {store}; {hint}")
    return ExitCode.OK
