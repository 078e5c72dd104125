from __future__ import annotations

from typing import Any

from harness.core.engine import EngineFacts
from harness.core.manifest import Ceilings
from harness.gate.cells import Table
from reports.method import method_tables


def facts(table: Table) -> dict[str, tuple[str, ...]]:
    return {row[0].text: tuple(cell.text for cell in row[1:]) for row in table.rows}


def test_one_run_has_one_table(build: Any) -> None:
    (table,) = method_tables([build.manifest()])
    assert table.title == "This run"
    assert facts(table)["seed"] == ("1",)


def test_what_differs_stands_apart_from_what_is_shared(build: Any) -> None:
    other = build.manifest(run_id="run-2", facts=EngineFacts(settings={"kv_blocks": 800}))
    shared, differing = map(facts, method_tables([build.manifest(), other]))
    assert shared["machine"] == ("2-core AMD EPYC",)
    assert differing["run"] == ("run-1", "run-2")
    assert differing["setting kv_blocks"] == ("not said", "800")
    assert not set(shared) & set(differing)


def test_an_engine_that_was_not_launched_is_said_to_be_attached(build: Any) -> None:
    (table,) = method_tables([build.manifest()])
    assert facts(table)["launched as"] == ("not launched: attached to a running server",)


def test_the_number_of_distinct_prompts_is_told_where_it_is_known(build: Any) -> None:
    (known,) = method_tables([build.manifest(workload=build.workload(distinct_prompts=4))])
    (unknown,) = method_tables([build.manifest()])
    assert facts(known)["requests"] == ("32",)
    assert facts(known)["distinct prompts"] == ("4",)
    assert facts(unknown)["distinct prompts"] == ("not said",)


def test_a_command_is_quoted_so_that_it_can_be_pasted(build: Any) -> None:
    (table,) = method_tables([build.manifest(command=("batchmark", "run", "my mix"))])
    assert facts(table)["command"] == ("batchmark run 'my mix'",)


def test_why_a_run_failed_is_told(build: Any) -> None:
    (table,) = method_tables([build.manifest(failure="the engine died")])
    assert facts(table)["status"] == ("complete: the engine died",)


def test_the_ceilings_that_a_run_is_held_against_are_told(build: Any) -> None:
    ceilings = Ceilings("cpu", 2, 36e9, {"bfloat16": 2e12}, "2030-01-01")
    (known,) = method_tables([build.manifest(ceilings=ceilings)])
    (unknown,) = method_tables([build.manifest()])
    said = "memory reads 36.0 GB/s, bfloat16 products 2.00 TFLOP/s (cpu, 2 threads, 2030-01-01)"
    assert facts(known)["ceilings"] == (said,)
    assert facts(unknown)["ceilings"] == ("not said",)
