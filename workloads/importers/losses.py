"""The tally of rows that an importer did not take as they are, by reason: none goes uncounted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LossKind(StrEnum):
    """What became of a row."""

    DROPPED = "dropped"
    CLAMPED = "clamped"
    REPAIRED = "repaired"


@dataclass(frozen=True, slots=True)
class Loss:
    """How many rows met one fate for one reason, and the number of the first of them."""

    kind: LossKind
    reason: str
    rows: int
    first_row: int

    def __str__(self) -> str:
        """The loss in words, such as `3 rows dropped: no output tokens (first: row 7)`."""
        rows = "1 row" if self.rows == 1 else f"{self.rows} rows"
        return f"{rows} {self.kind.value}: {self.reason} (first: row {self.first_row})"


class Losses:
    """Counts losses while a file is read. A reason is a few words, the same for all such rows."""

    def __init__(self) -> None:
        """Nothing lost so far."""
        self._counts: dict[tuple[LossKind, str], list[int]] = {}

    def drop(self, reason: str, row: int) -> None:
        """Row `row` yields no request."""
        self._count(LossKind.DROPPED, reason, row)

    def clamp(self, reason: str, row: int) -> None:
        """A value of row `row` was cut to a bound."""
        self._count(LossKind.CLAMPED, reason, row)

    def repair(self, reason: str, row: int) -> None:
        """Row `row` was put right, and is kept."""
        self._count(LossKind.REPAIRED, reason, row)

    def counted(self) -> tuple[Loss, ...]:
        """What was lost so far, in the order in which the reasons came up."""
        return tuple(
            Loss(kind, reason, rows, first)
            for (kind, reason), (rows, first) in self._counts.items()
        )

    def _count(self, kind: LossKind, reason: str, row: int) -> None:
        count = self._counts.setdefault((kind, reason), [0, row])
        count[0] += 1
