"""`batchmark baseline`: name runs to compare against; read what others have published."""

from __future__ import annotations

from pathlib import Path

from harness import console
from harness.commands.who import who
from harness.core.clock import utc_now
from harness.core.errors import ExitCode, UsageError
from harness.core.version import tool_version
from harness.gate.allowance import RETIRED
from harness.gate.baseline import OLD_STORE, age_cautions, baselines_in, load_baseline, names_in
from harness.gate.baseline_store import act, rename_baseline, retire_baseline, save_baseline
from harness.gate.baseline_table import baseline_facts, baseline_table
from reports.published import claim_facts, find_claim, published_claims, published_table


def save(
    name: str, runs: tuple[Path, ...], store: Path, why: str, *, replaces: bool = False
) -> ExitCode:
    """Keep the runs, which are repeats of one setting, under `name`."""
    _require_own(name)
    saved = save_baseline(
        store, name, runs, act(utc_now(), who(), why), tool_version(), replaces=replaces
    )
    number = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    console.print_line(f"saved baseline {saved.name} of {number} in {saved.path}")
    return ExitCode.OK


def list_saved(store: Path) -> ExitCode:
    """Print the saved baselines, or how to save one."""
    found = baselines_in(store)
    console.draw(baseline_table(found, utc_now()))
    if not found:
        hint = "save one with `batchmark baseline save NAME RUN`"
        console.print_line(f"there are no baselines in {store}; {hint}")
    if store != OLD_STORE and (left := names_in(OLD_STORE)):
        again = f"`batchmark baseline save NAME {OLD_STORE}/NAME`"
        console.print_line(f"in {OLD_STORE}, as before: {', '.join(left)}; save again: {again}")
    return ExitCode.OK


def list_published() -> ExitCode:
    """Print what others have published, as claims."""
    console.draw(published_table(published_claims()))
    return ExitCode.OK


def show(name: str, store: Path) -> ExitCode:
    """Print all that is known of a saved baseline, or of a published claim."""
    claim = None if name in names_in(store) else find_claim(name)
    if claim is not None:
        console.draw(claim_facts(claim))
        return ExitCode.OK
    baseline, now = load_baseline(store, name, (RETIRED,)), utc_now()
    summaries = baseline.summaries()
    console.draw(baseline_facts(baseline, now))
    console.print_summaries(summaries)
    cautions = (caution for summary in summaries for caution in summary.cautions)
    console.print_cautions([*age_cautions(baseline, now), *cautions])
    return ExitCode.OK


def rename(old: str, new: str, store: Path) -> ExitCode:
    """Call the baseline `old` `new`."""
    _require_own(new)
    renamed = rename_baseline(store, old, new)
    console.print_line(f"baseline {old} is now {renamed.name}, in {renamed.path}")
    return ExitCode.OK


def retire(name: str, store: Path, why: str) -> ExitCode:
    """Keep the baseline `name`, but let nothing be compared with it unless that is said."""
    retire_baseline(store, name, act(utc_now(), who(), why))
    console.print_line(f"retired baseline {name}; to compare with it say --allow {RETIRED}")
    return ExitCode.OK


def _require_own(name: str) -> None:
    if find_claim(name) is not None:
        msg = f"{name!r} is the name of a published claim; choose another name for your baseline"
        raise UsageError(msg)
