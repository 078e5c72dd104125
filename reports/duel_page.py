"""One HTML file that says which of two engines came out ahead, and how sure that is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from harness.core.manifest import RunManifest
from harness.gate import tables
from harness.gate.agreement_table import agreement_table
from harness.gate.allowance import allowed_line
from harness.gate.decision_table import decision_table
from harness.gate.duel import Duel
from harness.gate.duel_table import (
    READING,
    claims,
    duel_table,
    not_counted,
    pair_table,
    title_of,
    verdict_of,
)
from reports.filling import fill
from reports.method import method_tables
from reports.pairs import legend_of, pair_figures


def render_duel(duel: Duel, manifests: Sequence[RunManifest]) -> str:
    """The page as text; the same input gives the same text.

    `manifests` are of one run of each side, and say how it was measured.
    """
    verdict, why, tone = verdict_of(duel)
    return fill(
        "duel.html.j2",
        heading=f"{duel.candidate_name} against {duel.baseline_name}",
        title=title_of(duel),
        allowed=allowed_line(duel.allowed),
        verdict=verdict,
        why=why,
        tone=tone,
        not_counted=not_counted(duel),
        claims=list(claims(duel)),
        factors=duel.factors,
        gate=None if duel.decision is None else decision_table(duel.decision),
        agreement=agreement_table([duel]),
        reading=READING,
        metrics=duel_table(duel),
        legend=legend_of(duel),
        figures=pair_figures(duel),
        pairs=pair_table(duel),
        cautions=tables.caution_table([("the duel", duel.cautions)], 1),
        command=shlex.join(duel.command),
        method=method_tables(manifests),
    )
