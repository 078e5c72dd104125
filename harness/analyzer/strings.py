"""Many short strings as one array of characters: a string object would take 50 bytes more each."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
T = TypeVar("T", bound=np.generic)

_AT_ONCE = 20_000


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
        starts = np.concatenate(([0], np.cumsum(self.lengths[order])))
        return Strings(taken(self.characters, self.starts, order), starts)

    def part(self, at: int, end: int) -> Strings:
        """The strings from the place `at` to that before `end`."""
        characters = self.characters[self.starts[at] : self.starts[end]]
        return Strings(characters, self.starts[at : end + 1] - self.starts[at])


def taken(items: npt.NDArray[T], starts: Ints, order: Ints) -> npt.NDArray[T]:
    """The pieces of `items` in another order; piece i is `starts[i]` to `starts[i + 1]`.

    Some pieces at a time, so that there is room for the pieces of a run that hardly fits.
    """
    new = np.empty(int((starts[order + 1] - starts[order]).sum()), dtype=items.dtype)
    filled = 0
    for at in range(0, len(order), _AT_ONCE):
        some = order[at : at + _AT_ONCE]
        lengths = starts[some + 1] - starts[some]
        moved = np.cumsum(lengths) - lengths
        # Each item comes from its new place, moved by as much as its piece moves.
        source = np.repeat(starts[some] - moved, lengths)
        source += np.arange(len(source))
        new[filled : filled + len(source)] = items[source]
        filled += len(source)
    return new


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
