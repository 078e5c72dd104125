"""Many short strings as one array of characters: a string object would take 50 bytes more each."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Strings(Sequence[str | None]):
    """Strings of ASCII: string i is `characters` from `starts[i]` to `starts[i + 1]`.

    No characters are None: an empty string cannot be told from it.
    """

    characters: npt.NDArray[np.uint8]
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, at: int) -> str | None: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str | None]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str | None] | None:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        i = range(len(self))[at]
        return self.characters[self.starts[i] : self.starts[i + 1]].tobytes().decode() or None

    @property
    def lengths(self) -> Ints:
        """How many characters each string has."""
        return np.diff(self.starts)

    def take(self, order: Ints) -> Strings:
        """The strings at the places `order`, in that order."""
        source, starts = gather(self.starts, order)
        return Strings(self.characters[source], starts)


def gather(starts: Ints, order: Ints) -> tuple[Ints, Ints]:
    """How to lay the pieces of an array out in another order: (source, new starts).

    Piece i is `starts[i]` to `starts[i + 1]` of the array; the new one is `array[source]`.
    """
    lengths = np.diff(starts)[order]
    moved = np.concatenate(([0], np.cumsum(lengths)))
    # Each item comes from its new place, moved by as much as its piece moves.
    source = np.repeat(starts[:-1][order] - moved[:-1], lengths)
    source += np.arange(len(source))
    return source, moved


class StringsBuilder:
    """Takes strings one by one."""

    def __init__(self) -> None:
        self._characters = array("B")
        self._starts = array("q", [0])

    def add(self, characters: bytes) -> None:
        """Append a string, as ASCII; no characters stand for None."""
        self._characters.frombytes(characters)
        self._starts.append(len(self._characters))

    def build(self) -> Strings:
        """What was added, in order; the builder is not to be used after."""
        characters = np.frombuffer(self._characters, np.uint8) if self._characters else _NONE
        return Strings(characters, np.frombuffer(self._starts, np.int64))


_NONE = np.empty(0, np.uint8)
