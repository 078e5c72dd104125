"""How a field of flags is written on a command line, and which of them a command has.

The dataclasses of flags are the one place where a flag has its name, type, default and help: each
field is annotated with a `Flag`, or a `Word` where it stands without a name. `harness.cli_flags`
makes options of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypeVar

from harness.core.errors import UsageError

T = TypeVar("T", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Flag:
    """An option and its help. `name` None: the field's own, as --batched-tokens is.

    Several names are separated by spaces. A truth value that goes by the field's own name has its
    opposite beside it, as --no-pad-prompts is; one with a name given here can only be switched on.
    """

    help: str
    name: str | None = None
    metavar: str | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """A word that stands without a name: what help calls it, and what it is."""

    metavar: str
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which flags of a dataclass a command has: `only` these, in this order, or all `without` some.

    `engines` are all flags of the dataclass in that field, and `engines.model` is one of them. The
    others keep their defaults.
    """

    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def of(self, paths: Iterable[str]) -> list[str]:
        """Those of `paths` that are in the part. Raises LookupError for a name that none has."""
        paths = list(paths)
        only = [path for name in self.only for path in _within(name, paths)] or paths
        left_out = {path for name in self.without for path in _within(name, paths)}
        return [path for path in only if path not in left_out]


Allowed = Annotated[
    tuple[str, ...],
    Flag(
        "What may differ all the same, such as cores; every output says so in its first line. "
        "May be repeated.",
        "--allow",
        metavar="KEY",
    ),
]


def _within(name: str, paths: Iterable[str]) -> list[str]:
    found = [path for path in paths if path == name or path.startswith(f"{name}.")]
    if not found:
        msg = f"there is no flag {name!r}"
        raise LookupError(msg)
    return found


def choice(flag: str, word: str, choices: type[T]) -> T:
    """The one of `choices` that `word` is. Raises UsageError naming `flag` for any other word."""
    known = [one.value for one in choices]
    if word not in known:
        msg = f"{flag} is {word!r}; choose from {', '.join(known)}"
        raise UsageError(msg)
    return choices(word)


def require_positive(flag: str, value: float) -> None:
    """Raise UsageError naming `flag` unless `value` is a finite number above 0."""
    if not 0 < value < float("inf"):
        msg = f"{flag} is {value:g}; it must be a number above 0"
        raise UsageError(msg)
