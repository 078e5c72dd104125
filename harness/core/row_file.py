"""Rows of bytes in a file, found by position: what is too much to hold in memory.

Rows are read one by one and the file is not mapped, so what was read does not count as memory of
the process that read it.
"""

from __future__ import annotations

import os
import weakref
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, overload

_INT64 = "q"


class RowFile(Sequence[bytes]):
    """The rows of the file at `path`: row i is `lengths[i]` bytes from byte `starts[i]` on.

    `starts` and `lengths` are arrays of int64. The file is opened when the first row is read. Given
    to another process, only path and arrays go along.
    """

    def __init__(self, path: Path, starts: array[int], lengths: array[int]) -> None:
        self.path = path
        self.starts = starts
        self.lengths = lengths
        self._fd: int | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> RowFile: ...

    def __getitem__(self, at: int | slice) -> bytes | RowFile:
        if isinstance(at, slice):
            return RowFile(self.path, self.starts[at], self.lengths[at])
        start, length = self.starts[at], self.lengths[at]
        return os.pread(self._open() if self._fd is None else self._fd, length, start)

    def __reduce__(self) -> tuple[Callable[..., RowFile], tuple[Path, array[int], array[int]]]:
        return RowFile, (self.path, self.starts, self.lengths)

    def _open(self) -> int:
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._fd)
        return self._fd


class RowWriter:
    """Writes a new file of rows, one after another; `rows` is complete when it is closed.

    Raises OSError where the file cannot be made, or written.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        self.rows = RowFile(path, array(_INT64), array(_INT64))
        self._end = 0

    def append(self, row: bytes) -> None:
        """Write `row` after all others."""
        self._file.write(row)
        self.rows.starts.append(self._end)
        self.rows.lengths.append(len(row))
        self._end += len(row)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def line_rows(path: Path, first_byte: int) -> RowFile:
    """The lines of the file at `path` from `first_byte` on, each with its newline. Raises OSError.

    The last one may lack its newline.
    """
    rows = RowFile(path, array(_INT64), array(_INT64))
    with path.open("rb") as file:
        file.seek(first_byte)
        for line in file:
            rows.starts.append(first_byte)
            rows.lengths.append(len(line))
            first_byte += len(line)
    return rows
