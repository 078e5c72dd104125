"""What a ladder's steps are worth, where the truth is known."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyzer.estimators import t_quantile
from harness.analyzer.summary import MetricValue
from harness.core.jsonable import from_json, to_json
from harness.gate.ablation import METRICS, Ablation, AblationLevel, climb, worth
from harness.gate.attempt import RunOutcome

TRUTH = (1.0, 1.02, 1.5, 0.9)


def values(numbers: Sequence[float | None], reason: str = "n/a") -> list[MetricValue]:
    return [MetricValue("output_tok_s", n, None if n is not None else reason) for n in numbers]


def ladder(noise: Sequence[float], steps: Sequence[float] = TRUTH) -> list[list[MetricValue]]:
    """Levels whose steps have known ratios, each round slower or faster as a whole by `noise`."""
    heights = [math.prod(steps[: i + 1]) for i in range(len(steps))]
    return [values([30 * height * n for n in noise]) for height in heights]


def test_steps_made_with_a_known_ratio_are_found() -> None:
    found = climb(ladder([1, 1, 1]))

    assert [v.to_before.ratio for v in found[1:] if v.to_before] == pytest.approx(TRUTH[1:])
    assert [v.value for v in found] == pytest.approx([30, 30.6, 45.9, 41.31])
    assert found[0].to_before is found[0].to_first is None


@given(st.lists(st.floats(0.2, 5), min_size=3, max_size=6))
def test_noise_that_is_common_to_a_round_cancels(noise: list[float]) -> None:
    for truth, value in zip(TRUTH[1:], climb(ladder(noise))[1:], strict=True):
        assert value.to_before is not None
        assert (value.to_before.lo, value.to_before.hi) == pytest.approx((truth, truth), rel=1e-9)
        assert value.to_before.rounds == len(noise)


def test_the_interval_is_students_on_the_log_ratios_of_the_rounds() -> None:
    logs = (0.08, 0.12, 0.10)
    found = worth(values([10, 20, 40]), values([b * math.exp(x) for b, x in zip((10, 20, 40), logs, strict=True)]))  # fmt: skip
    half = t_quantile(0.975, 2) * 0.02 / math.sqrt(3)

    assert found.ratio == pytest.approx(math.exp(0.1))
    assert (found.lo, found.hi) == pytest.approx((math.exp(0.1 - half), math.exp(0.1 + half)))
    assert found.is_clear


def test_a_step_whose_interval_holds_1_is_not_clear() -> None:
    found = worth(values([10, 10, 10]), values([11, 9, 10.2]))

    assert found.lo is not None
    assert found.hi is not None
    assert found.lo < 1 < found.hi
    assert not found.is_clear


@pytest.mark.parametrize("rounds", [1, 2])
def test_few_rounds_give_a_ratio_without_an_interval_and_say_so(rounds: int) -> None:
    found = worth(values([10] * rounds), values([15] * rounds))

    assert found.ratio == pytest.approx(1.5)
    assert (found.lo, found.hi) == (None, None)
    assert not found.is_clear
    assert found.reason == f"{rounds} round(s) give no interval (--rounds 3 does)"


@given(st.lists(st.lists(st.floats(0.1, 1e4), min_size=3, max_size=3), min_size=2, max_size=6))
def test_the_steps_multiply_up_to_the_whole(numbers: list[list[float]]) -> None:
    found = climb([values(level) for level in numbers])
    steps = [v.to_before.ratio for v in found if v.to_before and v.to_before.ratio]

    assert found[-1].to_first is not None
    assert math.prod(steps) == pytest.approx(found[-1].to_first.ratio, rel=1e-6)
    for (below, above), step in zip(pairwise(found), steps, strict=True):
        assert above.value / below.value == pytest.approx(step, rel=1e-6)


def test_a_round_that_does_not_count_for_a_level_takes_its_pair_with_it() -> None:
    base, other = values([10, 20, 40, 80]), values([11, None, 44, 88], "INVALID: V05 too few")
    found = worth(base, other)

    assert (found.rounds, found.ratio) == (3, pytest.approx(1.1))


def test_a_level_that_never_counted_has_no_ratio_and_the_one_above_it_only_to_the_first() -> None:
    levels = [values([10] * 3), values([None] * 3, "FAILED: it died"), values([20] * 3)]
    first, failed, last = climb(levels)

    assert (failed.value, failed.reason) == (None, "FAILED: it died")
    assert failed.to_before is not None
    assert failed.to_before.ratio is None
    assert failed.to_before.reason == "FAILED: it died"
    assert last.to_before is not None
    assert last.to_before.ratio is None
    assert last.to_before.reason == "the level compared to: FAILED: it died"
    assert last.to_first is not None
    assert last.to_first.ratio == pytest.approx(2)


def test_a_zero_has_no_ratio() -> None:
    (_, found) = climb([values([0.0, 1.0, 1.0]), values([1.0, 1.0, 1.0])])

    assert found.to_before is not None
    assert found.to_before.reason == "a value is 0, so there is no ratio"


def ablation(known: Sequence[str]) -> Ablation:
    """Two levels that have a value of each metric in `known`."""
    columns = [
        climb([[MetricValue(name, 1.0 if name in known else None, "too few")] for _ in range(2)])
        for name in METRICS
    ]
    levels = tuple(
        AblationLevel(
            key=key,
            name=f"inhouse-{key}",
            adds=(f"{key} batching",),
            runs=(RunOutcome(f"inhouse-{key}", "VALID"),),
            values=tuple(column[i] for column in columns),
            remarks=(),
        )
        for i, key in enumerate(("static", "dynamic"))
    )
    return Ablation("inhouse-static", "m, box, mix", ("batchmark",), "1", "now", (1,), levels, ())


@pytest.mark.parametrize(
    ("known", "shown"),
    [
        (METRICS, ("output_tok_s", "ttft_s_p50", "ttft_s_p99", "tpot_s_p99")),
        (("ttft_s_max", "tpot_s_p99"), ("output_tok_s", "ttft_s_p50", "ttft_s_max", "tpot_s_p99")),
        ((), ("output_tok_s", "ttft_s_p50", "ttft_s_p99", "tpot_s_p99")),
    ],
)
def test_the_longest_stands_in_only_for_a_p99_that_no_level_has(
    known: Sequence[str], shown: Sequence[str]
) -> None:
    assert ablation(known).shown == shown


def test_an_ablation_is_read_back_from_json_as_it_was() -> None:
    made = ablation(METRICS)
    data = json.loads(json.dumps(to_json(made), allow_nan=False))

    assert data["schema_version"] == 1
    assert from_json(Ablation, data) == made
