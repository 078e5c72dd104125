"""Which loads a sweep stops at, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.engine_flags import EngineFlags
from harness.core.errors import UsageError
from harness.core.load_flags import LoadFlags, parse_load
from harness.core.load_points import (
    Axis,
    SweepFlags,
    load_at,
    parse_points,
    requests_at,
    require_window,
)
from harness.core.plan import RunFlags
from harness.core.workload import LoadKind

RUN = RunFlags("mix", EngineFlags(model="m"), LoadFlags(), None, 1, None, None, None, None)
NONE = SweepFlags(run=RUN)


def test_rates_are_taken_as_they_are_listed() -> None:
    found = parse_points(replace(NONE, rates="0.2, 0.5,1,2"))

    assert found.axis is Axis.RATE
    assert found.levels == (0.2, 0.5, 1, 2)


def test_concurrencies_are_whole_numbers() -> None:
    assert parse_points(replace(NONE, concurrencies="1,2,4")).levels == (1, 2, 4)


def test_points_lie_evenly_as_ratios_between_both_ends() -> None:
    levels = parse_points(replace(NONE, points=4, first=0.5, last=4)).levels

    assert levels == (0.5, 1, 2, 4)


def test_d19_every_point_is_a_rate_of_its_own_and_none_is_rounded_to_a_whole_number() -> None:
    """inference-perf#229: a sweep of ten from 1 to 4 had the rates 1 1 2 2 2 3 3 3 4 4."""
    levels = parse_points(replace(NONE, points=10, first=1, last=4)).levels

    assert len(set(levels)) == 10
    assert sum(level.is_integer() for level in levels) == 2, "both ends"


def test_points_of_a_closed_loop_are_whole_and_each_there_once() -> None:
    found = parse_points(replace(NONE, points=6, first=1, last=8, is_closed=True))

    assert found.axis is Axis.CONCURRENCY
    assert found.levels == (1, 2, 3, 5, 8), "1.5 and 2.3 are both about 2"


@pytest.mark.parametrize(
    ("arrivals", "axis", "kind"),
    [
        (LoadFlags(), Axis.RATE, LoadKind.POISSON),
        (LoadFlags(arrivals="constant"), Axis.RATE, LoadKind.CONSTANT),
        (LoadFlags(cv=2), Axis.RATE, LoadKind.GAMMA),
        (LoadFlags(), Axis.CONCURRENCY, LoadKind.CLOSED),
    ],
)
def test_a_level_becomes_a_load(arrivals: LoadFlags, axis: Axis, kind: LoadKind) -> None:
    load = parse_load(load_at(arrivals, axis, 4))

    assert load.kind is kind
    assert (load.rate_rps or load.concurrency) == 4


def test_arrivals_say_nothing_of_a_closed_loop() -> None:
    with pytest.raises(UsageError, match="says nothing without --rate"):
        parse_load(load_at(LoadFlags(arrivals="constant"), Axis.CONCURRENCY, 4))


def test_a_rate_needs_as_many_requests_as_arrive_and_a_slot_ten_turns() -> None:
    assert requests_at(Axis.RATE, 2.5, 20) == 50
    assert requests_at(Axis.CONCURRENCY, 8, 20) == 80


WRONG = [
    ({}, "no points are given"),
    ({"rates": "1,2", "concurrencies": "1,2"}, "--rates and --concurrencies are given"),
    ({"rates": "1"}, "a curve needs 2 at least"),
    ({"rates": ""}, "no number"),
    ({"rates": "2,1"}, "rising"),
    ({"rates": "1,1"}, "rising"),
    ({"rates": "1,x"}, "'x'"),
    ({"rates": "1,nan"}, "--rates is nan"),
    ({"rates": "0,1"}, "--rates is 0"),
    ({"rates": "1,inf"}, "--rates is inf"),
    ({"concurrencies": "1,2.5"}, "--concurrencies has 2.5"),
    ({"rates": "1,2", "first": 1.0}, "leave out --from"),
    ({"rates": "1,2", "is_closed": True}, "--closed is for --points"),
    ({"points": 4, "first": 1.0}, "needs both --from and --to"),
    ({"points": 4, "first": 2.0, "last": 2.0}, "must be above --from"),
    ({"points": 4, "first": 0.0, "last": 2.0}, "--from is 0"),
    ({"points": 1, "first": 1.0, "last": 2.0}, "--points is 1"),
    ({"points": 10, "first": 1.0, "last": 1.005}, "so many rates of four digits"),
    ({"points": 101, "first": 1.0, "last": 2.0}, "--points is 101"),
    ({"points": 3, "first": 1.0, "last": 1.2, "is_closed": True}, "makes 1 point(s)"),
]


@pytest.mark.parametrize(("changes", "part"), WRONG, ids=[str(changes) for changes, _ in WRONG])
def test_what_is_wrong_is_named(changes: dict[str, object], part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_points(replace(NONE, **changes))  # type: ignore[arg-type]

    assert part in str(caught.value)


def test_a_closed_loop_has_no_window() -> None:
    with pytest.raises(UsageError, match="--window-s is 30"):
        require_window(replace(NONE, window_s=30.0), Axis.CONCURRENCY, 20)
    assert require_window(replace(NONE, window_s=30.0), Axis.RATE, 20) == 30
    assert require_window(NONE, Axis.CONCURRENCY, 20) == 20


def test_rates_that_jump_are_all_multiplied_so_that_their_mean_is_the_point() -> None:
    load = parse_load(load_at(LoadFlags(mmpp="40:5,0:15"), Axis.RATE, 2.0))

    assert load.kind is LoadKind.MMPP
    assert [(phase.rate_rps, phase.mean_s) for phase in load.phases] == [(8, 5), (0, 15)]
    with pytest.raises(UsageError, match="give only one of"):
        parse_load(load_at(LoadFlags(mmpp="40:5,0:15"), Axis.CONCURRENCY, 2.0))
