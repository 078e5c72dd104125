"""When to send. Open loop: by due time, whatever became of the others. Closed loop: by slots.

Instants are absolute, so one late send does not move the rest; nothing is ever re-anchored to now.
In both, a later turn of a session is due only when the request that it waits for has ended.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.core.clock import Clock
from harness.core.turns import LaterTurns
from harness.core.units import NS_PER_US
from harness.core.workload import After
from harness.loadgen.alarm import Alarm


@dataclass(frozen=True, slots=True)
class Due:
    """A request by its index, and the instant that it is due, in ns from the start of the run.

    With `after` it is due then at the earliest, and not before `after` allows it.
    """

    index: int
    due_ns: int
    after: After | None = None


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


class _Firsts:
    """Those of `dues` that wait for no other, in order; `next` is the next, None after the last."""

    def __init__(self, dues: Sequence[Due]) -> None:
        self._rest = (due for due in dues if due.after is None)
        self.next = next(self._rest, None)

    def pop(self) -> Due | None:
        """Take the next."""
        taken, self.next = self.next, next(self._rest, None)
        return taken

    def clear(self) -> None:
        """Forget those that are left."""
        self._rest.close()
        self.next = None


def _later_turns(dues: Sequence[Due]) -> LaterTurns:
    """Those of `dues` that wait for another."""
    later = LaterTurns()
    for due in dues:
        if due.after is not None:
            later.hold(due.index, due.due_ns, due.after)
    return later


def _mean_gap_ns(dues: Sequence[Due]) -> float:
    """The time over which sessions begin, for each request of theirs."""
    own_ns = array("q", (due.due_ns for due in dues if due.after is None))
    return (own_ns[-1] - own_ns[0]) / len(dues) if own_ns else 0.0


class Pacer(Protocol):
    """Decides when requests go out; told when one has ended."""

    @property
    def is_done(self) -> bool:
        """True when everything was sent."""
        ...

    def start(self, start_ns: int) -> None:
        """Begin; due instants count from `start_ns`."""
        ...

    def note_end(self, index: int, ended_ns: int) -> None:
        """Request `index` ended, well or not, at `ended_ns` of the clock."""
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
    """Sends each request when it is due. Those of `dues` that wait for no other are in order.

    `make_ready(index)` is called a moment before `send(index)`, to have the least left to do then.
    """

    def __init__(
        self,
        dues: Sequence[Due],
        clock: Clock,
        send: Callable[[int], None],
        make_ready: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._firsts = _Firsts(dues)
        self._later = _later_turns(dues)
        self._ready: deque[Due] = deque()
        self._clock = clock
        self._send = send
        self._make_ready = make_ready
        self._start_ns = 0
        self._early_ns = EARLY_NS if _mean_gap_ns(dues) >= SPIN_SHARE * EARLY_NS else 0
        self._alarm: Alarm | None = None

    @property
    def is_done(self) -> bool:
        """True when everything was sent."""
        return self._firsts.next is None and not self._later and not self._ready

    def start(self, start_ns: int) -> None:
        """Set the alarm for the first request."""
        self._start_ns = start_ns
        self._alarm = Alarm(self._clock, self._send_due)
        self._set_alarm()

    def note_end(self, index: int, ended_ns: int) -> None:
        """What waited for request `index` is due at a known instant now."""
        if self._later.release(index, ended_ns - self._start_ns):
            self._set_alarm()

    def stop(self) -> None:
        """Send nothing more."""
        self._firsts.clear()
        self._later.clear()
        if self._alarm is not None:
            self._alarm.close()

    @property
    def alarm_fd(self) -> int | None:
        """What becomes readable when the next is due; None where nothing does."""
        return None if self._alarm is None else self._alarm.fd

    @property
    def is_near(self) -> bool:
        """True when the next is due so soon that what can wait should."""
        if not self._early_ns or (next_ns := self._next_ns()) is None:
            return False
        return self._start_ns + next_ns - self._clock.now_ns() < NEAR_NS

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
        while len(self._ready) < MOST_READY and (due := self._take(until_ns)) is not None:
            self._ready.append(due)
            self._make_ready(due.index)
        return bool(self._ready)

    def _take(self, until_ns: int) -> Due | None:
        """The next that is due, if that is by `until_ns`."""
        next_ns = self._next_ns()
        if next_ns is None or next_ns > until_ns:
            return None
        if self._later.next_ns == next_ns:
            return Due(*self._later.pop())
        return self._firsts.pop()

    def _next_ns(self) -> int | None:
        """When the next is due; None when nothing is left, or all that is left waits."""
        own, later_ns = self._firsts.next, self._later.next_ns
        if own is None or (later_ns is not None and later_ns < own.due_ns):
            return later_ns
        return own.due_ns

    def _set_alarm(self) -> None:
        next_ns = self._next_ns()
        if next_ns is not None and self._alarm is not None:
            self._alarm.set(self._start_ns + next_ns - self._early_ns)


class ClosedLoop:
    """Keeps at most `slots` requests in flight; the next goes out when one has ended.

    A free slot goes to the later turn that has been due longest, if there is one, and else to the
    next of those that wait for no other, in the order of `dues`. With neither it stays empty until
    a later turn is due: while people think, or tools work, their session holds no slot.
    """

    def __init__(
        self, dues: Sequence[Due], slots: int, clock: Clock, send: Callable[[int], None]
    ) -> None:
        self._firsts = _Firsts(dues)
        self._later = _later_turns(dues)
        self._free = slots
        self._clock = clock
        self._send = send
        self._start_ns = 0
        self._alarm: Alarm | None = None

    @property
    def is_done(self) -> bool:
        """True when everything was sent."""
        return self._firsts.next is None and not self._later

    def start(self, start_ns: int) -> None:
        """Fill the slots at `start_ns`."""
        self._start_ns = start_ns
        self._alarm = Alarm(self._clock, self._fill)
        self._alarm.set(start_ns)

    def note_end(self, index: int, ended_ns: int) -> None:
        """Fill the slot that was freed."""
        self._free += 1
        self._later.release(index, ended_ns - self._start_ns)
        self._fill()

    def stop(self) -> None:
        """Send nothing more."""
        self._firsts.clear()
        self._later.clear()
        if self._alarm is not None:
            self._alarm.close()

    @property
    def alarm_fd(self) -> int | None:
        """What becomes readable when a later turn is due; None where there is none."""
        return self._alarm.fd if self._alarm is not None and self._later else None

    @property
    def is_near(self) -> bool:
        """False: no request waits for an instant of its own."""
        return False

    def _fill(self) -> None:
        while self._free and (due := self._take()) is not None:
            self._free -= 1
            self._send(due.index)
        next_ns = self._later.next_ns
        if self._free and next_ns is not None and self._alarm is not None:
            self._alarm.set(self._start_ns + next_ns)

    def _take(self) -> Due | None:
        """The next for a free slot; None when nothing may be sent now."""
        next_ns = self._later.next_ns
        if next_ns is not None and self._start_ns + next_ns <= self._clock.now_ns():
            return Due(*self._later.pop())
        return self._firsts.pop()
