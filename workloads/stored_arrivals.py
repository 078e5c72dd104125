"""Arrivals as lines of JSON in a file, read one by one: what is too much to hold in memory.

::

    {"due_ns": ..., "label": ..., "max_tokens": ..., "prompt_token_ids": [...]}

A turn of a session also has "session" and "turn", and one that waits for another
"after": {"index": ..., "delay_ns": ...}. The index of a request is the number of its line, from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import msgspec

from harness.core.errors import UsageError
from harness.core.row_file import RowFile
from harness.core.workload import After, Arrival, Request


class _Line(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    due_ns: int
    label: str
    max_tokens: int
    prompt_token_ids: tuple[int, ...]
    session: str | None = None
    turn: int = 0
    after: After | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Line)


def line_of(arrival: Arrival) -> bytes:
    """`arrival` as a line, with its newline."""
    request = arrival.request
    line = _Line(
        arrival.due_ns,
        request.label,
        request.max_tokens,
        request.prompt_token_ids,
        request.session,
        request.turn,
        arrival.after,
    )
    return _encoder.encode(line) + b"\n"


class StoredArrivals(Sequence[Arrival]):
    """The arrivals in `rows`, lines of a file; each is made when it is asked for, a slice at once.

    All times in them, also delays between turns, are divided by `speed`. To read one raises
    UsageError when its line is no request.
    """

    def __init__(self, rows: RowFile, speed: float = 1.0) -> None:
        self._rows = rows
        self._speed = speed

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Arrival: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Arrival, ...]: ...

    def __getitem__(self, at: int | slice) -> Arrival | tuple[Arrival, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        index = at if at >= 0 else len(self) + at
        try:
            line = _decoder.decode(self._rows[index])
        except msgspec.MsgspecError as error:
            path = self._rows.path
            msg = f"{path} has a line that is no request ({error}, of request {index}); lock the"
            raise UsageError(f"{msg} workload again") from error
        request = Request(
            index, line.label, line.prompt_token_ids, line.max_tokens, line.session, line.turn
        )
        if self._speed == 1:
            return Arrival(line.due_ns, request, line.after)
        after = line.after
        if after is not None:
            after = After(after.index, round(after.delay_ns / self._speed))
        return Arrival(round(line.due_ns / self._speed), request, after)
