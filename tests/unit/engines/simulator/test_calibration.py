"""A cost model is got back from the step log of an engine that obeys it, noise and all."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import astuple, fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.scheduling.step import Decode, KvUse, Prefill, StepPlan
from engines.simulator.calibration import Calibration, beyond, cost_rows
from engines.simulator.calibration import fit_cost as fit_cost_of
from engines.simulator.cost_model import CostModel
from engines.step_log import StepTimes, step_record
from harness.core.errors import UsageError
from harness.core.record import StepRecord

# A small model on a CPU: reading prompts takes 0.7 ms a token, decoding about 60 ms a step.
CPU = CostModel(
    step_fixed_ns=700_000,
    prefill_token_ns=700_000,
    prefill_pass_ns=40_000_000,
    prefill_context_token_ns=300,
    decode_pass_ns=9_000_000,
    decode_row_ns=1_500_000,
    decode_context_token_ns=4_000,
)
COSTS = [field.name for field in fields(CostModel)]
NO_KV = KvUse(0, 1, 0, 0, 0)


def plan_of(index: int, prompts: Sequence[int], positions: Sequence[int]) -> StepPlan:
    prefills = tuple(Prefill(i, 0, tokens, 0, ()) for i, tokens in enumerate(prompts))
    decodes = tuple(Decode(100 + i, p, (), is_padding=i % 3 == 2) for i, p in enumerate(positions))
    return StepPlan(index, prefills, decodes, slots=32, waiting=1, kv=NO_KV)


def any_length(rng: random.Random) -> int:
    return rng.randint(20, 1500)


def mostly_short(rng: random.Random) -> int:
    return round(20 * 75 ** rng.random())


def varied_plans(
    rng: random.Random, count: int = 300, prompt: Callable[[random.Random], int] = any_length
) -> list[StepPlan]:
    """Steps of 1 to 16 rows over up to 2,000 tokens; one in eight reads 1 to 3 prompts."""
    return [
        plan_of(
            index,
            [prompt(rng) for _ in range(rng.randint(1, 3))] if index % 8 == 0 else [],
            [rng.randint(1, 2000) for _ in range(rng.randint(1, 16))],
        )
        for index in range(count)
    ]


def log_of(
    plans: Sequence[StepPlan],
    cost: CostModel,
    rng: random.Random,
    noise: float = 0,
    held: float = 0,
) -> list[StepRecord]:
    """What an engine of `cost` logs, with normal noise; a share `held` is held up up to 10 times."""
    now_ns, steps = 0, []
    for plan in plans:
        halves = []
        for exact_ns in (cost.prefill_ns(plan), cost.decode_ns(plan)):
            slower = rng.uniform(1.3, 10) if rng.random() < held else 1.0
            halves.append(round(exact_ns * slower * max(rng.gauss(1, noise), 0.5)))
        duration_ns = sum(halves) + round(cost.step_fixed_ns)
        steps.append(step_record(plan, StepTimes(now_ns, duration_ns, *halves)))
        now_ns += duration_ns
    return steps


def worth(cost: CostModel, plans: Sequence[StepPlan]) -> dict[str, float]:
    """What each cost alone adds to the mean step, by name."""
    free = CostModel(0)
    alone = {name: replace(free, **{name: getattr(cost, name)}) for name in COSTS}
    return {
        name: sum(one.step_ns(plan) for plan in plans) / len(plans) for name, one in alone.items()
    }


def fit_cost(steps: Sequence[StepRecord]) -> Calibration:
    return fit_cost_of(steps, "a run")


def codes(calibration: Calibration) -> list[str]:
    return [caution.code for caution in calibration.cautions]


positive = st.floats(0.2, 5)


@st.composite
def costs(draw: st.DrawFn) -> CostModel:
    """Those of CPU, each a fifth to five times as high."""
    return CostModel(*(value * draw(positive) for value in astuple(CPU)))


@settings(max_examples=30)
@given(costs(), st.integers(0, 2**32))
def test_a_log_without_noise_gives_every_cost_back(cost: CostModel, seed: int) -> None:
    rng = random.Random(seed)
    found = fit_cost(log_of(varied_plans(rng), cost, rng))

    assert astuple(found.cost) == pytest.approx(astuple(cost), rel=1e-3)
    assert found.cautions == ()
    assert found.decode.predicted_share == pytest.approx(1, abs=1e-6)


NOISE, HELD = 0.03, 0.06
# Steps that were held up count as misses of Huber's 1.345 deviations, all on one side: that moves
# every cost up alike, by 0.06 * 1.345 / (0.94 * 0.82) = 0.105 deviations, 0.3 %.
MOVED = 0.005
# And they add a third to the variance. Of costs that miss by normal errors 1 in 10^8 is further off.
DEVIATIONS = 6 * math.sqrt(4 / 3)
# A step that alone says so much of a cost may be one that was held up, which no fit can know then.
LEVERAGE = 0.2


def deviations(cost: CostModel, plans: Sequence[StepPlan], names: Sequence[str]) -> list[float]:
    """By how much noise moves what each cost adds to the mean step, and their sum: least squares.

    With relative noise s, and rows of A that say which share of its half of a step each cost is,
    the covariance of the costs' multiples is s^2 (A'A)^-1. Steps beyond LEVERAGE are left out.
    """
    half = type(cost).prefill_ns if names[0].startswith("prefill") else type(cost).decode_ns
    alone = [replace(CostModel(0), **{name: getattr(cost, name)}) for name in names]
    added = np.array([[float(half(one, plan)) for one in alone] for plan in plans])
    busy = added[added.sum(axis=1) > 0]
    shares = busy / busy.sum(axis=1, keepdims=True)
    leverage = np.einsum("ij,jk,ik->i", shares, np.linalg.inv(shares.T @ shares), shares)
    shares = shares[leverage < LEVERAGE]
    mean = added.mean(axis=0)
    of_noise = NOISE**2 * np.linalg.inv(shares.T @ shares) * np.outer(mean, mean)
    return [*np.sqrt(np.diag(of_noise)), math.sqrt(of_noise.sum())]


@settings(max_examples=30)
@given(costs(), st.integers(0, 2**32))
def test_noise_and_steps_that_were_held_up_hardly_move_the_costs(
    cost: CostModel, seed: int
) -> None:
    rng = random.Random(seed)
    plans = varied_plans(rng, 600, mostly_short)
    found = fit_cost(log_of(plans, cost, rng, noise=NOISE, held=HELD))

    known, fitted = worth(cost, plans), worth(found.cost, plans)
    for half in ("prefill", "decode"):
        names = [name for name in COSTS if name.startswith(half)]
        pairs = [(known[name], fitted[name]) for name in names]
        pairs.append((sum(of_known for of_known, _ in pairs), sum(of_fit for _, of_fit in pairs)))
        for (expected, got), noise in zip(pairs, deviations(cost, plans, names), strict=True):
            assert abs(got - expected) <= MOVED * expected + DEVIATIONS * noise, names
    assert found.cost.step_fixed_ns == pytest.approx(cost.step_fixed_ns, abs=2)
    assert found.decode.held_out_miss_median < 0.05
    assert found.decode.predicted_share < 0.95


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_no_cost_is_ever_negative(seed: int) -> None:
    rng = random.Random(seed)
    found = fit_cost(log_of(varied_plans(rng, 60), CPU, rng, noise=0.5, held=0.3))

    assert min(astuple(found.cost)) >= 0


def test_steps_of_equal_rows_count_the_rows_in_the_pass_and_say_so() -> None:
    rng = random.Random(1)
    plans = [
        plan_of(i, [500 + i] if i % 5 == 0 else [], [rng.randint(1, 2000) for _ in range(8)])
        for i in range(100)
    ]
    found = fit_cost(log_of(plans, CPU, rng))

    assert found.cost.decode_row_ns == 0
    assert found.cost.decode_pass_ns == pytest.approx(9_000_000 + 8 * 1_500_000, rel=1e-3)
    assert found.cost.decode_context_token_ns == pytest.approx(4_000, rel=1e-3)
    told = [c.message for c in found.cautions if c.code == "COST_NOT_TOLD_APART"]
    assert any("decode row" in message and "decode pass" in message for message in told)


def test_prompts_of_one_length_are_counted_by_the_token_and_say_so() -> None:
    rng = random.Random(1)
    plans = [
        plan_of(i, [1000] if i % 5 == 0 else [], [rng.randint(1, 2000)] * (1 + i % 8))
        for i in range(100)
    ]
    found = fit_cost(log_of(plans, CPU, rng))

    one = CPU.prefill_ns(plans[0])
    assert found.cost.prefill_token_ns == pytest.approx(one / 1000)
    assert (found.cost.prefill_pass_ns, found.cost.prefill_context_token_ns) == (0, 0)
    assert codes(found) == ["COST_NOT_TOLD_APART"] * 2


def test_a_machine_that_disturbs_half_of_the_steps_is_said_to_fit_badly() -> None:
    rng = random.Random(1)
    found = fit_cost(log_of(varied_plans(rng), CPU, rng, noise=0.4))

    assert "COST_FITS_BADLY" in codes(found)


def test_time_that_held_up_steps_took_is_said_to_be_left_out() -> None:
    rng = random.Random(1)
    found = fit_cost(log_of(varied_plans(rng), CPU, rng, held=0.1))

    assert found.cost.decode_row_ns == pytest.approx(CPU.decode_row_ns, rel=0.01)
    assert found.decode.predicted_share < 0.9
    assert codes(found) == ["COST_LEAVES_TIME_OUT"] * 2


def test_the_time_between_two_steps_is_outside_the_model_unless_nothing_ran() -> None:
    rng = random.Random(1)
    plans = [
        plan_of(plan.index, [100 + plan.index], []) if plan.index % 3 == 0 else plan
        for plan in varied_plans(rng)
    ]
    steps, late_ns = [], 0
    for step in log_of(plans, CPU, rng):
        late_ns += 100_000
        if step.decode_tokens == 0:
            late_ns += 5_000_000_000  # waited for an arrival
        steps.append(replace(step, started_ns=step.started_ns + late_ns, waiting=0))

    assert fit_cost(steps).cost.step_fixed_ns == pytest.approx(800_000, abs=2)


def test_what_lies_beyond_the_fitted_steps_is_said() -> None:
    rng = random.Random(1)
    steps = log_of(varied_plans(rng), CPU, rng)
    found = fit_cost(steps)
    wide = log_of([plan_of(i, [], [100] * 24) for i in range(2)], CPU, rng)
    long = log_of([plan_of(0, [4000], [100])], CPU, rng)

    assert beyond(found, steps) == ()
    assert ["24 to 24 rows" in c.message for c in beyond(found, wide)] == [True]
    assert ["4,000 tokens" in c.message for c in beyond(found, long)] == [True]


def test_too_few_steps_are_refused_with_their_number() -> None:
    rng = random.Random(1)
    steps = log_of(varied_plans(rng, 24), CPU, rng)

    with pytest.raises(UsageError, match=r"3 steps that read prompts and 24 that decode.*4 and 20"):
        fit_cost(steps)
    with pytest.raises(UsageError, match="0 steps that read prompts and 0 that decode"):
        fit_cost(())


def test_a_log_without_counts_of_context_is_refused_with_the_way_out() -> None:
    rng = random.Random(1)
    steps = log_of(varied_plans(rng), CPU, rng)
    steps[7] = replace(steps[7], decode_context_tokens=None)

    with pytest.raises(UsageError, match=r"step 7 does not say.*repeat the run"):
        fit_cost(steps)


def test_every_cost_has_a_row_in_words() -> None:
    rows = dict(cost_rows(CPU))

    assert sorted(rows.values()) == sorted(astuple(CPU))
    assert rows["each prompt token"] == 700_000
    assert rows["each step, outside the model"] == 700_000
