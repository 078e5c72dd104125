"""An alarm that rings on the event loop at an absolute instant, to some tens of microseconds.

The loop's own timers count in milliseconds. On Linux a timerfd on CLOCK_MONOTONIC does not;
elsewhere the loop's timer is used.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable

from harness.core.clock import Clock
from harness.core.units import NS_PER_S, ns_to_s

_CLOCK_MONOTONIC = 1
_ABSOLUTE = 1
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("value", _TimeSpec))


class Alarm:
    """Calls `on_ring` when the instant that was set last has come.

    `fd` becomes readable then; None where the event loop's own timer is used.
    """

    def __init__(self, clock: Clock, on_ring: Callable[[], None]) -> None:
        self._clock = clock
        self._on_ring = on_ring
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.fd = _open_timer()
        if self.fd is not None:
            self._loop.add_reader(self.fd, self._ring)

    def set(self, instant_ns: int) -> None:
        """Ring at `instant_ns` of the clock instead of at any instant set before; soon if past."""
        if self.fd is None:
            if self._timer is not None:
                self._timer.cancel()
            delay_s = ns_to_s(max(0, instant_ns - self._clock.now_ns()))
            self._timer = self._loop.call_later(delay_s, self._on_ring)
            return
        seconds, nanoseconds = divmod(max(instant_ns, 1), NS_PER_S)
        spec = _TimerSpec(_TimeSpec(0, 0), _TimeSpec(seconds, nanoseconds))
        _libc().timerfd_settime(self.fd, _ABSOLUTE, ctypes.byref(spec), None)

    def close(self) -> None:
        """Never ring again."""
        if self._timer is not None:
            self._timer.cancel()
        if self.fd is not None:
            self._loop.remove_reader(self.fd)
            os.close(self.fd)
            self.fd = None

    def _ring(self) -> None:
        if self.fd is not None:
            os.read(self.fd, 8)
            self._on_ring()


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _open_timer() -> int | None:
    """A timerfd on the clock that MonotonicClock reads, or None where there is no such thing."""
    if not sys.platform.startswith("linux"):
        return None
    fd = int(_libc().timerfd_create(_CLOCK_MONOTONIC, _FLAGS))
    return fd if fd >= 0 else None
