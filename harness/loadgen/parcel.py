"""Everything that one measurement sends, where no process need hold it: in files, and in arrays.

Bytes for the wire are written before the clock starts. A worker reads those of a request a moment
before it is due, from the system's cache, in a few microseconds; the recorder reads what was asked
when it has an answer. In memory a request takes a few whole numbers.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, overload

import msgspec

from harness.core.errors import UsageError
from harness.core.row_file import RowFile, RowWriter
from harness.core.workload import After, Arrival, Request
from harness.loadgen.pacing import Due
from harness.loadgen.recorder import Asked

_INT64 = "q"
_ALONE = -1

T = TypeVar("T")


class Dues(Sequence[Due]):
    """Dues as arrays of whole numbers; each is made when it is asked for. A slice is a copy."""

    def __init__(self, dues: Iterable[Due] = ()) -> None:
        self.indices = array(_INT64)
        self._due_ns = array(_INT64)
        self._waits_for = array(_INT64)
        self._delays_ns = array(_INT64)
        for due in dues:
            self.append(due)

    def append(self, due: Due) -> None:
        """Add `due` after all others."""
        self.indices.append(due.index)
        self._due_ns.append(due.due_ns)
        self._waits_for.append(_ALONE if due.after is None else due.after.index)
        self._delays_ns.append(0 if due.after is None else due.after.delay_ns)

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, at: int) -> Due: ...

    @overload
    def __getitem__(self, at: slice) -> Dues: ...

    def __getitem__(self, at: int | slice) -> Due | Dues:
        if isinstance(at, slice):
            return Dues(self[i] for i in range(*at.indices(len(self))))
        waits_for = self._waits_for[at]
        after = None if waits_for == _ALONE else After(waits_for, self._delays_ns[at])
        return Due(self.indices[at], self._due_ns[at], after)


class ByIndex(Mapping[int, T]):
    """What is made of the rows of a file, by the index of their request; indices are in order.

    `made` turns a row into what it stands for, and must be picklable.
    """

    def __init__(self, indices: array[int], rows: RowFile, made: Callable[[bytes], T]) -> None:
        self._indices = indices
        self._rows = rows
        self._made = made

    def __getitem__(self, index: int) -> T:
        at = bisect_left(self._indices, index)
        if at == len(self._indices) or self._indices[at] != index:
            raise KeyError(index)
        return self._made(self._rows[at])

    def __len__(self) -> int:
        return len(self._indices)

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)


@dataclass(frozen=True, slots=True)
class Parcel:
    """What is sent and when: the bytes for the wire, and what the record keeps, by index."""

    dues: Dues
    payloads: Mapping[int, bytes]
    asked: Mapping[int, Asked]


@contextmanager
def packed(
    arrivals: Iterable[Arrival], folder: Path, payload_of: Callable[[Request], bytes]
) -> Iterator[Parcel]:
    """`arrivals`, in order of their indices, in files in `folder` that are gone on leaving.

    Raises UsageError when they cannot be written.
    """
    payloads, asked = (folder / f"{what}-{os.getpid()}.rows" for what in ("payloads", "asked"))
    try:
        yield _written(arrivals, payload_of, payloads, asked)
    finally:
        payloads.unlink(missing_ok=True)
        asked.unlink(missing_ok=True)


def _written(
    arrivals: Iterable[Arrival], payload_of: Callable[[Request], bytes], first: Path, second: Path
) -> Parcel:
    dues, encoder = Dues(), msgspec.msgpack.Encoder()
    try:
        with RowWriter(first) as payloads, RowWriter(second) as asked:
            for arrival in arrivals:
                dues.append(Due(arrival.request.index, arrival.due_ns, arrival.after))
                payloads.append(payload_of(arrival.request))
                asked.append(encoder.encode(_asked(arrival)))
    except OSError as error:
        msg = f"cannot write what is to be sent to {first}: {error.strerror}; make room there"
        raise UsageError(msg) from error
    return Parcel(
        dues=dues,
        payloads=ByIndex(dues.indices, payloads.rows, bytes),
        asked=ByIndex(dues.indices, asked.rows, _asked_of_row),
    )


def _asked(arrival: Arrival) -> Asked:
    request = arrival.request
    return Asked(
        index=request.index,
        label=request.label,
        due_ns=arrival.due_ns,
        prompt_tokens=len(request.prompt_token_ids),
        max_tokens=request.max_tokens,
        session=request.session,
        turn=request.turn,
        after=arrival.after,
    )


def _asked_of_row(row: bytes) -> Asked:
    return msgspec.msgpack.decode(row, type=Asked)
