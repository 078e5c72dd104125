"""Many request records as columns: one array a field, instead of one object a request.

Ten million token events are 160 MB this way. A record is made of the columns where one is asked
for, so whoever wants a few records can treat them as the sequence that they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_type_hints, overload

import numpy as np
import numpy.typing as npt

from harness.analyzer.strings import Strings, StringsBuilder, gather
from harness.core.record import Outcome, RequestError, RequestRecord
from harness.core.units import NS_PER_S

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Stands for None in a column of numbers. No count and no instant comes near it.
MISSING = int(np.iinfo(np.int64).min)

_HINTS = get_type_hints(RequestRecord)
_RAGGED = ("events_ns", "events_tokens")
_NUMBERS = tuple(name for name, hint in _HINTS.items() if hint in (int, int | None))
_MARKS = ("ids_marks", "text_marks")
_WORDS = tuple(name for name in _HINTS if name not in (*_RAGGED, *_NUMBERS, *_MARKS))


@dataclass(frozen=True, eq=False)
class RecordColumns(Sequence[RequestRecord]):
    """Request records in the order of their index, by column.

    `numbers` are the fields of a RequestRecord that are numbers, MISSING where there is none,
    `marks` those that hold marks of the answer, and `words` the others, a list each. The events of
    request i are `starts[i]` to `starts[i + 1]` of `events_ns` and `events_tokens`.
    """

    numbers: Mapping[str, Ints]
    words: Mapping[str, Sequence[Any]]
    marks: Mapping[str, Strings]
    events_ns: Ints
    events_tokens: Ints
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, at: int) -> RequestRecord: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[RequestRecord]: ...
    def __getitem__(self, at: int | slice) -> RequestRecord | Sequence[RequestRecord]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        i = range(len(self))[at]
        events = slice(int(self.starts[i]), int(self.starts[i + 1]))
        values: dict[str, Any] = {name: column[i] for name, column in self.words.items()}
        values |= {name: column[i] for name, column in self.marks.items()}
        values |= {name: _or_none(int(column[i])) for name, column in self.numbers.items()}
        return RequestRecord(
            events_ns=tuple(self.events_ns[events].tolist()),
            events_tokens=tuple(map(_or_none, self.events_tokens[events].tolist())),
            **values,
        )

    @property
    def event_counts(self) -> Ints:
        """How many token events each request received."""
        return np.diff(self.starts)

    @property
    def first_ns(self) -> Ints:
        """The first token event of each request, MISSING without one."""
        return self._at_event(self.events_ns, self.starts[:-1])

    @property
    def last_ns(self) -> Ints:
        """The last token event of each request, MISSING without one."""
        return self._at_event(self.events_ns, self.starts[1:] - 1)

    @property
    def first_tokens(self) -> Ints:
        """How many tokens the first event of each request carried, MISSING where not known."""
        return self._at_event(self.events_tokens, self.starts[:-1])

    @cached_property
    def streamed_tokens(self) -> Ints:
        """How many tokens the events of each request carried; MISSING when one does not say."""
        is_unknown = self.events_tokens == MISSING
        if not is_unknown.any():
            return self.sum_by_request(self.events_tokens)
        sums = self.sum_by_request(np.where(is_unknown, 0, self.events_tokens))
        return np.where(self.sum_by_request(is_unknown.astype(np.int64)) > 0, MISSING, sums)

    @property
    def errors(self) -> Sequence[RequestError | None]:
        """Why each request did not end well."""
        return self.words["error"]

    def came_out(self, outcome: Outcome) -> Bools:
        """Which requests came out as `outcome`."""
        return np.fromiter((o is outcome for o in self.words["outcome"]), bool, len(self))

    @cached_property
    def is_first_event(self) -> Bools:
        """Which events are the first of their request."""
        is_first = np.zeros(len(self.events_ns), dtype=bool)
        is_first[self.starts[:-1][self.event_counts > 0]] = True
        is_first.setflags(write=False)  # many ask for it, and none may change it for the others
        return is_first

    def sum_by_request(self, values: Ints) -> Ints:
        """The sum of `values`, one an event, over the events of each request."""
        sums = np.zeros(len(self), dtype=np.int64)
        has_events = self.event_counts > 0
        if has_events.any():
            sums[has_events] = np.add.reduceat(values, self.starts[:-1][has_events])
        return sums

    def _at_event(self, values: Ints, at: Ints) -> Ints:
        """`values`, one an event, at one place for each request; MISSING without events."""
        found = np.full(len(self), MISSING)
        has_events = self.event_counts > 0
        found[has_events] = values[at[has_events]]
        return found


class ColumnsBuilder:
    """Takes records one by one, in any order, and makes columns of them."""

    def __init__(self) -> None:
        self._numbers = {name: array("q") for name in _NUMBERS}
        self._words: dict[str, list[Any]] = {name: [] for name in _WORDS}
        self._marks = {name: StringsBuilder() for name in _MARKS}
        self._events_ns = array("q")
        self._events_tokens = array("q")
        self._starts = array("q", [0])

    def add(self, record: RequestRecord) -> None:
        """Append `record`.

        Raises ValueError, and appends nothing, when its events are not as many as their tokens, or
        its marks are no ASCII.
        """
        if len(record.events_ns) != len(record.events_tokens):
            msg = f"{len(record.events_ns)} events, but {len(record.events_tokens)} token counts"
            raise ValueError(msg)
        marks = [(getattr(record, name) or "").encode("ascii") for name in _MARKS]
        self._events_ns.extend(array("q", record.events_ns))
        self._events_tokens.extend(_tokens(record.events_tokens))
        self._starts.append(len(self._events_ns))
        for name, numbers in self._numbers.items():
            value = getattr(record, name)
            numbers.append(MISSING if value is None else value)
        for name, words in self._words.items():
            words.append(getattr(record, name))
        for builder, characters in zip(self._marks.values(), marks, strict=True):
            builder.add(characters)

    def build(self) -> RecordColumns:
        """What was added, in the order of the index; the builder is not to be used after."""
        columns = RecordColumns(
            numbers={name: _column(numbers) for name, numbers in self._numbers.items()},
            words=self._words,
            marks={name: builder.build() for name, builder in self._marks.items()},
            events_ns=_column(self._events_ns),
            events_tokens=_column(self._events_tokens),
            starts=_column(self._starts),
        )
        index = columns.numbers["index"]
        if np.all(index[1:] >= index[:-1]):
            return columns
        return _rearranged(columns, np.argsort(index, kind="stable"))


def columns_of(records: Iterable[RequestRecord]) -> RecordColumns:
    """`records` as columns: themselves if they are that already."""
    if isinstance(records, RecordColumns):
        return records
    builder = ColumnsBuilder()
    for record in records:
        builder.add(record)
    return builder.build()


def records_with_error(records: Iterable[RequestRecord]) -> tuple[RequestRecord, ...]:
    """Those of `records` that hold an error."""
    columns = columns_of(records)
    return tuple(columns[i] for i, error in enumerate(columns.errors) if error is not None)


def seconds(instants_ns: Ints) -> Floats:
    """Nanoseconds as float seconds, NaN where they are MISSING."""
    is_missing = instants_ns == MISSING
    converted = instants_ns / NS_PER_S
    converted[is_missing] = np.nan
    return converted


def _rearranged(columns: RecordColumns, order: Ints) -> RecordColumns:
    source, starts = gather(columns.starts, order)
    return RecordColumns(
        numbers={name: numbers[order] for name, numbers in columns.numbers.items()},
        words={name: [words[i] for i in order] for name, words in columns.words.items()},
        marks={name: marks.take(order) for name, marks in columns.marks.items()},
        events_ns=columns.events_ns[source],
        events_tokens=columns.events_tokens[source],
        starts=starts,
    )


def _column(values: array[int]) -> Ints:
    return np.frombuffer(values, dtype=np.int64) if values else np.empty(0, dtype=np.int64)


def _tokens(tokens: Sequence[int | None]) -> array[int]:
    try:
        return array("q", tokens)  # type: ignore[arg-type]  # None is what the except is for
    except TypeError:
        return array("q", [MISSING if count is None else count for count in tokens])


def _or_none(number: int) -> int | None:
    return None if number == MISSING else number
