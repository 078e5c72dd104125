"""One HTML file that shows latency against throughput, and which loads are worth choosing."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from harness.core.manifest import RunManifest
from harness.gate import tables
from harness.gate.sweep import Sweep
from harness.gate.sweep_table import (
    highlights,
    not_counted,
    point_table,
    reading,
    title_of,
)
from reports.curve import curves
from reports.filling import fill
from reports.method import method_tables


def render_sweep(sweep: Sweep, manifests: Sequence[RunManifest]) -> str:
    """The page as text; the same input gives the same text.

    `manifests` are of one run of each engine, and say how it was measured.
    """
    return fill(
        "loads.html.j2",
        kind="batchmark sweep: one load after another",
        heading="Latency against throughput",
        title=title_of(sweep),
        claims=list(highlights(sweep)),
        trouble=not_counted(sweep),
        reading=reading(sweep),
        figures=curves(sweep),
        rows=point_table(sweep),
        cautions=tables.caution_table([("the sweep", sweep.cautions)], 1),
        command=shlex.join(sweep.command),
        method=method_tables(manifests),
    )
