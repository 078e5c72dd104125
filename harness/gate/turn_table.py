"""Sessions turn by turn, as a table: does an answer take longer as the conversation grows?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analyzer.metrics import find_metric
from harness.analyzer.sessions import TURN_COLUMNS
from harness.analyzer.summary import MetricValue, SessionTotals, Summary
from harness.gate import formatting
from harness.gate.cells import Align, Cell, Column, Reasons, Table
from harness.gate.tables import run_labels

# Of longer sessions the first turns are shown, and the last.
MOST_TURNS = 12
_SESSION = Cell(
    "whole session",
    "from the instant that its first turn was due, or sent in a closed loop, to its last token, "
    "delays between turns included",
)


def turn_table(summaries: Sequence[Summary]) -> Table:
    """A row per turn of each run that has sessions, and one for its sessions as wholes."""
    labels = run_labels([summary.manifest for summary in summaries])
    reasons = Reasons()
    rows = tuple(
        (Cell(label), *row)
        for label, summary in zip(labels, summaries, strict=True)
        if summary.sessions is not None
        for row in _rows(summary.sessions, reasons)
    )
    columns = (
        Column("Run"),
        Column("Turn"),
        Column("Requests", Align.RIGHT),
        *(
            Column(title, Align.RIGHT, term=f"{column}_p50")
            for title, column in zip(("TTFT p50", "End to end p50"), TURN_COLUMNS, strict=True)
        ),
    )
    most = max((len(s.sessions.turns) for s in summaries if s.sessions is not None), default=0)
    left_out = (f"turns {MOST_TURNS} to {most - 1} are not shown",) if most > MOST_TURNS else ()
    return Table("Turns of the sessions", columns, rows, (*left_out, *reasons.notes))


def _rows(totals: SessionTotals, reasons: Reasons) -> Iterator[tuple[Cell, ...]]:
    turns = totals.turns
    if len(turns) > MOST_TURNS:
        turns = (*turns[: MOST_TURNS - 1], turns[-1])
    for turn in turns:
        count = Cell(formatting.count(turn.requests), exact=turn.requests)
        yield Cell(f"{turn.turn + 1}"), count, *(_cell(value, reasons) for value in turn.values)
    count = Cell(f"{formatting.count(totals.sessions)} sessions")
    yield _SESSION, count, Cell(""), _cell(totals.durations[0], reasons)


def _cell(value: MetricValue, reasons: Reasons) -> Cell:
    if value.value is None:
        return reasons.cell(value.reason)
    return Cell(formatting.seconds(value.value), _definition(value.metric), exact=value.value)


def _definition(metric: str) -> str:
    return _SESSION.note if metric.startswith("session_s") else find_metric(metric).definition
