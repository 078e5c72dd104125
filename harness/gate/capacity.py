"""The search for the highest load that an engine bears: doubled until it fails, then bisected.

Pure: `next_probe` is told every probe so far and names the next one, and nothing here measures. A
probe that cannot be answered is repeated, longer each time; one that stays unanswered is no end of
the search: levels below and above it are tried, so that the bracket closes in around it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

_DIGITS = 4  # of a rate between two others; more would only be tiresome to read
_DARK = 3


class Answer(StrEnum):
    """What a probe says of its level; UNRESOLVED: its interval holds the limit, or it is faulty."""

    MET = "met"
    NOT_MET = "not met"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True, slots=True)
class Tried:
    """A probe that has been made: a rate or a concurrency, and its answer."""

    level: float
    answer: Answer


@dataclass(frozen=True, slots=True)
class Search:
    """How to search: from `start`, never above `most` if there is one.

    It ends when the bracket is narrower than `precision` times its lower end, or, with `is_whole`,
    when no whole number lies between. `start` is doubled, or halved, `reach` times at most. Each
    level is tried `tries` times at most, and there are at most `probes` in all.
    """

    start: float
    most: float | None = None
    precision: float = 0.1
    is_whole: bool = False
    tries: int = 3
    probes: int = 30
    reach: int = 10

    @property
    def bottom(self) -> float:
        """The lowest level that is tried."""
        lowest = self.start / 2.0**self.reach
        return max(1.0, math.floor(lowest)) if self.is_whole else lowest

    @property
    def top(self) -> float:
        """The highest level that is tried."""
        highest = self.start * 2.0**self.reach
        return highest if self.most is None else min(self.most, highest)


@dataclass(frozen=True, slots=True)
class Probe:
    """What to try next; `attempt` 0 is the first at its level, and each is longer than the last."""

    level: float
    attempt: int


@dataclass(frozen=True, slots=True)
class Bracket:
    """Where the answer lies: the highest level that was `met`, the lowest that was `not_met`.

    `unresolved` are the levels between them that were tried in vain. `is_narrow` when the two are
    as close as was asked for. None where no level met, or all did.
    """

    met: float | None
    not_met: float | None
    unresolved: tuple[float, ...]
    is_narrow: bool


def next_probe(tried: Sequence[Tried], search: Search) -> Probe | None:
    """What to try after all that was `tried`, in its order; None when the search has ended."""
    if not tried:
        return Probe(search.start, 0)
    if len(tried) >= search.probes:
        return None
    last = tried[-1]
    attempts = sum(one.level == last.level for one in tried)
    if last.answer is Answer.UNRESOLVED and attempts < search.tries:
        return Probe(last.level, attempts)
    level = _next_level(bracket(tried, search), search)
    return None if level is None else Probe(level, 0)


def bracket(tried: Sequence[Tried], search: Search) -> Bracket:
    """What is known after all that was `tried`; the last answer at a level counts."""
    answers = {one.level: one.answer for one in tried}
    met = max((level for level, a in answers.items() if a is Answer.MET), default=None)
    not_met = min((level for level, a in answers.items() if a is Answer.NOT_MET), default=None)
    unresolved = sorted(
        level
        for level, answer in answers.items()
        if answer is Answer.UNRESOLVED
        and (met is None or level > met)
        and (not_met is None or level < not_met)
    )
    is_narrow = met is not None and not_met is not None and _is_close(met, not_met, search)
    return Bracket(met, not_met, tuple(unresolved), is_narrow)


def _next_level(known: Bracket, search: Search) -> float | None:
    """Below what is not known to be met, then above what may be; then between the two.

    Where _DARK levels in a row gave no answer, doubling or halving once more will not give one.
    """
    low = known.unresolved[0] if known.unresolved else known.not_met
    high = known.unresolved[-1] if known.unresolved else known.met
    is_dark = len(known.unresolved) >= _DARK
    if known.met is None and low is not None and low > search.bottom and not is_dark:
        return max(_whole(low / 2, search), search.bottom)
    if known.not_met is None and high is not None and high < search.top and not is_dark:
        return min(high * 2, search.top)
    for below, above in ((known.met, low), (high, known.not_met)):
        if below is not None and above is not None and not _is_close(below, above, search):
            return _between(below, above, search)
    return None


def _is_close(low: float, high: float, search: Search) -> bool:
    if search.is_whole:
        return high - low <= max(1.0, search.precision * low)
    return high - low <= search.precision * low


def _between(low: float, high: float, search: Search) -> float:
    """The geometric middle: what matters is how far apart the ends are as a ratio."""
    middle = math.sqrt(low * high)
    if search.is_whole:
        return min(max(float(round(middle)), low + 1), high - 1)
    return round(middle, _DIGITS - 1 - math.floor(math.log10(middle)))


def _whole(level: float, search: Search) -> float:
    return float(math.floor(level)) if search.is_whole else level
