"""When requests go out: by due time, or by slots."""

import asyncio
from collections.abc import Callable

import pytest

from harness.core.clock import VirtualClock
from harness.core.workload import Arrival, Load, LoadKind, Workload
from harness.loadgen.pacing import send_all

MakeWorkload = Callable[..., Workload]


def test_an_open_loop_sends_at_absolute_due_times_whatever_became_of_the_others(
    workload: MakeWorkload,
) -> None:
    clock, sent = VirtualClock(start_ns=1000), []
    load = Load(LoadKind.POISSON, rate_rps=1.0)
    arrivals = workload(3, load, due_ns=(5, 7, 7)).arrivals

    async def send(arrival: Arrival) -> None:
        sent.append((arrival.request.index, clock.now_ns()))
        await asyncio.sleep(0)  # the answer takes longer than the gap

    asyncio.run(send_all(arrivals, load, 1000, clock, send))

    assert [index for index, _ in sent] == [0, 1, 2]
    assert all(at >= 1000 + arrivals[i].due_ns for i, at in sent)


def test_an_open_loop_has_no_cap_on_requests_in_flight(workload: MakeWorkload) -> None:
    load, all_in = Load(LoadKind.BACKLOG), asyncio.Event()
    in_flight = 0

    async def send(arrival: Arrival) -> None:
        nonlocal in_flight
        in_flight += 1
        if in_flight == 500:
            all_in.set()
        await all_in.wait()

    asyncio.run(send_all(workload(500).arrivals, load, 0, VirtualClock(), send))

    assert in_flight == 500


@pytest.mark.parametrize("concurrency", [1, 2, 7, 64])
def test_a_closed_loop_never_exceeds_its_slots_and_sends_each_request_once(
    workload: MakeWorkload, concurrency: int
) -> None:
    load = Load(LoadKind.CLOSED, concurrency=concurrency)
    in_flight, most, sent = 0, 0, []

    async def send(arrival: Arrival) -> None:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        sent.append(arrival.request.index)
        for _ in range(arrival.request.index % 3):
            await asyncio.sleep(0)
        in_flight -= 1

    asyncio.run(send_all(workload(40).arrivals, load, 0, VirtualClock(), send))

    assert sorted(sent) == list(range(40))
    assert most <= concurrency
