"""Many request records as columns: one array a field, instead of one object a request.

A hundred million token events of one token each are 800 MB this way. A record is made of the
columns where one is asked for, so whoever wants a few can treat them as the sequence that they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, get_type_hints, overload

import numpy as np
import numpy.typing as npt

from harness.analyzer.strings import Strings, StringsBuilder, taken
from harness.core.record import Outcome, RequestError, RequestRecord
from harness.core.units import NS_PER_S

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Stands for None in a column of numbers. No count and no instant comes near it.
MISSING = int(np.iinfo(np.int64).min)
# What is made of so many events at a time is small beside all of them.
PIECE_EVENTS = 4_000_000

_HINTS = get_type_hints(RequestRecord)
_RAGGED = ("events_ns", "events_tokens")
_NUMBERS = tuple(name for name, hint in _HINTS.items() if hint in (int, int | None))
_MARKS = ("ids_marks", "text_marks")
_WORDS = tuple(name for name in _HINTS if name not in (*_RAGGED, *_NUMBERS, *_MARKS))
_OUTCOMES = {outcome: place for place, outcome in enumerate(Outcome)}
_numbers_of, _words_of, _marks_of = (attrgetter(*names) for names in (_NUMBERS, _WORDS, _MARKS))


@dataclass(frozen=True, eq=False)
class RecordColumns(Sequence[RequestRecord]):
    """Request records in the order of their index, by column.

    `numbers` are the fields of a RequestRecord that are numbers, MISSING where there is none,
    `marks` those that hold marks of the answer, and `words` the others, a list each. The events of
    request i are `starts[i]` to `starts[i + 1]` of `events_ns` and `events_tokens`. Where all
    carried one token, `events_tokens` takes no room.
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
        return np.concatenate([_streamed_tokens(piece) for piece in self.pieces()])

    @property
    def is_arrival(self) -> Bools:
        """Which requests were due at an instant of their own, not at the end of another."""
        waits_for_none: Bools = self.numbers["after"] == MISSING
        return waits_for_none

    @property
    def errors(self) -> Sequence[RequestError | None]:
        """Why each request did not end well."""
        return self.words["error"]

    def came_out(self, outcome: Outcome) -> Bools:
        """Which requests came out as `outcome`."""
        is_so: Bools = self._outcome_places == _OUTCOMES[outcome]
        return is_so

    @cached_property
    def _outcome_places(self) -> npt.NDArray[np.int8]:
        return np.fromiter(map(_OUTCOMES.__getitem__, self.words["outcome"]), np.int8, len(self))

    @cached_property
    def is_first_event(self) -> Bools:
        """Which events are the first of their request."""
        is_first = np.zeros(len(self.events_ns), dtype=bool)
        is_first[self.starts[:-1][self.event_counts > 0]] = True
        is_first.setflags(write=False)  # many ask for it, and none may change it for the others
        return is_first

    def pieces(self, most_events: int = PIECE_EVENTS) -> Iterator[RecordColumns]:
        """The same requests in parts, each of one request or of at most `most_events` events.

        There is one part at least, which may be empty.
        """
        at = 0
        while at < len(self) or at == 0:
            within = int(np.searchsorted(self.starts, self.starts[at] + most_events, "right")) - 1
            end = min(max(within, at + 1), len(self))
            yield self._part(at, end)
            at = max(end, 1)

    def _part(self, at: int, end: int) -> RecordColumns:
        events = slice(int(self.starts[at]), int(self.starts[end]))
        return RecordColumns(
            numbers={name: numbers[at:end] for name, numbers in self.numbers.items()},
            words={name: words[at:end] for name, words in self.words.items()},
            marks={name: marks.part(at, end) for name, marks in self.marks.items()},
            events_ns=self.events_ns[events],
            events_tokens=self.events_tokens[events],
            starts=self.starts[at : end + 1] - self.starts[at],
        )

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
        self._rows = array("q")  # of numbers, one a record
        self._words: dict[str, list[Any]] = {name: [] for name in _WORDS}
        self._marks = {name: StringsBuilder() for name in _MARKS}
        self._events_ns = array("q")
        self._events_tokens: array[int] | None = None  # while all events carry one
        self._starts = array("q", [0])

    def add(self, record: RequestRecord) -> None:
        """Append `record`. Raises ValueError, and appends nothing, as `add_fields` does."""
        tokens = array("q", _or_missing(record.events_tokens))
        self.add_fields(record, array("q", record.events_ns), tokens)

    def add_fields(
        self, fields: Any, events_ns: array[int], events_tokens: array[int] | None
    ) -> None:
        """Append a record whose events stand apart; `fields` has its other fields.

        `events_tokens` is None where each event carried one token. Raises ValueError, and appends
        nothing, when the events are not as many as their tokens, or the marks are no ASCII.
        """
        if events_tokens is not None and len(events_ns) != len(events_tokens):
            msg = f"{len(events_ns)} events, but {len(events_tokens)} token counts"
            raise ValueError(msg)
        marks = [(mark or "").encode("ascii") for mark in _marks_of(fields)]
        self._add_tokens(events_tokens, len(events_ns))
        self._events_ns += events_ns
        self._starts.append(len(self._events_ns))
        self._rows.fromlist(_or_missing(_numbers_of(fields)))
        for words, word in zip(self._words.values(), _words_of(fields), strict=True):
            words.append(word)
        for builder, characters in zip(self._marks.values(), marks, strict=True):
            builder.add(characters)

    def _add_tokens(self, tokens: array[int] | None, events: int) -> None:
        if self._events_tokens is None:
            if tokens is None or tokens.count(1) == events:
                return
            self._events_tokens = array("q", [1]) * len(self._events_ns)
        self._events_tokens += array("q", [1]) * events if tokens is None else tokens

    def build(self) -> RecordColumns:
        """What was added, in the order of the index; the builder is not to be used after.

        Each column is let go when it has been laid out anew, so that two copies of all never stand
        side by side.
        """
        rows, starts = _column(self._rows).reshape(-1, len(_NUMBERS)), _column(self._starts)
        order = np.argsort(rows[:, _NUMBERS.index("index")], kind="stable")
        places = order.tolist()
        events_ns, self._events_ns = _column(self._events_ns), array("q")
        events_ns = taken(events_ns, starts, order)
        tokens, self._events_tokens = self._events_tokens, None
        return RecordColumns(
            numbers={name: rows[order, i] for i, name in enumerate(_NUMBERS)},
            words={name: _picked(self._words.pop(name), places) for name in _WORDS},
            marks={name: self._marks.pop(name).build().take(order) for name in _MARKS},
            events_ns=events_ns,
            events_tokens=_ones(len(events_ns))
            if tokens is None
            else taken(_column(tokens), starts, order),
            starts=np.concatenate(([0], np.cumsum(np.diff(starts)[order]))),
        )


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


def _streamed_tokens(records: RecordColumns) -> Ints:
    is_unknown = records.events_tokens == MISSING
    if not is_unknown.any():
        return records.sum_by_request(records.events_tokens)
    sums = records.sum_by_request(np.where(is_unknown, 0, records.events_tokens))
    return np.where(records.sum_by_request(is_unknown.astype(np.int64)) > 0, MISSING, sums)


def _picked(items: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [items[place] for place in places]


def _column(values: array[int]) -> Ints:
    return np.frombuffer(values, dtype=np.int64) if values else np.empty(0, dtype=np.int64)


def _ones(number: int) -> Ints:
    return np.broadcast_to(np.ones(1, dtype=np.int64), (number,))


def _or_missing(numbers: Sequence[int | None]) -> list[int]:
    return [MISSING if number is None else number for number in numbers]


def _or_none(number: int) -> int | None:
    return None if number == MISSING else number
