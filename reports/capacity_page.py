"""One HTML file that says which load an engine bears, and how that was found out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from harness.core.manifest import RunManifest
from harness.gate import tables
from harness.gate.capacity_table import (
    READING,
    bracket_text,
    probe_table,
    title_of,
)
from harness.gate.probing import Capacity
from reports.filling import fill
from reports.method import method_tables
from reports.shares import shares


def render_capacity(found: Capacity, manifests: Sequence[RunManifest]) -> str:
    """The page as text; the same input gives the same text.

    `manifests` are of the probes; the first one says how they were measured.
    """
    return fill(
        "loads.html.j2",
        kind="batchmark capacity: the highest load that keeps to its objectives",
        heading=f"Capacity of {found.engine}",
        title=title_of(found),
        claims=[bracket_text(found)],
        trouble=found.ended,
        reading=READING,
        figures=shares(found),
        rows=probe_table(found),
        cautions=tables.caution_table([("the search", found.cautions)], 1),
        command=shlex.join(found.command),
        method=method_tables(manifests[:1]),
    )
