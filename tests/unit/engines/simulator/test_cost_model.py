"""What a step costs, by the counts of its plan."""

import pytest

from engines.scheduling.step import Decode, KvUse, Prefill, StepPlan
from engines.simulator.cost_model import CostModel

COST = CostModel(
    step_fixed_ns=1,
    prefill_token_ns=10,
    prefill_pass_ns=100,
    prefill_context_token_ns=1_000,
    decode_pass_ns=10_000,
    decode_row_ns=100_000,
    decode_context_token_ns=1_000_000,
)
# 3 tokens and 1 of padding stand before 1 + 2 + 3 + 4 tokens; a later chunk of 2 before 6 and 7.
WHOLE = Prefill(0, first=0, tokens=3, padding_tokens=1, blocks=())
CHUNK = Prefill(1, first=5, tokens=2, padding_tokens=0, blocks=())
ROW = Decode(2, position=4, blocks=())
PADDING = Decode(3, position=1, blocks=(), is_padding=True)


def plan(prefills: tuple[Prefill, ...] = (), decodes: tuple[Decode, ...] = ()) -> StepPlan:
    return StepPlan(1, prefills, decodes, slots=4, waiting=0, kv=KvUse(0, 1, 0, 0, 0))


@pytest.mark.parametrize(
    ("step", "prefill_ns", "decode_ns"),
    [
        (plan((WHOLE,)), 100 + 4 * 10 + 10 * 1_000, 0),
        (plan((WHOLE, CHUNK)), 100 + 6 * 10 + 23 * 1_000, 0),
        (plan((), (ROW,)), 0, 10_000 + 100_000 + 5_000_000),
        (plan((CHUNK,), (ROW, PADDING)), 100 + 20 + 13_000, 10_000 + 200_000 + 7_000_000),
    ],
)
def test_each_pass_costs_what_it_computes(step: StepPlan, prefill_ns: int, decode_ns: int) -> None:
    assert COST.prefill_ns(step) == prefill_ns
    assert COST.decode_ns(step) == decode_ns
    assert COST.step_ns(step) == 1 + prefill_ns + decode_ns


def test_parts_of_a_nanosecond_add_up_before_they_are_rounded() -> None:
    cost = CostModel(0.4, decode_context_token_ns=0.3)

    assert cost.step_ns(plan((), (ROW, ROW))) == 3
