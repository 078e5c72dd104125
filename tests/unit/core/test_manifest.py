"""What a manifest keeps of a workload and of a machine."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.core.jsonable import from_json, to_json
from harness.core.manifest import (
    Ceilings,
    MachineFacts,
    RunManifest,
    WorkloadFacts,
    workload_facts,
)
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload

MACHINE = MachineFacts("AMD EPYC", 2, 8, (), "Linux", "3.11")


@pytest.mark.parametrize(
    ("prompts", "distinct"),
    [([(1,), (2,), (3,)], 3), ([(1,), (2,), (1,)], 2), ([(1,), (1, 1)], 2), ([], 0)],
)
def test_distinct_prompts_are_counted(prompts: list[tuple[int, ...]], distinct: int) -> None:
    arrivals = tuple(Arrival(0, Request(i, "A", p, 2)) for i, p in enumerate(prompts))
    workload = Workload("w", 0, 1, Load(LoadKind.BACKLOG), arrivals)
    assert workload_facts(workload).distinct_prompts == distinct


def test_the_facts_of_an_older_run_are_read_without_their_newer_keys(
    workload: Callable[..., Workload],
) -> None:
    facts = workload_facts(workload(3))
    older = to_json(facts)
    del older["distinct_prompts"]
    assert from_json(WorkloadFacts, older) == replace(facts, distinct_prompts=None)
    assert from_json(MachineFacts, {**to_json(MACHINE), "burn_in_s": None}) == MACHINE


def test_how_steady_a_machine_was_is_kept_and_makes_it_no_other_machine() -> None:
    timed = replace(MACHINE, burn_in_s=(0.02, 0.03))
    again = from_json(MachineFacts, to_json(timed))
    assert again.burn_in_s == (0.02, 0.03)
    assert timed == MACHINE


def test_a_manifest_of_before_ceilings_is_read_and_with_them_they_come_back(build: Any) -> None:
    manifest = build.manifest()
    older = to_json(manifest)
    del older["ceilings"]
    assert from_json(RunManifest, older) == manifest

    known = replace(manifest, ceilings=Ceilings("cpu", 2, 36e9, {"bfloat16": 2e12}, "2030"))
    assert from_json(RunManifest, to_json(known)) == known
