"""`batchmark compare`: runs of one setting against a named baseline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness import console
from harness.commands.judging import (
    compare_reported,
    compare_saved,
    open_baseline,
    read_reported,
)
from harness.core.errors import ExitCode
from harness.core.jsonable import to_json
from harness.core.rundir import MANIFEST
from harness.core.slo import parse_slos
from harness.gate.agreement_table import agreement_table
from harness.gate.allowance import allowed_keys, allowed_line
from harness.gate.comparison import ComparisonTable
from harness.gate.comparison_table import comparison_table
from harness.gate.tables import caution_table
from reports.published import Published, claim_table, fitting
from reports.tables import markdown_page


@dataclass(frozen=True, slots=True)
class CompareFlags:
    """The flags of `batchmark compare`, as typed."""

    runs: tuple[Path, ...]
    baseline: str
    store: Path
    allow: tuple[str, ...] = ()
    as_json: bool = False
    as_markdown: bool = False
    slos: tuple[str, ...] = ()


def compare_runs(flags: CompareFlags) -> ExitCode:
    """Print the ratios of the runs to a baseline: a saved one's name, or a run's folder."""
    allowed = allowed_keys(flags.allow)
    limits = parse_slos(flags.slos)
    candidate = [read_reported(path, limits) for path in flags.runs]
    name = candidate[0].summary.manifest.engine.name
    other = Path(flags.baseline)
    if (other / MANIFEST).is_file():
        base = read_reported(other, candidate[0].folder.manifest.slos)
        base_name = base.summary.manifest.engine.name
        table = compare_reported(base_name, [base], name, candidate, paired=False, allowed=allowed)
    else:
        saved = open_baseline(flags.store, flags.baseline, allowed)
        table = compare_saved(saved, name, candidate, allowed)
    claims = fitting([table], [run.summary.manifest for run in candidate])
    if flags.as_json:
        said = {"allowed": table.allowed, "comparison": table, "claims": claims}
        console.print_line(json.dumps(to_json(said), indent=2, allow_nan=False))
    elif flags.as_markdown:
        console.print_line(_markdown(table, claims))
    else:
        console.print_comparison(table)
        console.print_cautions(table.cautions)
        console.draw(claim_table(claims))
    return ExitCode.OK


def _markdown(table: ComparisonTable, claims: Sequence[Published]) -> str:
    """The comparison for a page or a pull request; what was allowed is its first line."""
    drawn = comparison_table(table)
    parts = (
        replace(drawn, title=f"{drawn.title} ({table.context})"),
        agreement_table([table]),
        caution_table([(drawn.title, table.cautions)], runs=1),
        claim_table(claims),
    )
    return markdown_page([allowed_line(table.allowed)] if table.allowed else [], parts).strip()
