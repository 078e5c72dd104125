"""Time that passes only when somebody sleeps, and time that passes by itself."""

import asyncio

from harness.core.clock import MonotonicClock, VirtualClock


def test_a_virtual_clock_jumps_to_the_instant_slept_until() -> None:
    clock = VirtualClock(start_ns=5)

    asyncio.run(clock.sleep_until_ns(10**15))

    assert clock.now_ns() == 10**15


def test_no_clock_goes_back() -> None:
    clock = VirtualClock(start_ns=5)

    asyncio.run(clock.sleep_until_ns(1))

    assert clock.now_ns() == 5


def test_a_monotonic_clock_never_returns_before_the_instant() -> None:
    clock = MonotonicClock()
    instant_ns = clock.now_ns() + 1_000_000

    asyncio.run(clock.sleep_until_ns(instant_ns))

    assert clock.now_ns() >= instant_ns
