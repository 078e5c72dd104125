"""How the work is split between sending processes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.workload import Load, LoadKind, Workload
from harness.loadgen.crew import Shares, split, workers_for
from harness.loadgen.pacing import Due
from harness.loadgen.wire import parse_target

TARGET = parse_target("http://127.0.0.1:1")


def shares(count: int, load: Load) -> Shares:
    dues = tuple(Due(i, i) for i in range(count))
    return Shares(TARGET, load, dues, {i: b"%d" % i for i in range(count)})


@given(count=st.integers(0, 60), workers=st.integers(1, 9), slots=st.none() | st.integers(1, 20))
def test_every_request_goes_to_one_worker_and_every_slot_is_given_away(
    count: int, workers: int, slots: int | None
) -> None:
    load = Load(LoadKind.BACKLOG) if slots is None else Load(LoadKind.CLOSED, concurrency=slots)
    plans = split(shares(count, load), workers, Path())

    sent = sorted((due.index, p.payloads[due.index]) for p in plans for due in p.dues)
    assert sent == [(i, b"%d" % i) for i in range(count)]
    assert len({plan.spool for plan in plans}) == len(plans)
    if slots is not None:
        assert sum(plan.load.concurrency or 0 for plan in plans) == slots
        assert all(plan.load.concurrency for plan in plans)


@pytest.mark.parametrize(
    ("count", "load", "cores", "workers"),
    [
        (32, Load(LoadKind.BACKLOG), 2, 1),
        (5000, Load(LoadKind.BACKLOG), 2, 1),
        (5000, Load(LoadKind.BACKLOG), 16, 5),
        (5000, Load(LoadKind.CLOSED, concurrency=1500), 16, 2),
        (5000, Load(LoadKind.CLOSED, concurrency=8), 16, 1),
        (0, Load(LoadKind.BACKLOG), 16, 1),
    ],
)
def test_there_is_a_worker_for_every_thousand_streams_as_far_as_cores_go(
    workload: Callable[..., Workload], count: int, load: Load, cores: int, workers: int
) -> None:
    assert workers_for(workload(count, load), cores) == workers
