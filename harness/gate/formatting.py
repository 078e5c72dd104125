"""Numbers as words: the one place where display units and digits are chosen.

Where an interval `lo` to `hi` is known, a number ends where the second digit of its half width
does; else it has three significant digits, as runs rarely repeat to better than 1 %. None is
`not measured`.
"""

from __future__ import annotations

import math

NOT_MEASURED = "not measured"
DIGITS = 3
MOST_DIGITS = 6
_LINE_CHARS = 200


def digits_within(value: float, lo: float | None, hi: float | None) -> int:
    """How many significant digits of `value` the interval `lo` to `hi` leaves meaning in.

    DIGITS without an interval, or with one that has no width, or no end.
    """
    half = 0.0 if lo is None or hi is None else (hi - lo) / 2
    if not 0 < half < math.inf or not 0 < abs(value) < math.inf:
        return DIGITS
    first = int(f"{half:.1e}".partition("e")[2])  # where 0.0999 is 0.10
    digits = math.floor(math.log10(abs(value))) - first + 2
    return min(max(digits, 1), MOST_DIGITS)


def significant(value: float, digits: int = DIGITS) -> str:
    """`value` with `digits` significant digits, no exponent, and commas between thousands."""
    if not math.isfinite(value):
        return "inf" if value == math.inf else str(value)
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    if rounded != 0:  # 9.996 rounds to 10.00, one digit too many
        places = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, min(places, 9))}f}"


def seconds(value: float | None, lo: float | None = None, hi: float | None = None) -> str:
    """A duration in the unit that reads best: `412 µs`, `18.3 ms`, `2.40 s`."""
    if value is None:
        return NOT_MEASURED
    if not math.isfinite(value):
        return significant(value)
    if abs(value) < 0.5e-9:  # below the nanosecond that instants are kept in
        return "0 s"
    digits = digits_within(value, lo, hi)
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if abs(value) * factor < 999.5:  # more would round to 1,000
            return f"{significant(value * factor, digits)} {unit}"
    return f"{significant(value, digits)} s"


def ratio(value: float | None, lo: float | None = None, hi: float | None = None) -> str:
    """A ratio of two sides, such as `1.93x`."""
    if value is None:
        return NOT_MEASURED
    if lo is not None and hi is not None:
        return f"{significant(value, digits_within(value, lo, hi))}x"
    return f"{value:.2f}x" if 0.1 <= value < 100 else f"{significant(value)}x"


def ratio_span(lo: float | None, hi: float | None) -> str:
    """The interval of a ratio, such as `1.87x to 2.01x`; empty where there is none."""
    if lo is None or hi is None:
        return ""
    return f"{ratio(lo, lo, hi)} to {ratio(hi, lo, hi)}"


def share(value: float | None, lo: float | None = None, hi: float | None = None) -> str:
    """A part of a whole, such as `52.2 %`."""
    if value is None:
        return NOT_MEASURED
    if not math.isfinite(value):
        return significant(value)
    if lo is not None and hi is not None and value != 0:
        return f"{significant(value * 100, digits_within(value, lo, hi))} %"
    return f"{round(value * 100, 1) + 0.0:.1f} %"  # + 0.0 turns -0.0 into 0.0


def p_value(p: float | None) -> str:
    """Such as `0.012`; what is smaller than a thousandth only as that."""
    if p is None:
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def count(value: float | None) -> str:
    """A whole number with commas between thousands, such as `12,345`."""
    return NOT_MEASURED if value is None else f"{value:,.0f}"


def quantity(
    value: float | None, unit: str, lo: float | None = None, hi: float | None = None
) -> str:
    """`value` in `unit`, which is one of the units of the metric table.

    Seconds change to ms or µs, shares to %; whole-number units keep every digit.
    """
    if value is None:
        return NOT_MEASURED
    if unit == "s":
        return seconds(value, lo, hi)
    if unit in {"share", "1"}:
        return share(value, lo, hi)
    if float(value).is_integer() and "/" not in unit:
        return f"{count(value)} {unit}"
    return f"{significant(value, digits_within(value, lo, hi))} {unit}"


def span(lo: float, hi: float, unit: str) -> str:
    """Two bounds in `unit`, such as `11.9 to 14.2 ms`; each with its own unit where they differ."""
    low, high = quantity(lo, unit, lo, hi), quantity(hi, unit, lo, hi)
    number, _, of_low = low.partition(" ")
    return f"{number if of_low == high.partition(' ')[2] else low} to {high}"


def one_line(text: str, chars: int = _LINE_CHARS) -> str:
    """`text` on one line, control characters shown as spaces, cut after `chars` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= chars else line[: chars - 1] + "…"
