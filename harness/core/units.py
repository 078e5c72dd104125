"""Conversions between the units that are stored (ns) and those that are analysed (s)."""

from __future__ import annotations

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


def ms_to_ns(milliseconds: float) -> int:
    """Milliseconds to integer nanoseconds, rounded to the nearest."""
    return round(milliseconds * NS_PER_MS)


def s_to_ns(seconds: float) -> int:
    """Seconds to integer nanoseconds, rounded to the nearest."""
    return round(seconds * NS_PER_S)


def ns_to_s(nanoseconds: float) -> float:
    """Nanoseconds to float seconds."""
    return nanoseconds / NS_PER_S


def ns_to_ms(nanoseconds: float) -> float:
    """Nanoseconds to float milliseconds."""
    return nanoseconds / NS_PER_MS
