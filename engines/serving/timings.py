"""How long requests took as the server saw them: histograms for its metrics page."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

# 1, 2 and 5 times each power of ten, from 1 ms to 500 s.
BOUNDS_S = tuple(float(f"{step}e{power}") for power in range(-3, 3) for step in (1, 2, 5))


class Histogram:
    """Durations in seconds, counted by the first of BOUNDS_S that they do not exceed."""

    def __init__(self, name: str, what: str) -> None:
        self._name = name
        self._what = what
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def observe(self, duration_s: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(BOUNDS_S, duration_s)] += 1
        self._sum_s += duration_s

    def lines(self) -> list[str]:
        """The histogram in Prometheus' text format, its buckets cumulative."""
        bounds = (*(f"{bound:g}" for bound in BOUNDS_S), "+Inf")
        counts = list(accumulate(self._counts))
        return [
            f"# HELP {self._name} {self._what}",
            f"# TYPE {self._name} histogram",
            *(f'{self._name}_bucket{{le="{b}"}} {c}' for b, c in zip(bounds, counts, strict=True)),
            f"{self._name}_sum {self._sum_s}",
            f"{self._name}_count {counts[-1]}",
        ]
