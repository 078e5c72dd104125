"""Sessions in virtual time: a later turn arrives when the one before has ended, and its delay."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.scheduling.policies import make_policy
from engines.scheduling.scheduler import Limits
from engines.simulator.cost_model import CostModel
from engines.simulator.simulate import TURNAROUND_NS, SimulatedRequest, Simulation, simulate
from harness.core.units import ms_to_ns
from harness.core.workload import After

COST = CostModel(ms_to_ns(10))
Turn = tuple[int, int]  # the delay before it in ms, and the tokens of its answer


def requests_of(sessions: list[list[Turn]], every_ms: int) -> list[SimulatedRequest]:
    requests: list[SimulatedRequest] = []
    for number, turns in enumerate(sessions):
        for place, (delay_ms, tokens) in enumerate(turns):
            after = After(len(requests) - 1, ms_to_ns(delay_ms)) if place else None
            due_ns = ms_to_ns(number * every_ms)
            requests.append(SimulatedRequest(f"{number}", 8, tokens, due_ns, after=after))
    return requests


def talk(
    sessions: list[list[Turn]],
    every_ms: int = 0,
    in_flight_most: int | None = None,
    policy: str = "continuous",
) -> tuple[Simulation, list[SimulatedRequest]]:
    requests = requests_of(sessions, every_ms)
    limits = Limits(4, kv_blocks=4 * 64)
    run = simulate(requests, make_policy(policy), limits, COST, in_flight_most=in_flight_most)
    return run, requests


def test_a_later_turn_arrives_its_delay_after_the_client_has_read_the_end() -> None:
    simulation, _ = talk([[(0, 3), (50, 2)]])
    first, second = simulation.traces

    assert first.completed_ns == ms_to_ns(30)
    assert second.request.due_ns == ms_to_ns(80) + TURNAROUND_NS
    assert second.completed_ns == second.request.due_ns + ms_to_ns(20)


def test_a_long_session_does_not_hold_up_the_one_that_comes_after_it() -> None:
    simulation, _ = talk([[(0, 20), (0, 1)], [(0, 1), (0, 1)]], every_ms=5)

    assert [trace.request.label for trace in simulation.traces] == ["0", "1", "1", "0"]


def test_in_a_closed_loop_a_turn_that_is_due_goes_before_a_new_session() -> None:
    simulation, _ = talk([[(0, 1), (15, 1)], *[[(0, 1)]] * 4], in_flight_most=1)

    assert [trace.request.label for trace in simulation.traces] == ["0", "1", "2", "0", "3", "4"]


@pytest.mark.parametrize(
    ("in_flight_most", "policy"), [(None, "continuous"), (1, "continuous"), (3, "dynamic")]
)
@settings(max_examples=25)
@given(
    sessions=st.lists(
        st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), min_size=1, max_size=4),
        min_size=1,
        max_size=8,
    )
)
def test_no_turn_arrives_before_the_one_before_has_ended_and_all_of_them_end(
    sessions: list[list[Turn]], in_flight_most: int | None, policy: str
) -> None:
    simulation, requests = talk(sessions, 7, in_flight_most, policy)

    assert simulation.completed == len(requests)
    by_session: dict[str, list[tuple[int, int]]] = {}
    for trace in simulation.traces:
        turns = by_session.setdefault(trace.request.label, [])
        turn = sessions[int(trace.request.label)][len(turns)]
        if turns:
            assert trace.request.due_ns >= turns[-1][1] + TURNAROUND_NS + ms_to_ns(turn[0])
        turns.append((trace.request.due_ns, trace.completed_ns or 0))
    assert [len(by_session[f"{i}"]) for i in range(len(sessions))] == list(map(len, sessions))
    if in_flight_most is not None:
        moments = [(due, 1) for turns in by_session.values() for due, _ in turns]
        moments += [(end, -1) for turns in by_session.values() for _, end in turns]
        in_flight = most = 0
        for _, change in sorted(moments):
            in_flight += change
            most = max(most, in_flight)
        assert most <= in_flight_most
