"""When to send. Open loop: by due time, whatever became of the others. Closed loop: by slots.

Instants are absolute, so one late send does not move the rest; nothing is ever re-anchored to now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.core.clock import Clock
from harness.core.units import NS_PER_US
from harness.loadgen.alarm import Alarm


@dataclass(frozen=True, slots=True)
class Due:
    """A request by its index, and the instant that it is due, in ns from the start of the run."""

    index: int
    due_ns: int


# A sleeping process takes some tens of microseconds to wake, so the alarm rings this much early and
# the rest is spent looking at the clock; but never more than a SPIN_SHARE-th of the time.
EARLY_NS = 100 * NS_PER_US
SPIN_SHARE = 10
# Going back to the event loop and being rung for takes about so long: what is due within it after a
# send is waited for at once.
RETURN_NS = 250 * NS_PER_US
# What takes long and can wait is not begun this shortly before a request is due.
NEAR_NS = 400 * NS_PER_US
MOST_READY = 16


def _mean_gap_ns(dues: deque[Due]) -> float:
    return (dues[-1].due_ns - dues[0].due_ns) / len(dues) if dues else 0.0


class Pacer(Protocol):
    """Decides when requests go out; told when one has ended."""

    @property
    def is_done(self) -> bool:
        """True when everything was sent."""
        ...

    def start(self, start_ns: int) -> None:
        """Begin; due instants count from `start_ns`."""
        ...

    def note_end(self) -> None:
        """One request has ended."""
        ...

    def stop(self) -> None:
        """Send nothing more."""
        ...

    @property
    def alarm_fd(self) -> int | None:
        """What becomes readable when the next is due; None where nothing does."""
        ...

    @property
    def is_near(self) -> bool:
        """True when the next is due so soon that what can wait should."""
        ...


class OpenLoop:
    """Sends each request when it is due. `dues` are in order.

    `make_ready(index)` is called a moment before `send(index)`, to have the least left to do then.
    """

    def __init__(
        self,
        dues: Iterable[Due],
        clock: Clock,
        send: Callable[[int], None],
        make_ready: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._left = deque(dues)
        self._ready: deque[Due] = deque()
        self._clock = clock
        self._send = send
        self._make_ready = make_ready
        self._start_ns = 0
        self._early_ns = EARLY_NS if _mean_gap_ns(self._left) >= SPIN_SHARE * EARLY_NS else 0
        self._alarm: Alarm | None = None

    @property
    def is_done(self) -> bool:
        """True when everything was sent."""
        return not self._left and not self._ready

    def start(self, start_ns: int) -> None:
        """Set the alarm for the first request."""
        self._start_ns = start_ns
        self._alarm = Alarm(self._clock, self._send_due)
        self._set_alarm()

    def note_end(self) -> None:
        """Nothing depends on answers here."""

    def stop(self) -> None:
        """Send nothing more."""
        self._left.clear()
        if self._alarm is not None:
            self._alarm.close()

    @property
    def alarm_fd(self) -> int | None:
        """What becomes readable when the next is due; None where nothing does."""
        return None if self._alarm is None else self._alarm.fd

    @property
    def is_near(self) -> bool:
        """True when the next is due so soon that what can wait should."""
        if not self._early_ns or not self._left:
            return False
        due_ns = self._start_ns + self._left[0].due_ns
        return due_ns - self._clock.now_ns() < NEAR_NS

    def _send_due(self) -> None:
        """Send what is due; for what is due in a moment, wait by looking at the clock.

        All that is due in a moment is made ready first, so that one send delays the next by no more
        than the system takes for it.
        """
        now_ns, within_ns = self._clock.now_ns, self._early_ns
        while self._make_near_ones_ready(within_ns):
            while self._ready:
                due_ns = self._start_ns + self._ready[0].due_ns
                while now_ns() < due_ns:
                    pass
                self._send(self._ready.popleft().index)
            within_ns = RETURN_NS if self._early_ns else 0
        self._set_alarm()

    def _make_near_ones_ready(self, within_ns: int) -> bool:
        """Those that are due within that time; False when none is."""
        until_ns = self._clock.now_ns() - self._start_ns + within_ns
        while self._left and self._left[0].due_ns <= until_ns and len(self._ready) < MOST_READY:
            self._ready.append(self._left.popleft())
            self._make_ready(self._ready[-1].index)
        return bool(self._ready)

    def _set_alarm(self) -> None:
        if self._left and self._alarm is not None:
            self._alarm.set(self._start_ns + self._left[0].due_ns - self._early_ns)


class ClosedLoop:
    """Keeps at most `slots` requests in flight; the next goes out when one has ended."""

    def __init__(
        self, indices: Sequence[int], slots: int, clock: Clock, send: Callable[[int], None]
    ) -> None:
        self._left = deque(indices)
        self._slots = slots
        self._clock = clock
        self._send = send
        self._alarm: Alarm | None = None

    @property
    def is_done(self) -> bool:
        """True when everything was sent."""
        return not self._left

    def start(self, start_ns: int) -> None:
        """Fill the slots at `start_ns`."""
        self._alarm = Alarm(self._clock, self._fill)
        self._alarm.set(start_ns)

    def note_end(self) -> None:
        """Fill the slot that was freed."""
        if self._left:
            self._send(self._left.popleft())

    def stop(self) -> None:
        """Send nothing more."""
        self._left.clear()
        if self._alarm is not None:
            self._alarm.close()

    @property
    def alarm_fd(self) -> int | None:
        """None: after the start it is the ends of requests that make the next due."""
        return None

    @property
    def is_near(self) -> bool:
        """False: no request waits for an instant."""
        return False

    def _fill(self) -> None:
        for _ in range(min(self._slots, len(self._left))):
            self._send(self._left.popleft())
