"""When requests go out: by due time, or by slots."""

import asyncio
from collections import deque

import pytest

from harness.core.clock import MonotonicClock
from harness.loadgen import alarm
from harness.loadgen.pacing import ClosedLoop, Due, OpenLoop, Pacer

MS = 1_000_000


async def until_done(pacer: Pacer) -> None:
    while not pacer.is_done:
        await asyncio.sleep(0.001)


def test_an_open_loop_sends_at_absolute_due_times_in_order() -> None:
    sent: list[tuple[int, int]] = []

    async def main() -> None:
        clock = MonotonicClock()
        start_ns = clock.now_ns() + 5 * MS
        dues = [Due(i, i * 2 * MS) for i in range(10)]
        pacer = OpenLoop(dues, clock, lambda i: sent.append((i, clock.now_ns() - start_ns)))
        pacer.start(start_ns)
        await until_done(pacer)
        pacer.stop()

    asyncio.run(main())
    assert [index for index, _ in sent] == list(range(10))
    assert all(at_ns >= index * 2 * MS for index, at_ns in sent)


def test_an_open_loop_that_is_late_sends_at_once_and_keeps_the_schedule() -> None:
    sent: list[int] = []

    async def main() -> None:
        clock = MonotonicClock()
        pacer = OpenLoop([Due(i, i) for i in range(500)], clock, sent.append)
        pacer.start(clock.now_ns() - 10**9)
        await until_done(pacer)
        pacer.stop()

    asyncio.run(main())
    assert sent == list(range(500))


def test_an_open_loop_is_not_done_while_a_request_that_was_made_ready_is_unsent() -> None:
    done: list[bool] = []
    ready: list[int] = []

    async def main() -> None:
        clock = MonotonicClock()
        dues = [Due(i, 0) for i in range(5)]
        pacer = OpenLoop(dues, clock, lambda _: done.append(pacer.is_done), ready.append)
        pacer.start(clock.now_ns() - MS)
        await until_done(pacer)
        pacer.stop()

    asyncio.run(main())
    assert done == [False, False, False, False, True]
    assert ready == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("slots", [1, 2, 7, 64])
def test_a_closed_loop_never_exceeds_its_slots_and_sends_each_request_once(slots: int) -> None:
    in_flight: deque[int] = deque()
    sent: list[int] = []
    most = 0

    async def main() -> None:
        nonlocal most
        clock = MonotonicClock()

        def send(index: int) -> None:
            nonlocal most
            sent.append(index)
            in_flight.append(index)
            most = max(most, len(in_flight))

        pacer = ClosedLoop([Due(i, 0) for i in range(40)], slots, clock, send)
        pacer.start(clock.now_ns())
        while not pacer.is_done or in_flight:
            await asyncio.sleep(0)
            if in_flight:
                pacer.note_end(in_flight.popleft(), clock.now_ns())
        pacer.stop()

    asyncio.run(main())
    assert sent == list(range(40))
    assert most <= slots


def test_a_pacer_that_was_stopped_sends_nothing_more() -> None:
    sent: list[int] = []

    async def main() -> None:
        clock = MonotonicClock()
        pacer = OpenLoop([Due(0, 20 * MS)], clock, sent.append)
        pacer.start(clock.now_ns())
        pacer.stop()
        await asyncio.sleep(0.03)

    asyncio.run(main())
    assert sent == []


def test_an_alarm_that_is_set_again_does_not_ring_for_the_instant_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the event loop's timer is used, as each end of a turn may set the alarm anew."""
    monkeypatch.setattr(alarm, "_open_timer", lambda: None)

    async def main() -> None:
        clock = MonotonicClock()
        bell = alarm.Alarm(clock, lambda: None)
        bell.set(clock.now_ns() + 10**12)
        before = bell._timer
        bell.set(clock.now_ns() + 10**11)
        assert before is not None
        assert before.cancelled()
        bell.close()

    asyncio.run(main())
