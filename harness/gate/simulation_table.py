"""Simulated policies beside each other, as plain strings."""

from __future__ import annotations

from collections.abc import Mapping

from harness.gate import formatting
from harness.gate.cells import Align, Cell, Column, Table

_TITLES = {
    "elapsed_ms": "elapsed",
    "output_tok_s": "output rate",
    "padding_share": "padded slots",
    "busy_share": "busy slots",
    "ttft_ms_mean": "mean TTFT",
    "ttft_ms_p50": "TTFT p50",
    "ttft_ms_p99": "TTFT p99",
    "tpot_ms_mean": "mean TPOT",
    "e2e_ms_mean": "mean end-to-end latency",
}
NOTHING_CAME = f"{formatting.NOT_MEASURED}: nothing came so far in the simulated time"


def simulation_table(sides: Mapping[str, Mapping[str, float | None]], context: str) -> Table:
    """A row a figure. `sides` maps a policy's name to its figures by name.

    `context` says what was simulated.
    """
    names = list(next(iter(sides.values())))
    rows = tuple(
        (
            Cell(_TITLES.get(name, name.replace("_", " "))),
            *(Cell(_text(name, side[name]), exact=side[name]) for side in sides.values()),
        )
        for name in names
    )
    columns = (Column("figure"), *(Column(side, Align.RIGHT, is_mixed=True) for side in sides))
    is_missing = any(value is None for side in sides.values() for value in side.values())
    return Table(f"Simulated: {context}", columns, rows, (NOTHING_CAME,) if is_missing else ())


def ratio_line(policy: str, ratio: float | None, context: str) -> str:
    """The ratio of `policy` to static batching as a sentence."""
    said = "no ratio of" if ratio is None else f"{ratio:.3f}x"
    return f"{said} output tok/s, {policy} vs static ({context})"


def _text(name: str, value: float | None) -> str:
    if name.endswith("_share"):
        return formatting.NOT_MEASURED if value is None else f"{100 * value:.2f} %"
    if name.endswith("_tok_s"):
        return formatting.NOT_MEASURED if value is None else f"{value:.2f} tok/s"
    if name == "elapsed_ms" and value is not None:
        return f"{value:,.0f} ms"
    if "_ms" in name:
        return formatting.seconds(None if value is None else value / 1000)
    return formatting.count(value)
