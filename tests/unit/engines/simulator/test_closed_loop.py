"""A closed loop in virtual time: so many in flight, and the next one when one has ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.scheduling.policies import make_policy
from engines.scheduling.scheduler import Limits
from engines.simulator.cost_model import CostModel
from engines.simulator.figures import figures
from engines.simulator.simulate import TURNAROUND_NS, SimulatedRequest, Simulation, simulate
from harness.core.units import ms_to_ns

COST = CostModel(ms_to_ns(25))


def loop(
    lengths: list[int], in_flight_most: int, slots: int = 4, policy: str = "continuous"
) -> Simulation:
    requests = [SimulatedRequest(f"{i}", 8, length) for i, length in enumerate(lengths)]
    limits = Limits(slots, kv_blocks=slots * 64)
    return simulate(requests, make_policy(policy), limits, COST, in_flight_most=in_flight_most)


def test_one_in_flight_is_one_answer_after_another() -> None:
    traces = loop([3, 2, 1], in_flight_most=1).traces

    dues = [trace.request.due_ns for trace in traces]
    ends = [trace.completed_ns for trace in traces]
    assert dues == [0, ms_to_ns(75) + TURNAROUND_NS, ms_to_ns(125) + 2 * TURNAROUND_NS]
    assert ends == [due + ms_to_ns(25 * n) for due, n in zip(dues, (3, 2, 1), strict=True)]


def test_a_next_request_joins_the_step_after_the_one_that_has_begun_meanwhile() -> None:
    simulation = loop([1, 3, 1], in_flight_most=2)

    assert [step.running for step in simulation.steps] == [2, 1, 2]
    assert simulation.traces[2].admitted_ns == ms_to_ns(50)


def test_a_last_batch_that_nobody_fills_is_begun_once_no_more_will_come() -> None:
    simulation = loop([2] * 6, in_flight_most=4, policy="static")

    assert simulation.completed == 6
    assert [step.running for step in simulation.steps] == [4, 4, 2, 2]


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=20),
    st.integers(1, 6),
    st.integers(1, 4),
)
def test_never_more_than_so_many_are_in_flight_and_all_of_them_end(
    lengths: list[int], in_flight_most: int, slots: int
) -> None:
    simulation = loop(lengths, in_flight_most, slots)

    moments = [(t.request.due_ns, 1) for t in simulation.traces]
    moments += [(t.completed_ns or 0, -1) for t in simulation.traces]
    in_flight = most = 0
    for _, change in sorted(moments):
        in_flight += change
        most = max(most, in_flight)
    assert most == min(in_flight_most, len(lengths))
    assert simulation.completed == len(lengths)


def test_percentiles_are_times_that_occurred() -> None:
    seen = figures(loop([4, 1, 1, 1], in_flight_most=1, slots=1))

    assert (seen.ttft_ms_p50, seen.ttft_ms_p99) == (25, 25)
    assert seen.tpot_ms_mean == pytest.approx(25)
    backlog = figures(
        simulate([SimulatedRequest("a", 8, 2)] * 4, make_policy("continuous"), Limits(1, 64), COST)
    )
    assert (backlog.ttft_ms_p50, backlog.ttft_ms_p99) == (75, 175)
    assert backlog.ttft_ms_mean == pytest.approx(100)
