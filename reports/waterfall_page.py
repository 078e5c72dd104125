"""One HTML file that says what each step from static batching upwards is worth."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from harness.analyzer.glossary import entries_of
from harness.core.manifest import RunManifest
from harness.gate import tables
from harness.gate.ablation import Ablation
from harness.gate.ablation_table import (
    READING,
    claims,
    level_table,
    not_counted,
    title_of,
    waterfall_tables,
)
from reports.filling import fill
from reports.method import method_tables
from reports.waterfall import LEGEND, waterfalls


def render_ablation(ablation: Ablation, manifests: Sequence[RunManifest]) -> str:
    """The page as text; the same input gives the same text.

    `manifests` are of one run of each level, and say how it was measured.
    """
    return fill(
        "ablation.html.j2",
        heading=f"From {ablation.baseline} to {ablation.levels[-1].name}",
        title=title_of(ablation),
        claims=list(claims(ablation)),
        not_counted=not_counted(ablation),
        levels=level_table(ablation),
        reading=READING,
        legend=LEGEND,
        figures=waterfalls(ablation),
        waterfalls=waterfall_tables(ablation),
        cautions=tables.caution_table([("the ablation", ablation.cautions)], 1),
        command=shlex.join(ablation.command),
        method=method_tables(manifests),
        definitions=entries_of(f"level {level.key}" for level in ablation.levels),
    )
