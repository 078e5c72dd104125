"""What an engine must do at a load to bear it: each objective is a share of its requests.

`ttft_p99=2s` says that 99 of 100 requests must have their first token within 2 s, and `ttft=500ms`
beside `tpot=50ms` that so many must keep to both. A mean or a maximum is no share, and cannot be
bounded by a run that has an end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.errors import UsageError
from harness.core.slo import SLO_COLUMNS, Slo, parse_slos

SHARE = 0.99
_Z_SQUARED = 3.8415  # of the normal distribution, two-sided at 95 %
_FAILURES = "failure_rate"
_PERCENTILE = re.compile(r"(.+?)(?:_s)?_p(\d{1,2})")
_RATE = re.compile(r"(\d+\.?\d*|\.\d+)\s*(%?)")


@dataclass(frozen=True, slots=True)
class Objective:
    """So large a `share` of the due requests must end well and keep to `slos`.

    `title` says so, as in `ttft_p99=2s`.
    """

    title: str
    slos: tuple[Slo, ...]
    share: float

    @property
    def requests_needed(self) -> int:
        """The fewest requests that can show it: where all of them keep to it, Wilson's does."""
        return math.ceil(_Z_SQUARED * self.share / (1 - self.share))


def parse_objectives(words: Sequence[str], share: float | None) -> tuple[Objective, ...]:
    """What `--slo` and `--share` ask for: one objective a percentile, and one for single requests.

    Raises UsageError naming the flag and the word that is wrong.
    """
    if not words:
        msg = "no --slo is given, so every load would do; give one, such as --slo ttft_p99=2s"
        raise UsageError(msg)
    if share is not None and not 0 < share < 1:
        msg = f"--share is {share:g}; it must lie between 0 and 1 (0.99 is 99 % of the requests)"
        raise UsageError(msg)
    of_runs = [one for one in map(_of_run, words) if one is not None]
    names = [one.title.partition("=")[0] for one in of_runs]
    if twice := [name for name in names if names.count(name) > 1]:
        msg = f"--slo bounds {twice[0]} twice; leave one out"
        raise UsageError(msg)
    slos = parse_slos([word for word in words if _of_run(word) is None])
    if slos:
        needed = SHARE if share is None else share
        title = f"{100 * needed:g} % of requests within {' and '.join(map(str, slos))}"
        return (*of_runs, Objective(title, slos, needed))
    if share is not None:
        msg = f"--share is {share:g}, but no --slo bounds a single request, as --slo ttft=2s does"
        raise UsageError(msg)
    return tuple(of_runs)


def _of_run(word: str) -> Objective | None:
    """The objective of a word that bounds a run; None for one that bounds a request."""
    name, _, value = (part.strip() for part in word.partition("="))
    if name == _FAILURES:
        most = _share_of(word, value)
        return Objective(f"{_FAILURES}={100 * most:g}%", (), 1 - most)
    match = _PERCENTILE.fullmatch(name)
    if match is None:
        _require_known(word, name)
        return None
    latency, percent = match[1], int(match[2])
    _require_known(word, latency)
    if percent == 0:
        msg = f"--slo is {word!r}; a percentile is from p1 to p99"
        raise UsageError(msg)
    slos = parse_slos([f"{latency}={value}"])
    limit = str(slos[0]).partition("=")[2]
    return Objective(f"{latency}_p{percent}={limit}", slos, percent / 100)


def _require_known(word: str, latency: str) -> None:
    if latency not in SLO_COLUMNS:
        known = ", ".join(SLO_COLUMNS)
        msg = f"--slo is {word!r}; what can be bounded is {_FAILURES}, and {known}, each for single"
        raise UsageError(f"{msg} requests, or as a percentile such as ttft_p99=2s")


def _share_of(word: str, value: str) -> float:
    match = _RATE.fullmatch(value)
    most = float(match[1]) * (0.01 if match[2] else 1.0) if match else 0.0
    if not 0 < most < 1:
        msg = f"--slo is {word!r}; a failure rate lies between 0 and 1, as 0.01 or 1%"
        raise UsageError(msg)
    return most
