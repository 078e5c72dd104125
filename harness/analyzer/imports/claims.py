"""Claims out of a file: the statistics that a tool names, whatever way it names them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.analyzer.imports.fields import UNITS_S, Fields
from harness.analyzer.imports.result import UNITS, Claim

_STATISTICS = {"mean": "mean", "avg": "mean", "average": "mean", "median": "p50", "min": "min",
               "max": "max"}  # fmt: skip
_PERCENTILE = re.compile(r"p0?([1-9]\d?)(?:\.0+)?")


def statistic(word: str) -> str | None:
    """Our name of a tool's statistic: `p99` of `p99`, `p50` of `median`; None of all others.

    Percentiles with decimals are left out: which of two it is is not always clear from the name.
    """
    if word in _STATISTICS:
        return _STATISTICS[word]
    found = _PERCENTILE.fullmatch(word)
    return f"p{found[1]}" if found else None


def by_pattern(
    fields: Fields, pattern: str, quantities: Mapping[str, str], unit: str
) -> Iterator[Claim]:
    """A claim for each key that matches `pattern`, whose groups are `statistic` and `quantity`."""
    seen = set()
    for key in fields.data:
        found = re.fullmatch(pattern, key)
        name = statistic(found["statistic"]) if found else None
        if found is None or name is None or found["quantity"] not in quantities:
            continue
        quantity = quantities[found["quantity"]]
        if (quantity, name) not in seen:
            seen.add((quantity, name))
            yield from timed(fields, key, quantity, name, unit)


def distribution(fields: Fields, quantity: str, unit: str) -> Iterator[Claim]:
    """A claim for each statistic in the object `fields`, whose values are in `unit`."""
    seen = set()
    for key in fields.data:
        name = statistic(key)
        if name is not None and name not in seen:
            seen.add(name)
            yield from timed(fields, key, quantity, name, unit)


def timed(fields: Fields, key: str, quantity: str, name: str, unit: str) -> Iterator[Claim]:
    """The claim of one key whose value is in `unit`, unless it has none."""
    is_time = unit in UNITS_S
    value = fields.seconds(key, unit) if is_time else fields.number(key)
    if value is not None:
        yield Claim(quantity, name, value, fields.where(key), unit)


def totals(fields: Fields, quantities: Mapping[str, str], scale: float = 1.0) -> Iterator[Claim]:
    """The claims of keys that are rates or totals, `scale` of theirs being one of ours."""
    for key, quantity in quantities.items():
        value = fields.number(key)
        if value is not None:
            yield Claim(quantity, "", value * scale, fields.where(key), UNITS[quantity])
