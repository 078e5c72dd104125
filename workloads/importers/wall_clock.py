"""Dates with a time of day, as the public traces write them, to exact nanoseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from harness.core.units import NS_PER_S

# Up to nine digits of a second: Azure's files carry seven, which `fromisoformat` would cut to six.
_INSTANT = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII
)


def wall_clock_ns(text: str) -> int | None:
    """Nanoseconds since 1970 of an instant such as `2023-11-16 18:17:03.9799600`.

    Also with `T`, without a fraction, and with `Z` or an offset such as `+00:00`; without one it is
    taken for UTC. None when `text` is no such instant, or lies before 1970.
    """
    found = _INSTANT.fullmatch(text.strip())
    if found is None:
        return None
    day, time, fraction, zone = found.groups()
    try:
        instant = datetime.fromisoformat(f"{day} {time}{zone or ''}")
        seconds = int((instant if zone else instant.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return None
    return seconds * NS_PER_S + int((fraction or "").ljust(9, "0")) if seconds >= 0 else None
