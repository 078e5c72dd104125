"""ServeGen's two files of one client: requests per window, and how long they were.

::

    NAME-trace.csv     235800,10.98,18.0,Weibull,0.23,0.0046     no header: start of the window in
                       s, requests a second, CV of the gaps, their family (empty where nothing
                       came), shape and scale of a fit
    NAME-dataset.json  {"216000": {"input_tokens": "{81: 0.2, 82: 0.8}", "output_tokens": "{5: 1}"}}

These are rates and distributions, not requests. The requests are drawn, the same ones for a seed:
gaps of the window's family at its rate and CV, and lengths by their shares, prompt and answer apart
from one another, since the files do not tell them together. The shape and scale are not used: of
Weibull gaps they have neither the rate nor the CV that were measured.
"""

from __future__ import annotations

import ast
import random
import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, count, islice, pairwise
from math import inf
from pathlib import Path

from harness.core.errors import TraceError, UsageError
from harness.core.units import NS_PER_S, ns_to_s, s_to_ns
from workloads.importers.format import Format
from workloads.importers.head import Head
from workloads.importers.losses import Losses
from workloads.importers.row import MOST_TOKENS, Row
from workloads.importers.source import TraceFile
from workloads.importers.tables import has_tokens
from workloads.renewal import CV_LEAST, CV_MOST, GapFamily, Gaps, renewal_instants_s
from workloads.shape import Shape
from workloads.streams import stratified, stream_key

_RATES, _LENGTHS = "-trace.csv", "-dataset.json"
_START, _RATE, _CV, _FAMILY = "start_s", "rate_rps", "cv", "family"
_COLUMNS = (_START, _RATE, _CV, _FAMILY, "shape", "scale")
_FIRST_ROW = re.compile(r"[\d.]+,[\d.e+-]+,[\d.e+-]+,(Gamma|Weibull)?,[\d.e+-]+,[\d.e+-]+\s*")
_PROMPT, _OUTPUT = "input_tokens", "output_tokens"

_LONGEST_WINDOW_NS = 86_400 * NS_PER_S
_ONLY_WINDOW_NS = 600 * NS_PER_S  # as long as all that were published
_HIGHEST_RATE = 1e6
_LONGEST_TABLE = 1 << 20
# Of so many requests in a row the lengths have the mean of the dataset, as nearly as can be.
_REQUESTS_AT_ONCE = 1 << 12

Length = Callable[[float], int]
"""A uniform number between 0 and 1 to a length in tokens."""


@dataclass(frozen=True, slots=True)
class _Window:
    """A stretch of time, and the row that says how requests came in it."""

    row: Row
    start_ns: int
    length_ns: int

    @property
    def is_empty(self) -> bool:
        return self.row.quantity(_RATE, _HIGHEST_RATE) == 0


def _detect(head: Head) -> bool:
    first_line = head.text.partition("\n")[0]
    are_periods = bool(head.keys) and all(key.isdecimal() for key in head.keys)
    return bool(_FIRST_ROW.fullmatch(first_line)) or (are_periods and f'"{_PROMPT}"' in head.text)


def _read(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    rates, lengths = _pair(file)
    periods = _Periods(lengths)
    for window in _windows(rates.csv_rows(losses, _COLUMNS)):
        file.row = window.row.number
        if window.is_empty:
            continue
        prompt, output = periods.lengths_at(window.start_ns)
        if prompt is None or output is None:
            losses.drop("a window whose lengths are not in the dataset", window.row.number)
        else:
            yield from _drawn(window, (prompt, output), file.draw_seed, losses)


def _said(file: TraceFile) -> str:
    """What is drawn, from what, and with which seed."""
    rates, lengths = _pair(file)
    windows = list(_windows(rates.csv_rows(Losses(), _COLUMNS)))
    starts_s = [ns_to_s(window.start_ns) for window in windows if not window.is_empty]
    return (
        f"drawn with seed {file.draw_seed}: arrivals at the rates of {len(starts_s):,} of "
        f"{len(windows):,} windows of {rates.path.name}, the first at {starts_s[0]:g} s, lengths "
        f"of {lengths.path.name} (sha256 {lengths.sha256[:16]})"
    )


def _pair(file: TraceFile) -> tuple[TraceFile, TraceFile]:
    """The file of rates and that of lengths, of which `file` is one, by their published names."""
    name = file.path.name
    ending = next((e for e in (_RATES, _LENGTHS) if name.endswith(e)), None)
    if ending is None:
        msg = (
            f"{file.path} is not called as ServeGen's files are, NAME{_RATES} and NAME{_LENGTHS} "
            "beside each other; rename both, or give another --format"
        )
        raise UsageError(msg)
    rates, lengths = (
        file.path.with_name(name.removesuffix(ending) + part) for part in (_RATES, _LENGTHS)
    )
    return _opened(rates, file), _opened(lengths, file)


def _opened(path: Path, named: TraceFile) -> TraceFile:
    if not path.is_file():
        msg = (
            f"{named.path} has no {path.name} beside it, and ServeGen's rates and lengths are one "
            f"trace; put {path.name} into the same folder"
        )
        raise UsageError(msg)
    return TraceFile(path)


def _windows(rows: Iterable[Row]) -> Iterator[_Window]:
    """Each window lasts until the next one; the last one is as long as the one before it."""
    length_ns = _ONLY_WINDOW_NS
    for row, following in pairwise(chain(rows, [None])):
        assert row is not None  # noqa: S101 - only the last of all is
        start_ns = row.instant_ns(_START, "s")
        if following is not None:
            length_ns = following.instant_ns(_START, "s") - start_ns
            if not 0 < length_ns <= _LONGEST_WINDOW_NS:
                following.refuse(_START, "a later start than the row before, by a day at most")
        yield _Window(row, start_ns, length_ns)


def _drawn(
    window: _Window, lengths: tuple[Length, Length], seed: int, losses: Losses
) -> Iterator[Shape]:
    """The requests of a window, which depend on the seed and on its row alone."""
    row = window.row
    rng = random.Random(f"{seed}/servegen/{row.number}")  # noqa: S311 - reproducible, not secret
    rest = renewal_instants_s(_gaps(row, losses), ns_to_s(window.length_ns), rng)
    for block in count():
        instants_s = tuple(islice(rest, _REQUESTS_AT_ONCE))
        if not instants_s:
            return
        shares = (
            stratified(stream_key(seed, f"servegen/{key}/{row.number}/{block}"), len(instants_s))
            for key in (_PROMPT, _OUTPUT)
        )
        for at_s, *of_lengths in zip(instants_s, *shares, strict=True):
            prompt, output = (length(s) for length, s in zip(lengths, of_lengths, strict=True))
            if has_tokens(row, prompt, output, losses):
                yield Shape(prompt, output, due_ns=window.start_ns + s_to_ns(at_s))


def _gaps(row: Row, losses: Losses) -> Gaps:
    rate_rps = row.quantity(_RATE, _HIGHEST_RATE)
    if not row.has(_FAMILY):
        losses.repair("a window without a family of gaps, so Poisson", row.number)
        return Gaps(GapFamily.GAMMA, rate_rps, 1.0)
    family = row.text(_FAMILY)
    if family not in set(GapFamily):
        row.refuse(_FAMILY, " or ".join(GapFamily))
    cv = row.quantity(_CV, inf)
    kept = min(max(cv, CV_LEAST), CV_MOST)
    if kept != cv:
        losses.clamp(f"a window's CV held within {CV_LEAST:g} and {CV_MOST:g}", row.number)
    return Gaps(GapFamily(family), rate_rps, kept)


class _Periods:
    """The lengths of requests by the time of day; each period lasts until the next one."""

    def __init__(self, file: TraceFile) -> None:
        """Raises TraceError for what is no object of periods."""
        document = file.json_document()
        if not isinstance(document, dict):
            msg = (
                f"{file.path} holds no object of windows, as a ServeGen dataset does; it may be cut"
            )
            raise TraceError(f"{msg}: copy it again")
        keyed = (
            (Row(number, {_START: key}, file.path).instant_ns(_START, "s"), number, key)
            for number, key in enumerate(document, 1)
        )
        self._rows = [
            (start_ns, Row(number, document, file.path).child(key))
            for start_ns, number, key in sorted(keyed)
        ]
        self._starts_ns = [start_ns for start_ns, _ in self._rows]
        self._known: dict[int, tuple[Length | None, Length | None]] = {}

    def lengths_at(self, at_ns: int) -> tuple[Length | None, Length | None]:
        """Those of prompts and of answers in the period that holds `at_ns`; None where unknown."""
        place = bisect(self._starts_ns, at_ns) - 1
        if place < 0:
            return None, None
        if place not in self._known:
            row = self._rows[place][1]
            self._known[place] = _length(row, _PROMPT), _length(row, _OUTPUT)
        return self._known[place]


def _length(row: Row, key: str) -> Length | None:
    """The lengths in field `key`, the text of a Python dict, by their shares; None of an empty one.

    Raises TraceError for any other text.
    """
    text = row.text(key)
    if len(text) > _LONGEST_TABLE:
        row.refuse(key, f"{_LONGEST_TABLE >> 20} MiB of text at most")
    try:
        table = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        table = None
    if not isinstance(table, dict) or not all(map(_is_share, table.items())):
        row.refuse(key, "a Python dict of lengths in tokens and their shares, as {81: 0.2}")
    sums = list(accumulate(table.values()))
    if not sums or sums[-1] <= 0:
        return None
    tokens = list(table)
    return lambda share: tokens[bisect(sums, share * sums[-1], hi=len(sums) - 1)]


def _is_share(item: tuple[object, object]) -> bool:
    tokens, share = item
    is_length = type(tokens) is int and 0 <= tokens <= MOST_TOKENS
    return is_length and isinstance(share, int | float) and 0 <= share <= 1


SERVEGEN = Format(
    name="servegen",
    title="ServeGen",
    licence="Apache-2.0, alibaba/ServeGen; cite Xiang et al., NSDI 2026",
    time="s",
    detect=_detect,
    read=_read,
    drawn=_said,
)
