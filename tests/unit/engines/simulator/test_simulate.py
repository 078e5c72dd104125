"""The worked example of the eight agents: exact figures, derived by hand and by arithmetic."""

import random

import pytest

from engines.scheduling.policies import make_policy
from engines.scheduling.scheduler import Limits
from engines.simulator.cost_model import CostModel
from engines.simulator.figures import figures, throughput_ratio
from engines.simulator.simulate import SimulatedRequest, Simulation, repeat_forever, simulate
from harness.core.units import ms_to_ns
from harness.core.workload import Load, LoadKind
from workloads.arrivals import due_instants_ns
from workloads.catalog import load_spec

LIMITS = Limits(slots=8, kv_blocks=8 * 94)
MIX = tuple(
    SimulatedRequest(r.label, r.prompt_tokens, r.output_tokens)
    for r in load_spec("eight-agents").requests
)


def backlog(policy: str, prefill_ms_per_token: float = 0.0) -> Simulation:
    cost = CostModel(ms_to_ns(25), ms_to_ns(prefill_ms_per_token))
    return simulate(repeat_forever(MIX), make_policy(policy), LIMITS, cost, ms_to_ns(5000))


def completion(policy: str, mixes: int) -> Simulation:
    return simulate(MIX * mixes, make_policy(policy), LIMITS, CostModel(ms_to_ns(25)))


def poisson(policy: str, rate_rps: float, mixes: int) -> Simulation:
    load = Load(LoadKind.POISSON, rate_rps=rate_rps)
    due_ns = due_instants_ns(load, 8 * mixes, random.Random(1))
    requests = [
        SimulatedRequest(r.label, r.prompt_tokens, r.output_tokens, due)
        for r, due in zip(MIX * mixes, due_ns, strict=True)
    ]
    return simulate(requests, make_policy(policy), LIMITS, CostModel(ms_to_ns(25)))


@pytest.mark.parametrize("policy", ["static", "dynamic"])
def test_a_static_batch_runs_200_steps_for_765_tokens(policy: str) -> None:
    seen = figures(backlog(policy))

    assert (seen.steps, seen.elapsed_ms, seen.output_tokens) == (200, 5000.0, 765)
    assert seen.output_tok_s == pytest.approx(153.00, abs=1e-9)
    assert seen.padding_share == pytest.approx(0.521875, abs=1e-12)


@pytest.mark.parametrize(
    ("step", "generating"), [(1, 8), (20, 8), (21, 7), (81, 4), (91, 3), (100, 3), (180, 1)]
)
def test_a_static_batch_empties_as_its_answers_end(step: int, generating: int) -> None:
    record = backlog("static").steps[step - 1]

    assert (record.running, record.padded) == (generating, 8 - generating)


def test_continuous_batching_completes_16_requests_in_the_same_window() -> None:
    simulation = backlog("continuous")
    seen = figures(simulation)

    assert (seen.requests_completed, seen.requests_started, seen.output_tokens) == (16, 23, 1600)
    assert seen.output_tok_s == pytest.approx(320.0)
    assert (seen.padding_share, seen.busy_share) == (0.0, 1.0)
    static = figures(backlog("static"))
    assert throughput_ratio(seen, static, is_window=True) == pytest.approx(2.0915, abs=5e-5)


def test_the_ninth_request_starts_when_the_first_slot_is_freed() -> None:
    ninth = backlog("continuous").traces[8]

    assert ninth.admitted_ns == ms_to_ns(500)
    assert ninth.token_ns is not None
    assert ninth.token_ns[0] == ms_to_ns(525)


def test_requests_complete_at_the_instants_of_the_worked_example() -> None:
    traces = backlog("continuous").traces
    completed = {
        index + 1: (trace.request.label, trace.completed_ns // 1_000_000)
        for index, trace in enumerate(traces)
        if trace.completed_ns is not None
    }

    assert completed == {
        1: ("A", 500), 9: ("A", 1000), 2: ("B", 1125), 7: ("G", 1500), 3: ("C", 2000),
        10: ("B", 2125), 6: ("F", 2250), 4: ("D", 3000), 11: ("C", 3125), 17: ("A", 3625),
        5: ("E", 3750), 15: ("G", 3750), 14: ("F", 4375), 12: ("D", 4500), 18: ("B", 4750),
        8: ("H", 5000),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("prefill_ms", "steps", "completed", "started", "tokens"),
    [
        (0.02, 182, 14, 22, 1456),
        (0.05, 159, 12, 20, 1272),
        (0.1, 132, 9, 17, 1056),
        (0.2, 88, 6, 14, 704),
    ],
)
def test_a_stalling_prefill_costs_continuous_batching_what_was_computed(
    prefill_ms: float, steps: int, completed: int, started: int, tokens: int
) -> None:
    seen = figures(backlog("continuous", prefill_ms))

    assert seen.steps == steps
    assert seen.requests_completed == completed
    assert seen.requests_started == started
    assert seen.output_tokens == tokens


@pytest.mark.parametrize(("prefill_ms", "tokens"), [(0.02, 758), (0.05, 748), (0.1, 732)])
def test_a_stalling_prefill_costs_static_batching_once_a_batch(
    prefill_ms: float, tokens: int
) -> None:
    assert figures(backlog("static", prefill_ms)).output_tokens == tokens


@pytest.mark.parametrize(
    ("mixes", "static_ms", "continuous_ms", "ratio"),
    [
        (1, 5000, 5000, 1.0),
        (2, 10000, 8000, 1.25),
        (3, 15000, 10000, 1.5),
        (10, 50000, 27375, 1.826),
    ],
)
def test_the_ratio_run_to_completion_grows_with_the_number_of_mixes(
    mixes: int, static_ms: int, continuous_ms: int, ratio: float
) -> None:
    static, continuous = (figures(completion(p, mixes)) for p in ("static", "continuous"))

    assert (static.elapsed_ms, continuous.elapsed_ms) == (static_ms, continuous_ms)
    assert throughput_ratio(continuous, static, is_window=False) == pytest.approx(ratio, abs=5e-4)


def test_dynamic_batching_differs_from_static_when_requests_arrive_one_by_one() -> None:
    static, dynamic, continuous = (
        figures(poisson(p, rate_rps=0.5, mixes=50)) for p in ("static", "dynamic", "continuous")
    )

    assert static.e2e_ms_mean is not None
    assert dynamic.e2e_ms_mean is not None
    assert continuous.e2e_ms_mean is not None
    assert dynamic.e2e_ms_mean < 0.6 * static.e2e_ms_mean
    assert continuous.e2e_ms_mean < 0.7 * dynamic.e2e_ms_mean
    assert continuous.e2e_ms_mean == pytest.approx(2400, abs=10)


def test_padding_prompts_costs_the_difference_to_the_longest() -> None:
    limits = Limits(slots=8, kv_blocks=8 * 94, pad_prompts=True)
    cost = CostModel(ms_to_ns(25), ms_to_ns(0.1))
    padded = simulate(MIX, make_policy("static"), limits, cost)

    assert padded.steps[0].prefill_tokens == 8050
    assert padded.steps[0].prefill_padding_tokens == 8 * 1300 - 8050
    assert figures(padded).elapsed_ms == 5000 + 0.1 * 8 * 1300


def test_an_empty_simulation_has_no_rates() -> None:
    seen = figures(simulate((), make_policy("continuous"), LIMITS, CostModel(ms_to_ns(25))))

    assert seen.output_tok_s is None
    assert seen.padding_share is None
    assert seen.ttft_ms_mean is None


def test_a_preempted_request_starts_once_and_still_gets_all_its_tokens() -> None:
    requests = [SimulatedRequest("", 8, 12) for _ in range(3)]
    limits = Limits(slots=3, kv_blocks=6, block_tokens=4, capacity="max_utilization")
    seen = simulate(requests, make_policy("continuous"), limits, CostModel(1))

    assert [len(trace.token_ns or ()) for trace in seen.traces] == [12] * 3
    assert [trace.admitted_ns for trace in seen.traces] == [0, 0, 0]
    assert seen.preemptions == sum(step.preempted or 0 for step in seen.steps) > 0


def test_a_request_that_is_read_in_chunks_starts_with_the_first_of_them() -> None:
    limits = Limits(slots=1, kv_blocks=8, step_tokens=10, chunked_prefill=True)
    (trace,) = simulate(
        [SimulatedRequest("", 25, 2)], make_policy("continuous"), limits, CostModel(1)
    ).traces

    assert (trace.admitted_ns, trace.token_ns) == (0, [3, 4])


def test_prompts_that_begin_alike_are_read_once_with_a_prefix_cache() -> None:
    requests = [SimulatedRequest("", 40, 2, block_keys=(b"a", b"b")) for _ in range(2)]
    limits = Limits(slots=1, kv_blocks=8, prefix_cache=True)
    steps = simulate(requests, make_policy("continuous"), limits, CostModel(1)).steps

    assert [step.prefill_tokens for step in steps] == [40, 0, 8, 0]
    assert sum(step.prefix_hit_tokens or 0 for step in steps) == 32
