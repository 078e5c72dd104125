"""The requests that have come in and not been admitted to a slot: bounded, counted and timed.

For use on the event loop alone: whether there is room is known at once, without waiting for a step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil

from engines.serving.generation import QueueFull
from engines.serving.timings import Histogram
from harness.core.units import NS_PER_S, ns_to_s

# The pace is that of the last so many admissions: a few static batches, some seconds of others.
_PACE_ADMISSIONS = 64


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Most requests that may wait, and most tokens that their prompts may have; None: no limit."""

    requests: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    prompt_tokens: int
    arrived_ns: int


class RequestQueue:
    """Who waits, by sequence id. One whose prompt alone is over the limit enters an empty queue."""

    def __init__(self, limits: QueueLimits) -> None:
        self.tokens = 0
        self.rejected = 0
        self.waited = Histogram("batchmark_queue_seconds", "From a request to its slot.")
        self._limits = limits
        self._places: dict[int, _Place] = {}
        # When the queue was last empty, or an admission since; and each admission after that.
        self._pace: deque[int] = deque(maxlen=_PACE_ADMISSIONS + 1)

    def __len__(self) -> int:
        return len(self._places)

    def enter(self, sequence_id: int, prompt_tokens: int, now_ns: int) -> None:
        """Take the last place. Raises QueueFull when there is no room."""
        self._require_room(prompt_tokens, now_ns)
        if not self._places:
            self._pace.clear()
            self._pace.append(now_ns)
        self._places[sequence_id] = _Place(prompt_tokens, now_ns)
        self.tokens += prompt_tokens

    def admit(self, sequence_id: int, now_ns: int) -> bool:
        """Leave for a slot; False when it did not wait, as with the second chunk of a prompt."""
        place = self._leave(sequence_id)
        if place is None:
            return False
        self._pace.append(now_ns)
        self.waited.observe(ns_to_s(now_ns - place.arrived_ns))
        return True

    def give_up(self, sequence_id: int) -> None:
        """Leave without a slot, because nobody waits for the answer any more."""
        self._leave(sequence_id)

    def _leave(self, sequence_id: int) -> _Place | None:
        place = self._places.pop(sequence_id, None)
        if place is not None:
            self.tokens -= place.prompt_tokens
        return place

    def _require_room(self, prompt_tokens: int, now_ns: int) -> None:
        most, most_tokens = self._limits.requests, self._limits.tokens
        wanted = self.tokens + prompt_tokens
        if most is not None and len(self) >= most:
            full = f"{len(self)} requests wait already, the most that may is {most}"
        elif most_tokens is not None and self._places and wanted > most_tokens:
            full = (
                f"{self.tokens} prompt tokens wait already; with the {prompt_tokens} of this "
                f"request they are {wanted}, the most that may is {most_tokens}"
            )
        else:
            return
        self.rejected += 1
        wait_s = self._seconds_to_empty(now_ns)
        raise QueueFull(f"{full}; ask again in {wait_s} s", wait_s)

    def _seconds_to_empty(self, now_ns: int) -> int:
        """How long the recent pace takes to admit all that wait: whole seconds, at least 1.

        Whoever comes back then is not alone: to wait for one place only would mean to be sent away
        again.
        """
        admitted = len(self._pace) - 1
        if admitted < 1:
            return 1
        busy_ns = now_ns - self._pace[0]
        return max(1, ceil(len(self) * busy_ns / admitted / NS_PER_S))
