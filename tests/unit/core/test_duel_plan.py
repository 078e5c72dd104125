"""What a duel is asked for: its sides, how many pairs, and whose turn it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.core.duel_plan import DuelFlags, is_baseline_first, parse_pairs, plan_duel
from harness.core.engine_flags import EngineFlags, KnownEngines
from harness.core.engines_file import NamedEngine
from harness.core.errors import UsageError
from harness.core.load_flags import LoadFlags
from harness.core.plan import RunFlags, RunPlan

NOW = datetime(2030, 1, 1, tzinfo=UTC)
POLICIES = {"inhouse": ("continuous", "static", "dynamic"), "tensorrt-llm": ("A", "B")}
FILE = Path("engines.toml")


def named(**fixed: Any) -> NamedEngine:
    return NamedEngine("inhouse", fixed, FILE)


KNOWN = KnownEngines(
    POLICIES,
    {
        "wide": named(slots=32),
        "mine": named(policy="dynamic"),
        "far": named(attach_url="http://10.0.0.1:8000"),
    },
)


def plan(baseline: str, candidate: str, **changes: Any) -> RunPlan:
    run = RunFlags("mix", EngineFlags(model="m"), LoadFlags(), 1, 1, None, None, None, None)
    return plan_duel(DuelFlags(baseline, candidate, run=replace(run, **changes)), NOW, KNOWN)


@pytest.mark.parametrize(
    ("word", "name", "kind", "policy"),
    [
        ("inhouse", "inhouse-continuous", "inhouse", "continuous"),
        ("inhouse-static", "inhouse-static", "inhouse", "static"),
        ("tensorrt-llm-B", "tensorrt-llm-B", "tensorrt-llm", "B"),
        ("huggingface-static", "huggingface-static", "huggingface-static", None),
        ("vllm", "vllm", "vllm", None),
        ("wide", "wide-continuous", "inhouse", "continuous"),
        ("wide-static", "wide-static", "inhouse", "static"),
        ("mine", "mine", "inhouse", "dynamic"),
    ],
)
def test_a_side_is_called_as_run_calls_it(
    word: str, name: str, kind: str, policy: str | None
) -> None:
    spec = plan(word, "inhouse-dynamic").engines[0]

    assert (spec.name, spec.kind, spec.policy) == (name, kind, policy)


def test_both_sides_have_the_same_flags_and_the_longer_warmup() -> None:
    found = plan(
        "inhouse-static", "wide-static", engines=EngineFlags(model="m", slots=4, threads=2)
    )

    assert [spec.slots for spec in found.engines] == [4, 32]
    assert {spec.threads for spec in found.engines} == {2}
    assert found.warmup_requests == 32
    assert found.baseline == "inhouse-static"
    assert plan("inhouse", "wide", warmup_requests=0).warmup_requests == 0


def test_an_engine_may_be_run_against_itself() -> None:
    baseline, candidate = plan("inhouse", "inhouse").engines

    assert baseline == candidate


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("inhouse,vllm", "'inhouse,vllm' is not one engine"),
        (
            "inhouse-orca",
            "inhouse has no policy 'orca'; choose from inhouse-continuous, inhouse-static",
        ),
        ("", "'' is not one engine"),
        ("far", "far runs already at http://10.0.0.1:8000, but a duel starts each side afresh"),
    ],
)
def test_a_side_that_cannot_be_run_is_refused(word: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        plan("inhouse", word)


@pytest.mark.parametrize(
    ("text", "looks"), [("1", (1,)), ("3", (3,)), ("5,10", (5, 10)), (" 5 , 10 ", (5, 10))]
)
def test_pairs_are_one_number_or_two_looks(text: str, looks: tuple[int, ...]) -> None:
    assert parse_pairs(text) == looks


@pytest.mark.parametrize("text", ["", "0", "-1", "five", "5,", "10,5", "5,5", "5,10,15", "2.5"])
def test_pairs_that_are_no_plan_are_refused_with_their_value(text: str) -> None:
    with pytest.raises(UsageError, match=f"--pairs is {text!r}; give a number above 0"):
        parse_pairs(text)


def test_the_order_turns_round_with_every_pair() -> None:
    letters = ["AB" if is_baseline_first(number) else "BA" for number in range(1, 6)]

    assert letters == ["AB", "BA", "AB", "BA", "AB"]
