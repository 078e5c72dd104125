"""One row of a trace, whose fields are asked for by name and kind; wrong ones are refused by name.

Row numbers count the lines of a file from 1, so that the header of a table is row 1, as it is in a
spreadsheet; in a JSON document they count the items of its list.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NoReturn

from harness.core.errors import TraceError
from harness.core.units import NS_PER_MS, NS_PER_S, NS_PER_US
from workloads.importers.wall_clock import wall_clock_ns

TimeUnit = Literal["s", "ms", "us", "ns"]
NS_PER: Mapping[TimeUnit, int] = {"s": NS_PER_S, "ms": NS_PER_MS, "us": NS_PER_US, "ns": 1}

# Longer than any context; a larger count is a mistake, or a value of another column.
MOST_TOKENS = 100_000_000
_LATEST = Decimal(10**19)  # any unit's count since 1970, for centuries to come
_LARGEST_ID = 2**64
_NUMBER = re.compile(r"[+-]?\d{1,40}(\.\d{0,40})?([eE][+-]?\d{1,3})?", re.ASCII)
_HALF_PAIR = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Row:
    """A mapping of names to values and its place in the file, which every TraceError names.

    `within` is the place inside the row, such as `turns[2].`, and empty at its top. The optional
    readings give None where the field is absent, null or empty.
    """

    number: int
    fields: Mapping[str, Any]
    path: Path
    within: str = ""

    def has(self, key: str) -> bool:
        """True when the field is there, neither null nor empty."""
        return self.fields.get(key) not in (None, "")

    def first_of(self, *keys: str) -> str | None:
        """The first of `keys` that the row has, or None: for fields that go by several names."""
        return next((key for key in keys if self.has(key)), None)

    def text(self, key: str) -> str:
        """The text of a field, perhaps empty. Half a surrogate pair is refused."""
        value = self._given(key)
        if not isinstance(value, str):
            self.refuse(key, "a text")
        if _HALF_PAIR.search(value):
            self.refuse(key, "text in which no surrogate stands alone")
        return value

    def optional_text(self, key: str) -> str | None:
        """The text of a field that may be absent."""
        return self.text(key) if self.has(key) else None

    def whole(self, key: str, most: int = MOST_TOKENS) -> int:
        """A whole number from 0 to `most`, such as a count of tokens."""
        value = self._given(key)
        is_plain = (
            isinstance(value, str) and len(value) < 10 and value.isascii() and value.isdigit()
        )
        number = int(value) if is_plain else self._decimal(key)
        if not 0 <= number <= most or number != int(number):
            self.refuse(key, f"a whole number from 0 to {most}")
        return int(number)

    def quantity(self, key: str, most: float) -> float:
        """A number from 0 to `most`, whole or not."""
        value = float(self._decimal(key))
        if not 0 <= value <= most:
            self.refuse(key, f"a number from 0 to {most:g}")
        return value

    def instant_ns(self, key: str, unit: TimeUnit) -> int:
        """A time or a duration, given in `unit`, in whole ns; it may not be negative."""
        value = self._decimal(key)
        if not 0 <= value < _LATEST:
            self.refuse(key, f"a time in {unit} that is not negative")
        return round(value * NS_PER[unit])

    def optional_instant_ns(self, key: str, unit: TimeUnit) -> int | None:
        """A time or a duration that may be absent."""
        return self.instant_ns(key, unit) if self.has(key) else None

    def wall_clock_ns(self, key: str) -> int:
        """A date with a time of day, in ns since 1970."""
        instant = wall_clock_ns(self.text(key))
        if instant is None:
            self.refuse(key, "a date since 1970 such as 2024-05-10 00:00:00.009930+00:00")
        return instant

    def ids(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers, such as token ids or the hashes of blocks."""
        values = self._given(key)
        if not isinstance(values, list) or not all(
            type(value) is int and 0 <= value < _LARGEST_ID for value in values
        ):
            self.refuse(key, "a list of whole numbers")
        return tuple(values)

    def child(self, key: str) -> Row:
        """The object in a field."""
        value = self._given(key)
        if not isinstance(value, dict):
            self.refuse(key, "an object")
        return Row(self.number, value, self.path, f"{self.within}{key}.")

    def objects(self, key: str) -> tuple[Row, ...]:
        """The objects of a list in a field."""
        values = self._given(key)
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            self.refuse(key, "a list of objects")
        return tuple(
            Row(self.number, value, self.path, f"{self.within}{key}[{index}].")
            for index, value in enumerate(values)
        )

    def refuse(self, key: str, expected: str) -> NoReturn:
        """Raise TraceError: the field `key` is not what it should be."""
        shown = _shown(self.fields.get(key))
        msg = f"{self._place}: {self.within}{key} is {shown}, expected {expected}; {_REMEDY}"
        raise TraceError(msg)

    @property
    def _place(self) -> str:
        return f"{self.path} row {self.number}"

    def _given(self, key: str) -> Any:
        value = self.fields.get(key)
        if value is None:
            found = ", ".join(map(repr, self.fields))[:200] or "nothing"
            msg = f"{self._place}: there is no {self.within}{key}, only {found}; {_REMEDY}"
            raise TraceError(msg)
        return value

    def _decimal(self, key: str) -> Decimal:
        value = self._given(key)
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            return Decimal(value.strip())
        if type(value) is int:
            return Decimal(value)
        if not isinstance(value, float) or not math.isfinite(value):
            self.refuse(key, "a finite number")
        return Decimal(repr(value))  # as it is written: 0.011 s are 11 ms, and no bit more


_REMEDY = "correct the file, or say with --format what it is"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
