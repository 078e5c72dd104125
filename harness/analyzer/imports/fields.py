"""Reading another program's JSON by name: every value has a type, every complaint names its key."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from harness.core.errors import UsageError

T = TypeVar("T")

# No request takes three years: a longer time is another unit, or no time at all.
LONGEST_S = 1e8
MOST_COUNTED = 1e15
UNITS_S: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
}
_SHOWN_CHARS = 40


@dataclass(slots=True)
class Notes:
    """What is noticed while a file is read: faults in words, and keys whose numbers are text."""

    faults: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def shown(value: object) -> str:
    """`value` as it is shown in an error: on one line, cut when it is long."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def refuse(where: str, value: object, expected: str) -> NoReturn:
    """Raise UsageError because the key at `where` has a value that it cannot have."""
    msg = f"key {where!r} is {shown(value)}; expected {expected}"
    raise UsageError(msg)


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object whose values are asked for by name. `path` is where it stands in the file."""

    data: Mapping[str, object]
    path: str
    notes: Notes

    def where(self, key: str) -> str:
        """The place of `key` in the file, such as `metrics.ttft.p50`."""
        return f"{self.path}.{key}" if self.path else key

    def has(self, dotted: str) -> bool:
        """True when there is such a key, `a.b` being `b` in the object `a`."""
        value: object = self.data
        for key in dotted.split("."):
            if not isinstance(value, Mapping) or key not in value:
                return False
            value = value[key]
        return True

    def number(self, key: str) -> float | None:
        """The finite number `key`; None without one, or when it is null, infinite or no number.

        A number that stands as text is read, and noted; what is no number at all raises UsageError.
        """
        return self._number(self.data.get(key), self.where(key))

    def count(self, key: str) -> int | None:
        """The whole number `key`, not negative; None without one."""
        number = self.number(key)
        if number is None:
            return None
        if not 0 <= number <= MOST_COUNTED or number != round(number):
            self.notes.faults.append(f"{self.where(key)} is {number:g}, which is no count")
            return None
        return int(number)

    def seconds(self, key: str, unit: str = "s") -> float | None:
        """The duration `key`, which is in `unit`, in seconds; None without one."""
        return self._seconds(self.data.get(key), self.where(key), unit)

    def text(self, key: str) -> str | None:
        """The text `key`; None when it is missing, null or empty."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, str):
            self.refuse(key, "text")
        # A lone surrogate is legal in JSON and cannot be written to a file.
        return value.encode(errors="replace").decode() or None if value is not None else None

    def child(self, key: str) -> Fields:
        """The object `key`, empty when it is missing or null."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, dict):
            self.refuse(key, "an object")
        return Fields(value or {}, self.where(key), self.notes)

    def children(self, key: str) -> tuple[Fields, ...]:
        """The objects in the list `key`, none when it is missing or null."""

        def inner(value: object, where: str) -> Fields:
            if not isinstance(value, dict):
                refuse(where, value, "an object")
            return Fields(value, where, self.notes)

        return self._each(key, inner)

    def seconds_list(self, key: str, unit: str = "s") -> tuple[float | None, ...]:
        """The durations in the list `key`, which are in `unit`, in seconds."""
        return self._each(key, lambda value, where: self._seconds(value, where, unit))

    def seconds_lists(self, key: str, unit: str = "s") -> tuple[tuple[float | None, ...], ...]:
        """The lists of durations in the list `key`, in seconds."""

        def inner(value: object, where: str) -> tuple[float | None, ...]:
            if not isinstance(value, list):
                refuse(where, value, "a list")
            return tuple(self._seconds(item, f"{where}[{i}]", unit) for i, item in enumerate(value))

        return self._each(key, inner)

    def numbers(self, key: str) -> tuple[float | None, ...]:
        """The numbers in the list `key`."""
        return self._each(key, self._number)

    def texts(self, key: str) -> tuple[str, ...]:
        """The texts in the list `key`; what is not text counts as its JSON would read."""
        return self._each(key, lambda value, _: "" if value is None else str(value))

    def refuse(self, key: str, expected: str) -> NoReturn:
        """Raise UsageError because `key` is not what it should be."""
        refuse(self.where(key), self.data.get(key), expected)

    def _list(self, key: str) -> Sequence[object]:
        value = self.data.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            self.refuse(key, "a list")
        return value

    def _each(self, key: str, take: Callable[[object, str], T]) -> tuple[T, ...]:
        where = self.where(key)
        return tuple(take(value, f"{where}[{i}]") for i, value in enumerate(self._list(key)))

    def _number(self, value: object, where: str) -> float | None:
        if value is None:
            return None
        if isinstance(value, str):
            self.notes.texts.append(where)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            refuse(where, value, "a number")
        try:
            number = float(value)
        except ValueError:
            refuse(where, value, "a number")
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.notes.faults.append(f"{where} is {number}")
            return None
        return number

    def _seconds(self, value: object, where: str, unit: str) -> float | None:
        number = self._number(value, where)
        if number is None:
            return None
        seconds = number * UNITS_S[unit]
        if not 0 <= seconds <= LONGEST_S:
            self.notes.faults.append(f"{where} is {number:g} {unit}, which is no duration")
            return None
        return seconds


def same_length(fields: Fields, **columns: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of `columns`, lists of one length each or empty.

    An empty one yields None in every row. Raises UsageError, naming two, when lengths differ.
    """
    lengths = {name: len(column) for name, column in columns.items() if column}
    longest = max(lengths, key=lambda name: lengths[name], default=None)
    if longest is None:
        return
    for name, length in lengths.items():
        if length != lengths[longest]:
            msg = (
                f"keys {fields.where(longest)!r} and {fields.where(name)!r} have "
                f"{lengths[longest]} and {length} entries; expected one for each request in both"
            )
            raise UsageError(msg)
    for index in range(lengths[longest]):
        yield tuple(column[index] if column else None for column in columns.values())
