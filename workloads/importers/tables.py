"""Rows of lengths: a time, and how many tokens were asked and answered, under a format's names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from workloads.importers.losses import Losses
from workloads.importers.row import Row, TimeUnit
from workloads.shape import Shape


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a format are called, and the unit of its times."""

    time: str
    unit: TimeUnit | Literal["wall clock"]
    prompt_tokens: str
    output_tokens: str
    session: str | None = None
    label: str | None = None
    may_lack_time: bool = False

    @property
    def required(self) -> frozenset[str]:
        """The columns without which a file is not of the format."""
        lengths = frozenset({self.prompt_tokens, self.output_tokens})
        return lengths if self.may_lack_time else lengths | {self.time}


def table_shapes(rows: Iterable[Row], columns: Columns, losses: Losses) -> Iterator[Shape]:
    """A shape for each of `rows`; those with no tokens to send or to ask for are dropped."""
    for row in rows:
        due_ns = instant_of(row, columns)
        prompt_tokens = row.whole(columns.prompt_tokens)
        output_tokens = row.whole(columns.output_tokens)
        if has_tokens(row, prompt_tokens, output_tokens, losses):
            yield Shape(
                prompt_tokens,
                output_tokens,
                label=(columns.label and row.optional_text(columns.label)) or "",
                due_ns=due_ns,
                session=columns.session and row.optional_text(columns.session),
            )


def instant_of(row: Row, columns: Columns) -> int | None:
    """The time of `row` in ns, None where the file has no such column, and need not have it."""
    if columns.may_lack_time and columns.time not in row.fields:
        return None
    if columns.unit == "wall clock":
        return row.wall_clock_ns(columns.time)
    return row.instant_ns(columns.time, columns.unit)


def has_tokens(
    row: Row, prompt_tokens: int | None, output_tokens: int | None, losses: Losses
) -> bool:
    """False, and counted as dropped, when there is nothing to send, or nothing was answered."""
    if prompt_tokens == 0:
        losses.drop("no prompt tokens", row.number)
    elif output_tokens == 0:
        losses.drop("no output tokens", row.number)
    return 0 not in (prompt_tokens, output_tokens)
