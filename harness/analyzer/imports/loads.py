"""The load of another tool's run, in the words of ours."""

from __future__ import annotations

import math
from collections.abc import Mapping

from harness.analyzer.imports.fields import Fields
from harness.core.workload import Load, LoadKind


def arrivals(
    fields: Fields, rate_key: str, cap: int | None, burstiness: float | None = None
) -> Load:
    """The load of a tool that sends at a rate (infinite: all at once), at most `cap` in flight.

    `burstiness` is the shape of the gamma distribution of the gaps; 1 is a Poisson process.
    """
    told = fields.data.get(rate_key)
    # These tools write an infinite rate as text, or as a bare Infinity that is no JSON.
    is_infinite = told in ("inf", None) or told == math.inf
    if told == "trace":
        return Load(LoadKind.REPLAY, speed=1.0, replayed="trace")
    rate = None if is_infinite else fields.number(rate_key)
    if rate is None:
        return Load(LoadKind.BACKLOG) if cap is None else Load(LoadKind.CLOSED, concurrency=cap)
    if rate <= 0:
        fields.refuse(rate_key, "a rate above 0")
    if burstiness is None or burstiness == 1 or burstiness <= 0:
        return Load(LoadKind.POISSON, rate_rps=rate)
    return Load(LoadKind.GAMMA, rate_rps=rate, cv=1 / math.sqrt(burstiness))


def closed(concurrency: int | None) -> Load | None:
    """A closed loop, None when it is not said of how many."""
    return None if concurrency is None else Load(LoadKind.CLOSED, concurrency=concurrency)


def settings(fields: Fields, *keys: str) -> Mapping[str, str]:
    """Those of `keys` that the file has, as text."""
    values = ((key, fields.data.get(key)) for key in keys)
    return {
        key: str(value).encode(errors="replace").decode()
        for key, value in values
        if isinstance(value, str | int | float)
    }
